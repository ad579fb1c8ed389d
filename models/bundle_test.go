package models

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// edited copies the label bundle and changes its bundle.json.
func edited(t *testing.T, edit func(map[string]any)) string {
	t.Helper()
	from, err := FindBundle("label")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{modelFile, tokenizerFile} {
		abs, err := filepath.Abs(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(abs, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(from, specFile))
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	edit(spec)
	if data, err = json.Marshal(spec); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, specFile), data, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBundlesThatCannotBeUsedSayWhy(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(map[string]any)
		want string
	}{
		"task":       {func(s map[string]any) { s["task"] = "summary" }, "task"},
		"layout":     {func(s map[string]any) { s["layout"] = "triple" }, "layout"},
		"pair":       {func(s map[string]any) { s["pair"] = []string{"rationale", "rationale"} }, "pair"},
		"length":     {func(s map[string]any) { s["max_length"] = 0 }, "max_length"},
		"labels":     {func(s map[string]any) { s["labels"] = []string{"SUPPORT", "CONTRADICT", "MAYBE"} }, "NOT_ENOUGH_INFO"},
		"threshold":  {func(s map[string]any) { s["threshold"] = 1.5 }, "threshold"},
		"input":      {func(s map[string]any) { s["inputs"] = []string{"input_ids", "pixels"} }, "pixels"},
		"fewer ins":  {func(s map[string]any) { s["inputs"] = []string{"input_ids"} }, "attention_mask"},
		"wrong hash": {func(s map[string]any) { s["sha256"] = map[string]string{modelFile: "00"} }, "SHA-256"},
		"wrong type": {func(s map[string]any) { s["max_length"] = "long" }, specFile},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(edited(t, c.edit), Label, Options{})
			if err == nil {
				m.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error does not say %q: %v", c.want, err)
			}
		})
	}
}

func TestEveryMistakeOfABundleIsReportedAtOnce(t *testing.T) {
	_, err := LoadBundle(edited(t, func(s map[string]any) { s["max_length"], s["threshold"], s["name"] = 1, 2, "" }))
	for _, want := range []string{"max_length", "threshold", "name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestABundleIsForItsStage(t *testing.T) {
	dir, err := FindBundle("label")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := Open(dir, Rationale, Options{}); err == nil {
		m.Close()
		t.Error("a label bundle opened for the rationale stage")
	}
}

func TestTheHashChangesWithAnythingInTheBundle(t *testing.T) {
	a, err := LoadBundle(edited(t, func(map[string]any) {}))
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadBundle(edited(t, func(s map[string]any) { s["threshold"] = 0.123 }))
	if err != nil {
		t.Fatal(err)
	}
	if a.Hash == b.Hash || len(a.Hash) != 64 {
		t.Errorf("hashes %q and %q", a.Hash, b.Hash)
	}
}

func TestMissingAndTornFilesAreErrors(t *testing.T) {
	if _, err := FindBundle("no-such-bundle"); err == nil {
		t.Error("found a bundle that is not there")
	}
	if _, err := LoadBundle(t.TempDir()); err == nil {
		t.Error("loaded an empty folder")
	}
	for _, name := range []string{modelFile, tokenizerFile} {
		dir := edited(t, func(s map[string]any) { delete(s, "sha256") })
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Label, Options{}); err == nil {
			t.Errorf("opened without %s", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data[:len(data)/2], 0o644); err != nil {
			t.Fatal(err)
		}
		if m, err := Open(dir, Label, Options{}); err == nil {
			m.Close()
			t.Errorf("opened with half of %s", name)
		}
	}
}
