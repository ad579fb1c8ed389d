package tokenizer

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestSecondSegmentIsNeverCut(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "bert")
	b := tok.Encode("aspirin cures pain")
	added := 3 // [CLS] A [SEP] B [SEP]
	for _, c := range []struct {
		name, a   string
		maxLength int
		want      error
		length    int
	}{
		{"all fits", "one", added + len(b) + 1, nil, added + len(b) + 1},
		{"the first keeps one token", "one two three", added + len(b) + 1, nil, added + len(b) + 1},
		{"nothing left for the first", "one", added + len(b), ErrSecondTooLong, 0},
		{"an empty first needs no room", "", added + len(b), nil, added + len(b)},
		{"the second alone is too long", "", added + len(b) - 1, ErrSecondTooLong, 0},
		// The reference gives special tokens alone here and so loses the claim.
		{"room for special tokens alone", "one", added, ErrSecondTooLong, 0},
		{"no room for special tokens", "one", added - 1, ErrMaxLength, 0},
		{"zero", "one", 0, ErrMaxLength, 0},
		{"negative", "one", -5, ErrMaxLength, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := tok.EncodePair(c.a, "aspirin cures pain", c.maxLength)
			if !errors.Is(err, c.want) || len(got.IDs) != c.length {
				t.Fatalf("%d tokens, error %v; want %d, %v", len(got.IDs), err, c.length, c.want)
			}
			if err == nil && !slices.Equal(got.IDs[c.length-1-len(b):c.length-1], b) {
				t.Errorf("%v does not end in the second segment %v", got.IDs, b)
			}
			if _, err := tok.Windows(c.a, "aspirin cures pain", c.maxLength, 0); !errors.Is(err, c.want) {
				t.Errorf("Windows: error %v, want %v", err, c.want)
			}
		})
	}
}

func TestSingleIsCutAtItsEnd(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "bert")
	ids := tok.Encode("one two three four")
	for maxLength := 2; maxLength < 8; maxLength++ {
		got, err := tok.EncodeSingle("one two three four", maxLength)
		n := min(len(ids), maxLength-2)
		want := slices.Concat([]int64{101}, ids[:n], []int64{102})
		if err != nil || !slices.Equal(got.IDs, want) || !slices.Equal(got.TypeIDs, make([]int64, n+2)) {
			t.Errorf("to %d tokens: %v, %v; want %v", maxLength, got, err, want)
		}
	}
	if _, err := tok.EncodeSingle("one", 1); !errors.Is(err, ErrMaxLength) {
		t.Errorf("to 1 token: error %v, want %v", err, ErrMaxLength)
	}
}

func TestWindowsLoseNothing(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "mpnet")
	a, b := strings.Repeat("cells divide in culture. ", 30), "cells die"
	idsA, idsB := tok.Encode(a), tok.Encode(b)
	for _, stride := range []int{0, 1, 7} {
		windows, err := tok.Windows(a, b, 40, stride)
		if err != nil {
			t.Fatal(err)
		}
		var joined []int64
		for i, w := range windows {
			if len(w.IDs) > 40 {
				t.Fatalf("window %d has %d tokens", i, len(w.IDs))
			}
			part := w.IDs[1 : len(w.IDs)-3-len(idsB)]
			if i > 0 {
				part = part[stride:]
			}
			joined = append(joined, part...)
		}
		if !slices.Equal(joined, idsA) {
			t.Errorf("stride %d: the windows do not make up the first segment", stride)
		}
	}
	room := 40 - 4 - len(idsB)
	for _, stride := range []int{-1, room, room + 1} {
		if _, err := tok.Windows(a, b, 40, stride); !errors.Is(err, ErrStride) {
			t.Errorf("stride %d of %d tokens: error %v, want %v", stride, room, err, ErrStride)
		}
	}
}

func TestMPNetPairsHaveTwoSeparators(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "mpnet")
	got, err := tok.EncodePair("cells", "genes", 100)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Concat([]int64{0}, tok.Encode("cells"), []int64{2, 2}, tok.Encode("genes"), []int64{2})
	if !slices.Equal(got.IDs, want) || !slices.Equal(got.TypeIDs, make([]int64, len(want))) {
		t.Errorf("got %v, want %v with all type ids 0", got, want)
	}
}

func TestVocabSizeAndPadID(t *testing.T) {
	v := testVectors(t)
	for config, want := range map[string]struct {
		size int
		pad  int64
	}{"bert": {30522, 0}, "mpnet": {1501, 1}, "roberta": {3001, 1}, "unknown": {16, 0}} {
		tok := v.tokenizer(t, config)
		if tok.VocabSize() != want.size || tok.PadID() != want.pad {
			t.Errorf("%s: %d tokens, pad %d; want %d, %d", config, tok.VocabSize(), tok.PadID(), want.size, want.pad)
		}
	}
}

func TestResultsAreTheCallers(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "roberta")
	first := tok.Encode("the cells of mice")
	kept := slices.Clone(first)
	pair, err := tok.EncodePair("the cells of mice", "mice", 50)
	if err != nil {
		t.Fatal(err)
	}
	pair.IDs = append(pair.IDs, -1) // as a batcher would that pads
	if slices.Contains(pair.TypeIDs, -1) {
		t.Error("ids and type ids share memory")
	}
	tok.Encode("other words take the buffers")
	if !slices.Equal(first, kept) {
		t.Error("a later call changed an earlier result")
	}
}

func TestConcurrentUseGivesTheSameIDs(t *testing.T) {
	v := testVectors(t)
	for _, config := range []string{"bert", "roberta", "accents"} {
		tok := v.tokenizer(t, config)
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := worker; i < len(v.Strings); i += 2 {
					if got := tok.Encode(v.Strings[i]); !slices.Equal(got, v.Configs[config].Singles[i]) {
						t.Errorf("%s: Encode(%q) = %v", config, v.Strings[i], got)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestLoadReadsAFile(t *testing.T) {
	for _, path := range []string{"../bundles/label/tokenizer.json", "../bundles/rationale/tokenizer.json", "testdata/bpe.json"} {
		if _, err := Load(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestLoadTellsWhatIsWrongWithAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int64, data string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if size > 0 {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	whole, err := os.ReadFile("testdata/mpnet.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no such file": filepath.Join(dir, "missing.json"),
		"exceeds":      write("huge.json", maxFileSize+1, "{"), // sparse
		"EOF":          write("empty.json", 0, ""),
		"unexpected":   write("torn.json", 0, string(whole[:len(whole)/2])),
		"directory":    dir,
	} {
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), "tokenizer: ") {
			t.Errorf("Load(%s): error %v, want one with %q", path, err, name)
		}
	}
}

func TestUnsupportedFilesAreRefused(t *testing.T) {
	const bertPre = `{"type":"BertPreTokenizer"}`
	wordPiece := func(rest string) string {
		return `{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100` + rest + `}`
	}
	bpe := func(rest string) string { return `{"type":"BPE"` + rest + `}` }
	for _, c := range []struct{ name, base, part, value, want string }{
		{"version", "mpnet", "version", `"2.0"`, "version"},
		{"unknown section", "mpnet", "extra", `1`, "extra"},
		{"model type", "mpnet", "model", `{"type":"Unigram","vocab":[]}`, `"Unigram" is not supported`},
		{"no model", "mpnet", "model", `null`, "model"},
		{"model of no type", "mpnet", "model", `{"vocab":{"a":0}}`, "model"},
		{"model not an object", "mpnet", "model", `[1]`, "model"},
		{"no vocabulary", "mpnet", "model", wordPiece(``), "vocab"},
		{"no unknown token", "mpnet", "model", wordPiece(`,"vocab":{"a":0}`), "unk_token"},
		{"shared id", "mpnet", "model", wordPiece(`,"vocab":{"[UNK]":0,"a":0}`), "share id"},
		{"negative id", "mpnet", "model", wordPiece(`,"vocab":{"[UNK]":-1}`), "out of range"},
		{"fractional id", "mpnet", "model", wordPiece(`,"vocab":{"[UNK]":0.5}`), "model"},
		{"huge id", "mpnet", "model", wordPiece(`,"vocab":{"[UNK]":4294967296}`), "out of range"},
		{"negative word length", "mpnet", "model", `{"type":"WordPiece","max_input_chars_per_word":-1,"vocab":{"[UNK]":0}}`, "negative"},
		{"unknown setting", "mpnet", "model", wordPiece(`,"vocab":{"[UNK]":0},"new":true`), "new"},
		{"normaliser", "mpnet", "normalizer", `{"type":"NFKC"}`, `"NFKC" is not supported`},
		{"normaliser setting", "mpnet", "normalizer", `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true,"new":1}`, "new"},
		{"normaliser without settings", "mpnet", "normalizer", `{"type":"BertNormalizer"}`, "needs clean_text"},
		{"normaliser with BPE", "bpe", "normalizer", `{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"lowercase":true}`, "BPE"},
		{"pre-tokeniser", "mpnet", "pre_tokenizer", `{"type":"Whitespace"}`, `"Whitespace" is not supported`},
		{"no pre-tokeniser", "mpnet", "pre_tokenizer", `null`, "pre_tokenizer"},
		{"pre-tokeniser of BERT with BPE", "bpe", "pre_tokenizer", bertPre, "ByteLevel"},
		{"pre-tokeniser setting", "mpnet", "pre_tokenizer", `{"type":"BertPreTokenizer","new":1}`, "new"},
		{"byte level without pattern", "bpe", "pre_tokenizer", `{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":false}`, "use_regex"},
		{"byte level without prefix", "bpe", "pre_tokenizer", `{"type":"ByteLevel"}`, "add_prefix_space"},
		{"dropout", "bpe", "model", bpe(`,"dropout":0.1,"vocab":{"a":0},"merges":[]`), "dropout"},
		{"byte fallback", "bpe", "model", bpe(`,"byte_fallback":true,"vocab":{"a":0},"merges":[]`), "byte_fallback"},
		{"subword prefix", "bpe", "model", bpe(`,"continuing_subword_prefix":"##","vocab":{"a":0},"merges":[]`), "continuing_subword_prefix"},
		{"word suffix", "bpe", "model", bpe(`,"end_of_word_suffix":"</w>","vocab":{"a":0},"merges":[]`), "end_of_word_suffix"},
		{"unknown token of BPE", "bpe", "model", bpe(`,"unk_token":"<u>","vocab":{"a":0},"merges":[]`), "unk_token"},
		{"merge of three", "bpe", "model", bpe(`,"vocab":{"a":0},"merges":["a a a"]`), "merge 0"},
		{"merge of one", "bpe", "model", bpe(`,"vocab":{"a":0},"merges":[["a"]]`), "merge 0"},
		{"merge of numbers", "bpe", "model", bpe(`,"vocab":{"a":0},"merges":[1]`), "merge 0"},
		{"null merge", "bpe", "model", bpe(`,"vocab":{"a":0},"merges":[null]`), "merge 0"},
		{"merge outside the vocabulary", "bpe", "model", bpe(`,"vocab":{"a":0},"merges":["a a"]`), "not in the vocabulary"},
		{"post-processor", "mpnet", "post_processor", `{"type":"Sequence","processors":[]}`, `"Sequence" is not supported`},
		{"special token outside the vocabulary", "mpnet", "post_processor", `{"type":"BertProcessing","sep":["</s>",99999],"cls":["<s>",0]}`, "not in the vocabulary"},
		{"processing without tokens", "mpnet", "post_processor", `{"type":"BertProcessing"}`, "not in the vocabulary"},
		{"special token without id", "mpnet", "post_processor", `{"type":"BertProcessing","sep":["</s>"],"cls":["<s>",0]}`, "post_processor"},
		{"template without B", "mpnet", "post_processor", `{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{}}`, "sequence A once"},
		{"template with an odd piece", "mpnet", "post_processor", `{"type":"TemplateProcessing","single":[{}],"pair":[],"special_tokens":{}}`, "piece"},
		{"template with an undefined token", "mpnet", "post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[X]","type_id":0}}],"pair":[],"special_tokens":{}}`, "[X]"},
		{"added token of another id", "mpnet", "added_tokens", `[{"id":7,"content":"<s>","special":true}]`, "has id 7 where 0 is due"},
		{"added token with a gap", "mpnet", "added_tokens", `[{"id":9000,"content":"<new>"}]`, "is due"},
		{"added token of no id", "mpnet", "added_tokens", `[{"content":"<s>"}]`, "no id"},
		{"added token twice", "mpnet", "added_tokens", `[{"id":0,"content":"<s>"},{"id":0,"content":"<s>"}]`, "twice"},
		{"added token of nothing", "mpnet", "added_tokens", `[{"id":1500,"content":""}]`, "empty"},
		{"added token of controls alone", "mpnet", "added_tokens", `[{"id":1500,"content":"\u0001","normalized":true}]`, "empty"},
		{"added token setting", "mpnet", "added_tokens", `[{"id":0,"content":"<s>","new":1}]`, "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(patched(t, c.base+".json", map[string]json.RawMessage{c.part: json.RawMessage(c.value)}))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tokenizer: ") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	for _, data := range []string{"", "null", "[]", "\xff", `{"version":"1.0"}`, `{"version":"1.0"} {}`} {
		if _, err := Parse([]byte(data)); err == nil {
			t.Errorf("Parse(%q) succeeded", data)
		}
	}
}

func TestOlderFilesAreRead(t *testing.T) {
	for _, base := range []string{"bpe.json", "mpnet.json"} {
		want, err := Parse(patched(t, base, nil))
		if err != nil {
			t.Fatal(err)
		}
		var parts struct{ Model map[string]any }
		if err := json.Unmarshal(patched(t, base, nil), &parts); err != nil {
			t.Fatal(err)
		}
		delete(parts.Model, "type")
		if list, ok := parts.Model["merges"].([]any); ok {
			for i, m := range list {
				both := m.([]any)
				list[i] = both[0].(string) + " " + both[1].(string)
			}
		}
		model, err := json.Marshal(parts.Model)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(patched(t, base, map[string]json.RawMessage{"model": model}))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range testVectors(t).Strings[:300] {
			if g, w := got.Encode(text), want.Encode(text); !slices.Equal(g, w) {
				t.Fatalf("%s: Encode(%q) = %v, want %v", base, text, g, w)
			}
		}
	}
}

func TestTextWithoutTokensGivesNone(t *testing.T) {
	v := testVectors(t)
	for _, config := range []string{"bert", "roberta", "gpt2"} {
		if got := v.tokenizer(t, config).Encode(""); got == nil || len(got) != 0 {
			t.Errorf("%s: Encode(\"\") = %#v", config, got)
		}
	}
	if got := v.tokenizer(t, "bert").Encode(" \t\u200b\x00\ufffd "); len(got) != 0 {
		t.Errorf("white space and controls give %v", got)
	}
}

func TestHugeTextIsEncoded(t *testing.T) {
	v := testVectors(t)
	for _, config := range []string{"bert", "roberta"} {
		tok := v.tokenizer(t, config)
		for _, text := range []string{
			strings.Repeat("cell ", 200_000),
			strings.Repeat("a", 1<<20),
			strings.Repeat("\u0301", 1<<18),
			strings.Repeat("\U0001e94a\U0001e944", 1<<16),
			strings.Repeat(" ", 1<<20),
			strings.Repeat("[SEP]</s>", 1<<16),
		} {
			got, err := tok.EncodeSingle(text, 512)
			if err != nil || len(got.IDs) > 512 || len(got.IDs) < 2 {
				t.Errorf("%s: %.8q...: %d ids, %v", config, text, len(got.IDs), err)
			}
		}
	}
}
