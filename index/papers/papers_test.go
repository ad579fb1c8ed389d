package papers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/papers"
	"github.com/verisci/verisci/schemas"
)

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "papers.jsonl")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// load loads all papers, and those lines that were skipped if skip is set.
func load(t *testing.T, skip bool, files ...string) (all []schemas.Paper, skipped []string, err error) {
	t.Helper()
	var o papers.Options
	if skip {
		o.Skip = func(e *papers.LineError) { skipped = append(skipped, fmt.Sprint(filepath.Base(e.File), ":", e.Line)) }
	}
	err = papers.Load(t.Context(), files, o, func(batch []schemas.Paper) error {
		all = append(all, batch...)
		return nil
	})
	return all, skipped, err
}

func TestSciFactCorpusIsRead(t *testing.T) {
	got, _, err := load(t, false, file(t, `{"doc_id": 4983, "title": "Title ", "abstract": [" One.\n", "\u00a0Two."], "structured": false}`+"\n"+
		`{"doc_id": "12345678901234567890123", "title": "", "abstract": ["x"]}`))
	want := []schemas.Paper{
		{ID: "4983", Title: "Title ", Abstract: []string{"One.", "Two."}},
		{ID: "12345678901234567890123", Abstract: []string{"x"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestLinesOfPapersAreRead(t *testing.T) {
	got, _, err := load(t, false, file(t, `{"id":"a","title":"T","abstract":["One. "],"identifiers":{"doi":"10/x"},"date":"2020-03","url":"u","retracted":true,"extra":[1]}`))
	want := []schemas.Paper{{ID: "a", Title: "T", Abstract: []string{"One. "}, Identifiers: map[string]string{"doi": "10/x"}, Date: "2020-03", URL: "u", Retracted: true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestEachFileHasItsOwnFormat(t *testing.T) {
	got, _, err := load(t, false, file(t, `{"doc_id":1,"title":"a"}`), file(t, ""), file(t, `{"id":"2","title":"b"}`))
	if err != nil || len(got) != 2 || got[0].ID != "1" || got[1].ID != "2" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestByteOrderMarkBlankLinesAndCarriageReturnsAreHarmless(t *testing.T) {
	got, _, err := load(t, false, file(t, "\ufeff\r\n\n {\"id\":\"1\",\"title\":\"a\"}\r\n \t\n{\"id\":\"2\",\"title\":\"b\"}"))
	if err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

func TestABadLineEndsLoadOrIsSkipped(t *testing.T) {
	long := `{"id":"x","title":"` + strings.Repeat("a", 7*index.MaxPaperBytes) + `"}`
	for name, bad := range map[string]string{
		"malformed":     `{"id":"x","title":`,
		"two objects":   `{"id":"x","title":"a"} {"id":"y","title":"a"}`,
		"not an object": `["x"]`,
		"wrong type":    `{"id":"x","title":"a","abstract":"one string"}`,
		"no id":         `{"doc_id":7,"title":"a"}`,
		"empty id":      `{"id":"","title":"a"}`,
		"numeric id":    `{"id":7,"title":"a"}`,
		"no text":       `{"id":"x"}`,
		"not UTF-8":     "{\"id\":\"x\",\"title\":\"caf\xe9\"}",
		"duplicate":     `{"id":"1","title":"another"}`,
		"too large":     `{"id":"x","title":"` + strings.Repeat("a", index.MaxPaperBytes) + `"}`,
		"line too long": long,
	} {
		t.Run(name, func(t *testing.T) {
			f := file(t, `{"id":"1","title":"a"}`+"\n\n"+bad+"\n"+`{"id":"2","title":"b"}`+"\n")
			_, _, err := load(t, false, f)
			if e, ok := errors.AsType[*papers.LineError](err); !ok || e.Line != 3 || e.File != f {
				t.Errorf("error %v, want one of line 3", err)
			}
			if err != nil && (!strings.Contains(err.Error(), "papers.jsonl:3: ") || len(err.Error()) > 500) {
				t.Errorf("message %.600q", err.Error())
			}
			got, skipped, err := load(t, true, f)
			if err != nil || len(got) != 2 || got[0].Title != "a" || got[1].ID != "2" {
				t.Errorf("%.200v, %v", got, err)
			}
			if !reflect.DeepEqual(skipped, []string{"papers.jsonl:3"}) {
				t.Errorf("skipped %v", skipped)
			}
		})
	}
}

func TestABadSciFactIDIsAnError(t *testing.T) {
	for _, id := range []string{`1.5`, `-1`, `null`, `""`, `"a"`, `1e3`, `[1]`} {
		if got, _, err := load(t, false, file(t, `{"doc_id":`+id+`,"title":"a"}`)); err == nil {
			t.Errorf("%s: %v", id, got)
		}
	}
}

func TestADuplicateAcrossFilesNamesBothPlaces(t *testing.T) {
	a, b := file(t, `{"id":"1","title":"a"}`), file(t, "\n"+`{"doc_id":1,"title":"a"}`)
	_, _, err := load(t, false, a, b)
	if err == nil || !strings.Contains(err.Error(), b+":2") || !strings.Contains(err.Error(), a+":1") {
		t.Error(err)
	}
}

func TestAFileOfAnotherKindIsAnErrorEvenWhenSkipping(t *testing.T) {
	for _, content := range []string{`{"cord_id":"x","title":"a"}`, "id,title\n1,a\n", "\xff\xfe{\x00", "PK\x03\x04\x00"} {
		if got, _, err := load(t, true, file(t, content)); err == nil {
			t.Errorf("%q: %v", content, got)
		}
	}
}

func TestAMissingFileAndADirectoryAreErrorsBeforeAnythingIsTaken(t *testing.T) {
	good := file(t, `{"id":"1","title":"a"}`)
	for _, bad := range []string{filepath.Join(t.TempDir(), "none"), t.TempDir()} {
		got, _, err := load(t, true, good, bad)
		if err == nil || !strings.Contains(err.Error(), bad) || got != nil {
			t.Errorf("%v, %v", got, err)
		}
	}
}

func TestBatchesHaveTheirSizeAndProgressEndsAtTheTotal(t *testing.T) {
	var content strings.Builder
	for i := range 7 {
		fmt.Fprintf(&content, "{\"id\":\"%d\",\"title\":\"a\"}\n", i)
	}
	var sizes []int
	var progress []papers.Progress
	o := papers.Options{Batch: 3, Progress: func(p papers.Progress) { progress = append(progress, p) }}
	f := file(t, content.String())
	err := papers.Load(t.Context(), []string{f}, o, func(batch []schemas.Paper) error {
		sizes = append(sizes, len(batch))
		return nil
	})
	if err != nil || !reflect.DeepEqual(sizes, []int{3, 3, 1}) {
		t.Errorf("batches %v, %v", sizes, err)
	}
	total := int64(content.Len())
	want := []papers.Progress{{total * 3 / 7, total, 3}, {total * 6 / 7, total, 6}, {total, total, 7}}
	if !reflect.DeepEqual(progress, want) {
		t.Errorf("progress %v, want %v", progress, want)
	}
}

func TestTheTakersErrorAndACancelledContextEndLoad(t *testing.T) {
	f := file(t, `{"id":"1","title":"a"}`)
	refused := errors.New("refused")
	err := papers.Load(t.Context(), []string{f}, papers.Options{}, func([]schemas.Paper) error { return refused })
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = papers.Load(ctx, []string{f}, papers.Options{}, func([]schemas.Paper) error {
		t.Error("a batch was taken")
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whatever a file has, Load gives papers that an index takes, or an error.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"doc_id":1,"title":"a","abstract":["b"]}` + "\n{"))
	f.Add([]byte("\ufeff{\"id\":\"1\",\"title\":\"\\ud800\"}\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		got, _, _ := load(t, true, file(t, string(content)))
		for _, p := range got {
			if err := index.CheckPaper(&p); err != nil {
				t.Error(err)
			}
		}
	})
}
