package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// file is the part of a tokenizer.json that decides on ids. Its decoder,
// truncation and padding do not.
type file struct {
	Version       string            `json:"version"`
	Truncation    json.RawMessage   `json:"truncation"`
	Padding       json.RawMessage   `json:"padding"`
	AddedTokens   []json.RawMessage `json:"added_tokens"`
	Normalizer    json.RawMessage   `json:"normalizer"`
	PreTokenizer  json.RawMessage   `json:"pre_tokenizer"`
	PostProcessor json.RawMessage   `json:"post_processor"`
	Decoder       json.RawMessage   `json:"decoder"`
	Model         json.RawMessage   `json:"model"`
}

// Parse reads the contents of a tokenizer.json. A part, or a setting of a part,
// that this package does not know is an error.
func Parse(data []byte) (*Tokenizer, error) {
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tokenizer.json: %w", err)
	}
	return t, nil
}

func parse(data []byte) (*Tokenizer, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("invalid UTF-8")
	}
	var f file
	if err := strict(data, &f); err != nil {
		return nil, err
	}
	if f.Version != "1.0" {
		return nil, fmt.Errorf("version %q is not supported, only 1.0", f.Version)
	}
	normalizer, err := parseNormalizer(f.Normalizer)
	if err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	t := new(Tokenizer)
	var vocab map[string]int32
	switch kind := modelType(f.Model); kind {
	case "WordPiece":
		t.model, vocab, err = parseWordPiece(f.Model, f.PreTokenizer, normalizer)
	case "BPE":
		if normalizer != nil {
			return nil, errors.New("normalizer: not supported with a BPE model: only null is")
		}
		t.model, vocab, err = parseBPE(f.Model, f.PreTokenizer)
	default:
		return nil, unsupported("model", kind, "WordPiece, BPE")
	}
	if err != nil {
		return nil, err
	}
	if err := t.addTokens(f.AddedTokens, vocab); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	for _, id := range vocab {
		t.vocabSize = max(t.vocabSize, int(id)+1)
	}
	if t.single, t.pair, err = parsePostProcessor(f.PostProcessor); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	for _, p := range append(t.single.pieces, t.pair.pieces...) {
		for _, id := range p.ids {
			if id < 0 || id >= int64(t.vocabSize) {
				return nil, fmt.Errorf("post_processor: id %d is not in the vocabulary of %d tokens", id, t.vocabSize)
			}
		}
	}
	return t, nil
}

// strict decodes one JSON value and refuses fields that into does not have.
func strict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("text after the end of the JSON value")
	}
	return nil
}

func unsupported(part, got, want string) error {
	return fmt.Errorf("%s: type %q is not supported (supported: %s)", part, got, want)
}

// typeOf returns the field "type" of a part, "null" where the part is missing.
func typeOf(part json.RawMessage) string {
	if len(part) == 0 || string(part) == "null" {
		return "null"
	}
	var t struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(part, &t); err != nil {
		return err.Error()
	}
	return t.Type
}

// modelType also knows the models of older files, which do not tell their type.
func modelType(part json.RawMessage) string {
	kind := typeOf(part)
	if kind != "" {
		return kind
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(part, &keys) != nil {
		return ""
	}
	switch {
	case keys["merges"] != nil:
		return "BPE"
	case keys["max_input_chars_per_word"] != nil:
		return "WordPiece"
	}
	return ""
}

func parseNormalizer(part json.RawMessage) (*bertNormalizer, error) {
	switch kind := typeOf(part); kind {
	case "null":
		return nil, nil
	case "BertNormalizer":
	default:
		return nil, unsupported("normalizer", kind, "BertNormalizer, null")
	}
	var c struct {
		Type         string `json:"type"`
		CleanText    *bool  `json:"clean_text"`
		ChineseChars *bool  `json:"handle_chinese_chars"`
		StripAccents *bool  `json:"strip_accents"`
		Lowercase    *bool  `json:"lowercase"`
	}
	if err := strict(part, &c); err != nil {
		return nil, err
	}
	if c.CleanText == nil || c.ChineseChars == nil || c.Lowercase == nil {
		return nil, errors.New("BertNormalizer needs clean_text, handle_chinese_chars and lowercase")
	}
	if c.StripAccents == nil {
		c.StripAccents = c.Lowercase
	}
	return &bertNormalizer{
		cleanText: *c.CleanText, chineseChars: *c.ChineseChars,
		stripAccents: *c.StripAccents, lowercase: *c.Lowercase,
	}, nil
}

func parseWordPiece(part, preTokenizer json.RawMessage, normalizer *bertNormalizer) (model, map[string]int32, error) {
	if kind := typeOf(preTokenizer); kind != "BertPreTokenizer" {
		return nil, nil, unsupported("pre_tokenizer", kind, "BertPreTokenizer for a WordPiece model")
	}
	if err := strict(preTokenizer, new(struct{ Type string })); err != nil {
		return nil, nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	c := struct {
		Type     string           `json:"type"`
		Unknown  string           `json:"unk_token"`
		Prefix   string           `json:"continuing_subword_prefix"`
		MaxChars int              `json:"max_input_chars_per_word"`
		Vocab    map[string]int64 `json:"vocab"`
	}{Unknown: "[UNK]", Prefix: "##", MaxChars: 100}
	if err := strict(part, &c); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	vocab, err := checkVocab(c.Vocab)
	if err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	unknown, ok := vocab[c.Unknown]
	if !ok {
		return nil, nil, fmt.Errorf("model: unk_token %q is not in the vocabulary", c.Unknown)
	}
	if c.MaxChars < 0 {
		return nil, nil, errors.New("model: max_input_chars_per_word is negative")
	}
	m := &wordPiece{
		normalizer: normalizer, starts: maps.Clone(vocab), continuing: make(map[string]int32),
		unknown: int64(unknown), maxWordChars: c.MaxChars,
	}
	for token, id := range vocab {
		m.longest = max(m.longest, len(token))
		if rest, ok := strings.CutPrefix(token, c.Prefix); ok {
			m.continuing[rest] = id
		}
	}
	return m, vocab, nil
}

func parseBPE(part, preTokenizer json.RawMessage) (model, map[string]int32, error) {
	if kind := typeOf(preTokenizer); kind != "ByteLevel" {
		return nil, nil, unsupported("pre_tokenizer", kind, "ByteLevel for a BPE model")
	}
	p := struct {
		Type        string `json:"type"`
		PrefixBlank *bool  `json:"add_prefix_space"`
		TrimOffsets bool   `json:"trim_offsets"`
		UseRegex    bool   `json:"use_regex"`
	}{UseRegex: true}
	if err := strict(preTokenizer, &p); err != nil {
		return nil, nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if p.PrefixBlank == nil {
		return nil, nil, errors.New("pre_tokenizer: ByteLevel needs add_prefix_space")
	}
	if !p.UseRegex {
		return nil, nil, errors.New("pre_tokenizer: ByteLevel with use_regex false is not supported")
	}
	var c struct {
		Type         string            `json:"type"`
		Dropout      *float64          `json:"dropout"`
		Unknown      *string           `json:"unk_token"`
		Prefix       string            `json:"continuing_subword_prefix"`
		Suffix       string            `json:"end_of_word_suffix"`
		FuseUnknown  bool              `json:"fuse_unk"`
		ByteFallback bool              `json:"byte_fallback"`
		IgnoreMerges bool              `json:"ignore_merges"`
		Vocab        map[string]int64  `json:"vocab"`
		Merges       []json.RawMessage `json:"merges"`
	}
	if err := strict(part, &c); err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	switch {
	case c.Dropout != nil && *c.Dropout != 0:
		return nil, nil, errors.New("model: dropout is not supported: ids would be random")
	case c.Prefix != "" || c.Suffix != "":
		return nil, nil, errors.New("model: continuing_subword_prefix and end_of_word_suffix are not supported with a BPE model")
	case c.ByteFallback:
		return nil, nil, errors.New("model: byte_fallback is not supported")
	}
	vocab, err := checkVocab(c.Vocab)
	if err != nil {
		return nil, nil, fmt.Errorf("model: %w", err)
	}
	m := &byteBPE{
		prefixBlank: *p.PrefixBlank, ignoreMerges: c.IgnoreMerges, fuseUnknown: c.FuseUnknown,
		unknown: -1, tokens: make(map[string]int32, len(vocab)),
		merges: make(map[pair]merge, len(c.Merges)), cache: newCache(),
	}
	if c.Unknown != nil {
		id, ok := vocab[*c.Unknown]
		if !ok {
			return nil, nil, fmt.Errorf("model: unk_token %q is not in the vocabulary", *c.Unknown)
		}
		m.unknown = id
	}
	alphabet := byteAlphabet()
	for token, id := range vocab {
		if raw, ok := rawBytes(alphabet, token); ok {
			m.tokens[raw] = id
		}
	}
	for b := range m.bytes {
		m.bytes[b] = -1
		if id, ok := m.tokens[string([]byte{byte(b)})]; ok {
			m.bytes[b] = id
		}
	}
	for rank, raw := range c.Merges {
		left, right, err := parseMerge(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("model: merge %d: %w", rank, err)
		}
		l, okL := vocab[left]
		r, okR := vocab[right]
		id, ok := vocab[left+right]
		if !okL || !okR || !ok {
			return nil, nil, fmt.Errorf("model: merge %d: %q, %q or their join is not in the vocabulary", rank, left, right)
		}
		m.merges[pair{l, r}] = merge{int32(rank), id} // the last of equal merges counts
	}
	return m, vocab, nil
}

// parseMerge reads both forms: "a b" and ["a", "b"].
func parseMerge(raw json.RawMessage) (left, right string, err error) {
	var list []string
	if raw[0] == '[' {
		err = json.Unmarshal(raw, &list)
	} else {
		var joined string
		err = json.Unmarshal(raw, &joined)
		list = strings.Split(joined, " ")
	}
	if err == nil && len(list) != 2 {
		err = fmt.Errorf("%s is not a pair of tokens", raw)
	}
	if err != nil {
		return "", "", err
	}
	return list[0], list[1], nil
}

func checkVocab(in map[string]int64) (map[string]int32, error) {
	if len(in) == 0 {
		return nil, errors.New("vocab is missing or empty")
	}
	vocab := make(map[string]int32, len(in))
	seen := make(map[int64]string, len(in))
	for token, id := range in {
		if id < 0 || id >= math.MaxInt32 {
			return nil, fmt.Errorf("vocab: id %d of %q is out of range", id, token)
		}
		if twin, ok := seen[id]; ok {
			return nil, fmt.Errorf("vocab: %q and %q share id %d", token, twin, id)
		}
		seen[id] = token
		vocab[token] = int32(id)
	}
	return vocab, nil
}

// addTokens builds the matchers and adds to vocab the tokens that it lacks.
func (t *Tokenizer) addTokens(parts []json.RawMessage, vocab map[string]int32) error {
	var raw, normalized []addedToken
	seen := make(map[string]bool)
	next := int64(len(vocab))
	for _, part := range parts {
		var c struct {
			ID         *int64 `json:"id"`
			Content    string `json:"content"`
			SingleWord bool   `json:"single_word"`
			LStrip     bool   `json:"lstrip"`
			RStrip     bool   `json:"rstrip"`
			Normalized bool   `json:"normalized"`
			Special    bool   `json:"special"`
		}
		if err := strict(part, &c); err != nil {
			return err
		}
		if c.ID == nil {
			return fmt.Errorf("%q has no id", c.Content)
		}
		// The reference numbers added tokens itself and overrules the file.
		want, known := vocab[c.Content]
		if !known {
			if *c.ID >= math.MaxInt32 {
				return fmt.Errorf("id %d of %q is out of range", *c.ID, c.Content)
			}
			want = int32(next)
			next++
		}
		if *c.ID != int64(want) {
			return fmt.Errorf("%q has id %d where %d is due", c.Content, *c.ID, want)
		}
		vocab[c.Content] = want
		token := addedToken{c.Content, *c.ID, c.SingleWord, c.LStrip, c.RStrip}
		list := &raw
		if c.Normalized {
			token.content = string(t.model.normalize(nil, c.Content))
			list = &normalized
		}
		same := func(other addedToken) bool { return other.content == token.content }
		if token.content == "" || seen[c.Content] || slices.ContainsFunc(*list, same) {
			return fmt.Errorf("%q is empty once normalised, or there twice", c.Content)
		}
		seen[c.Content] = true
		*list = append(*list, token)
	}
	t.raw, t.normalized = newMatcher(raw), newMatcher(normalized)
	for _, name := range []string{"<pad>", "[PAD]"} {
		if id, ok := vocab[name]; ok {
			t.padID = int64(id)
		}
	}
	return nil
}

func parsePostProcessor(part json.RawMessage) (single, pair template, err error) {
	a, b := piece{source: first}, piece{source: second}
	switch kind := typeOf(part); kind {
	case "null", "ByteLevel": // the latter is about offsets alone
		b.typeID = 1
		return newTemplate(a), newTemplate(a, b), nil
	case "BertProcessing", "RobertaProcessing":
		var c struct {
			Type        string     `json:"type"`
			Sep         tokenAndID `json:"sep"`
			Cls         tokenAndID `json:"cls"`
			TrimOffsets bool       `json:"trim_offsets"`
			PrefixBlank bool       `json:"add_prefix_space"`
		}
		c.Sep, c.Cls = -1, -1
		if err := strict(part, &c); err != nil {
			return single, pair, err
		}
		cls, sep := piece{ids: []int64{int64(c.Cls)}}, piece{ids: []int64{int64(c.Sep)}}
		single = newTemplate(cls, a, sep)
		if kind == "RobertaProcessing" {
			return single, newTemplate(cls, a, sep, sep, b, sep), nil
		}
		b.typeID = 1
		last := sep
		last.typeID = 1
		return single, newTemplate(cls, a, sep, b, last), nil
	case "TemplateProcessing":
		return parseTemplates(part)
	default:
		return single, pair, unsupported("post_processor", kind,
			"BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel, null")
	}
}

// tokenAndID is written ["[SEP]", 102].
type tokenAndID int64

func (t *tokenAndID) UnmarshalJSON(data []byte) error {
	var token string
	var id int64
	both := []any{&token, &id}
	if err := json.Unmarshal(data, &both); err != nil {
		return err
	}
	if len(both) != 2 {
		return fmt.Errorf("%s is not a token and its id", data)
	}
	*t = tokenAndID(id)
	return nil
}

func parseTemplates(part json.RawMessage) (single, pair template, err error) {
	type templatePiece struct {
		SpecialToken, Sequence *struct {
			ID     string `json:"id"`
			TypeID int64  `json:"type_id"`
		}
	}
	var c struct {
		Type          string          `json:"type"`
		Single        []templatePiece `json:"single"`
		Pair          []templatePiece `json:"pair"`
		SpecialTokens map[string]struct {
			ID     string   `json:"id"`
			IDs    []int64  `json:"ids"`
			Tokens []string `json:"tokens"`
		} `json:"special_tokens"`
	}
	if err := strict(part, &c); err != nil {
		return single, pair, err
	}
	build := func(in []templatePiece) (template, error) {
		var pieces []piece
		for _, p := range in {
			switch {
			case p.SpecialToken != nil && p.Sequence == nil:
				token, ok := c.SpecialTokens[p.SpecialToken.ID]
				if !ok {
					return template{}, fmt.Errorf("special token %q is not defined", p.SpecialToken.ID)
				}
				pieces = append(pieces, piece{special, token.IDs, p.SpecialToken.TypeID})
			case p.Sequence != nil && p.SpecialToken == nil && p.Sequence.ID == "A":
				pieces = append(pieces, piece{first, nil, p.Sequence.TypeID})
			case p.Sequence != nil && p.SpecialToken == nil && p.Sequence.ID == "B":
				pieces = append(pieces, piece{second, nil, p.Sequence.TypeID})
			default:
				return template{}, errors.New("a piece of a template is neither a special token nor sequence A or B")
			}
		}
		return newTemplate(pieces...), nil
	}
	if single, err = build(c.Single); err != nil {
		return single, pair, err
	}
	if pair, err = build(c.Pair); err != nil {
		return single, pair, err
	}
	if single.count(first) != 1 || single.count(second) != 0 || pair.count(first) != 1 || pair.count(second) != 1 {
		return single, pair, errors.New("a template must have sequence A once, that for pairs B once as well")
	}
	return single, pair, nil
}
