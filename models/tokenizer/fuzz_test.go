package tokenizer

import (
	"errors"
	"testing"
)

func FuzzEncode(f *testing.F) {
	v := testVectors(f)
	for i, s := range v.Strings[:200] {
		f.Add(s, v.Strings[len(v.Strings)-1-i], 3+i%40, i%7)
	}
	f.Add("a\xff\xe2\x82", "\xed\xa0\x80", 10, 0)
	tokenizers := make(map[string]*Tokenizer)
	for name := range v.Configs {
		tokenizers[name] = v.tokenizer(f, name)
	}
	f.Fuzz(func(t *testing.T, a, b string, maxLength, stride int) {
		if len(a)+len(b) > 1<<14 {
			return
		}
		check := func(e Encoding, tok *Tokenizer) {
			if len(e.IDs) > maxLength || len(e.TypeIDs) != len(e.IDs) {
				t.Fatalf("%d ids and %d type ids of at most %d", len(e.IDs), len(e.TypeIDs), maxLength)
			}
			for i, id := range e.IDs {
				if id < 0 || id >= int64(tok.VocabSize()) || e.TypeIDs[i] < 0 || e.TypeIDs[i] > 1 {
					t.Fatalf("id %d, type %d", id, e.TypeIDs[i])
				}
			}
		}
		for name, tok := range tokenizers {
			pair, err := tok.EncodePair(a, b, maxLength)
			if err == nil {
				check(pair, tok)
			} else if !errors.Is(err, ErrSecondTooLong) && !errors.Is(err, ErrMaxLength) {
				t.Fatalf("%s: %v", name, err)
			}
			if single, err := tok.EncodeSingle(a, maxLength); err == nil {
				check(single, tok)
			}
			windows, err := tok.Windows(a, b, maxLength, stride)
			if err == nil && len(windows) == 0 {
				t.Fatal("no window and no error")
			}
			for _, w := range windows {
				check(w, tok)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"version":"1.0","added_tokens":[{"id":0,"content":"[UNK]"}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":"BertProcessing","sep":["[SEP]",1],"cls":["[CLS]",2]},"model":{"type":"WordPiece","vocab":{"[UNK]":0,"[SEP]":1,"[CLS]":2,"a":3,"##b":4}}}`))
	f.Add([]byte(`{"version":"1.0","pre_tokenizer":{"type":"ByteLevel","add_prefix_space":true},"post_processor":{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{}},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := Parse(data)
		if err != nil {
			return
		}
		for _, id := range tok.Encode("ab [UNK] aabb é\n") {
			if id < 0 || id >= int64(tok.VocabSize()) {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
	})
}
