package tokenizer

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// vectors are results of the reference; testdata/make_vectors.py tells how they
// were drawn.
type vectors struct {
	Strings []string
	Configs map[string]struct {
		Base    string                     // a tokenizer.json, relative to testdata
		Patch   map[string]json.RawMessage // parts put in its place
		Singles [][]int64                  // by string
		Pairs   []pairVector
		Windows []windowsVector
	}
	Scifact    map[string]struct{ Singles, Pairs []string }
	Normalized [][3]string // text, then under two settings
	Words      [][]int     // lengths in bytes by GPT-2's pattern, by string
	CodePoints []string    `json:"code_points"`
	IllFormed  [][2]string `json:"ill_formed"` // base64 of the bytes, what Python makes of them
}

type pairVector struct {
	a, b, maxLength int
	want            *[2][]int64 // ids and type ids; nil where the reference fails
}

func (v *pairVector) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&v.a, &v.b, &v.maxLength, &v.want})
}

type windowsVector struct {
	a, b, maxLength, stride int
	want                    [][2][]int64
}

func (v *windowsVector) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&v.a, &v.b, &v.maxLength, &v.stride, &v.want})
}

var loadVectors = sync.OnceValues(func() (*vectors, error) {
	f, err := os.Open("testdata/vectors.json.gz")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	v := new(vectors)
	return v, json.NewDecoder(z).Decode(v)
})

func testVectors(t testing.TB) *vectors {
	t.Helper()
	v, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// patched reads a file of testdata with some of its parts replaced.
func patched(t testing.TB, base string, patch map[string]json.RawMessage) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", base))
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]json.RawMessage)
	if err := json.Unmarshal(data, &parts); err != nil {
		t.Fatal(err)
	}
	maps.Copy(parts, patch)
	if data, err = json.Marshal(parts); err != nil {
		t.Fatal(err)
	}
	return data
}

func (v *vectors) tokenizer(t testing.TB, config string) *Tokenizer {
	t.Helper()
	c, ok := v.Configs[config]
	if !ok {
		t.Fatalf("no configuration %q", config)
	}
	tok, err := Parse(patched(t, c.Base, c.Patch))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func TestIDsAreThoseOfTheReference(t *testing.T) {
	v := testVectors(t)
	if len(v.Strings) < 2000 || len(v.Configs) < 11 {
		t.Fatalf("only %d strings and %d configurations", len(v.Strings), len(v.Configs))
	}
	for name, c := range v.Configs {
		t.Run(name, func(t *testing.T) {
			tok := v.tokenizer(t, name)
			for range 2 { // the second time from the cache
				for i, text := range v.Strings {
					if got := tok.Encode(text); !slices.Equal(got, c.Singles[i]) {
						t.Errorf("Encode(%q)\n got %v\nwant %v", text, got, c.Singles[i])
					}
				}
			}
		})
	}
}

func TestPairsAreCutAsTheReferenceDoes(t *testing.T) {
	v := testVectors(t)
	for name, c := range v.Configs {
		tok := v.tokenizer(t, name)
		failures := 0
		for _, p := range c.Pairs {
			got, err := tok.EncodePair(v.Strings[p.a], v.Strings[p.b], p.maxLength)
			if p.want == nil {
				failures++
				if !errors.Is(err, ErrSecondTooLong) {
					t.Errorf("%s: EncodePair(%q, %q, %d): error %v, want %v", name, v.Strings[p.a], v.Strings[p.b], p.maxLength, err, ErrSecondTooLong)
				}
				continue
			}
			if err != nil || !slices.Equal(got.IDs, p.want[0]) || !slices.Equal(got.TypeIDs, p.want[1]) {
				t.Errorf("%s: EncodePair(%q, %q, %d)\n got %v, %v\nwant %v", name, v.Strings[p.a], v.Strings[p.b], p.maxLength, got, err, *p.want)
			}
		}
		if len(c.Pairs) < 200 || failures == 0 || failures == len(c.Pairs) {
			t.Errorf("%s: %d pairs, %d of them too long: too one-sided a test", name, len(c.Pairs), failures)
		}
	}
}

func TestWindowsAreThoseOfTheReference(t *testing.T) {
	v := testVectors(t)
	several := 0
	for name, c := range v.Configs {
		tok := v.tokenizer(t, name)
		for _, w := range c.Windows {
			got, err := tok.Windows(v.Strings[w.a], v.Strings[w.b], w.maxLength, w.stride)
			if err != nil || len(got) != len(w.want) {
				t.Errorf("%s: Windows(%q, %q, %d, %d): %d windows, %v; want %d", name, v.Strings[w.a], v.Strings[w.b], w.maxLength, w.stride, len(got), err, len(w.want))
				continue
			}
			if len(got) > 1 {
				several++
			}
			for i := range got {
				if !slices.Equal(got[i].IDs, w.want[i][0]) || !slices.Equal(got[i].TypeIDs, w.want[i][1]) {
					t.Errorf("%s: window %d: got %v, want %v", name, i, got[i], w.want[i])
				}
			}
		}
	}
	if several < 200 {
		t.Errorf("only %d cases have several windows", several)
	}
}

func TestMarksAreReorderedAsTheReferenceDoes(t *testing.T) {
	settings := []*bertNormalizer{
		{cleanText: true, chineseChars: true, stripAccents: true, lowercase: true},
		{stripAccents: true},
	}
	for _, v := range testVectors(t).Normalized {
		for i, n := range settings {
			if got := string(n.append(nil, v[0])); got != v[i+1] {
				t.Errorf("normalize(%+q)\n got %+q\nwant %+q", v[0], got, v[i+1])
			}
		}
	}
}

func TestWordsAreThoseOfGPT2sPattern(t *testing.T) {
	v := testVectors(t)
	for i, s := range v.Strings {
		var got []int
		for text := []byte(s); len(text) > 0; {
			n := nextWord(text)
			got = append(got, n)
			text = text[n:]
		}
		if !slices.Equal(got, v.Words[i]) {
			t.Errorf("%q: word lengths %v, want %v", s, got, v.Words[i])
		}
	}
}

func TestIllFormedTextIsReplacedAsInPython(t *testing.T) {
	tok := testVectors(t).tokenizer(t, "roberta")
	for _, v := range testVectors(t).IllFormed {
		raw, err := base64.StdEncoding.DecodeString(v[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := replaceInvalid(string(raw)); got != v[1] {
			t.Errorf("replaceInvalid(%q) = %q, want %q", raw, got, v[1])
		}
		if got, want := tok.Encode(string(raw)), tok.Encode(v[1]); !slices.Equal(got, want) {
			t.Errorf("Encode(%q) = %v, want %v", raw, got, want)
		}
	}
}

// Every code point is normalised and split as the reference does it, whatever
// version of Unicode Go has.
func TestEveryCodePointIsClassifiedAsInTheReference(t *testing.T) {
	normalizers := []*bertNormalizer{
		{true, true, true, true}, {true, true, false, false}, {false, false, true, false}, {false, false, false, true},
	}
	// No word has as few as no characters: each gives one unknown token.
	words := &wordPiece{maxWordChars: 0}
	single := newMatcher([]addedToken{{content: "<x>", id: 1, singleWord: true}})
	var lines []byte // one for each code point of a block
	block := 0
	for c := rune(0); c <= 0x10FFFF; c++ {
		if c < 0xD800 || c > 0xDFFF {
			s := string(c)
			lines = fmt.Appendf(lines, "%x|", c)
			for _, n := range normalizers {
				lines = append(n.append(lines, "x"+s+"Y"), '|')
			}
			lines = strconv.AppendInt(lines, int64(len(words.encode(nil, []byte("a"+s+"b"), nil))), 10)
			for _, before := range "a1! " {
				n := 0
				for text := []byte(string(before) + s); len(text) > 0; n++ {
					text = text[nextWord(text):]
				}
				lines = append(lines, '|', '0'+byte(n))
			}
			joined := byte('1')
			if spans := single.split(nil, "<x>"+s); spans[0].id == 1 {
				joined = '0'
			}
			lines = append(lines, '|', joined, '\n')
		}
		if c%0x1000 == 0xFFF {
			if got, want := digest(lines), testVectors(t).CodePoints[block]; got != want {
				t.Errorf("U+%04X to U+%04X differ from the reference", c-0xFFF, c)
			}
			lines = lines[:0]
			block++
		}
	}
}

func digest(lines []byte) string {
	sum := sha256.Sum256(lines)
	return hex.EncodeToString(sum[:8])
}

func joinIDs(ids []int64) string {
	return strings.Trim(fmt.Sprint(ids), "[]")
}

// The whole of SciFact: every claim and sentence, and every sentence as a pair
// with a claim.
func TestSciFactIDsAreThoseOfTheReference(t *testing.T) {
	dir := os.Getenv("VERISCI_DATA")
	if dir == "" {
		t.Skip("VERISCI_DATA is not set")
	}
	var claims, sentences []string
	for _, split := range []string{"train", "dev", "test"} {
		readJSONL(t, filepath.Join(dir, "scifact", "claims_"+split+".jsonl"), func(line struct{ Claim string }) {
			claims = append(claims, line.Claim)
		})
	}
	readJSONL(t, filepath.Join(dir, "scifact", "corpus.jsonl"), func(line struct{ Abstract []string }) {
		sentences = append(sentences, line.Abstract...)
	})
	texts := slices.Concat(claims, sentences)
	v := testVectors(t)
	for name, want := range v.Scifact {
		t.Run(name, func(t *testing.T) {
			tok := v.tokenizer(t, name)
			single, pair := make([]string, len(texts)), make([]string, len(sentences))
			for i, text := range texts {
				e, err := tok.EncodeSingle(text, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				single[i] = joinIDs(e.IDs)
			}
			for i, text := range sentences {
				e, err := tok.EncodePair(text, claims[i%len(claims)], 64)
				switch {
				case errors.Is(err, ErrSecondTooLong):
					pair[i] = "error"
				case err != nil:
					t.Fatal(err)
				default:
					pair[i] = joinIDs(e.IDs) + "|" + joinIDs(e.TypeIDs)
				}
			}
			compareChunks(t, "strings", single, want.Singles)
			compareChunks(t, "pairs", pair, want.Pairs)
			t.Logf("%d strings and %d pairs", len(single), len(pair))
		})
	}
}

func compareChunks(t *testing.T, what string, lines, want []string) {
	t.Helper()
	var got []string
	for chunk := range slices.Chunk(lines, 1000) {
		got = append(got, digest([]byte(strings.Join(chunk, "\n")+"\n")))
	}
	if len(got) != len(want) {
		t.Fatalf("%d thousand %s, want %d: is this another edition of the data?", len(got), what, len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%s %d to %d differ from the reference", what, 1000*i, 1000*i+999)
		}
	}
}

func readJSONL[T any](t *testing.T, path string, each func(T)) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line T
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		each(line)
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
