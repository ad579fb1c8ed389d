package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/verisci/verisci/schemas"
)

func readAll(text string) (claims []schemas.Claim, err error) {
	ctx := context.Background()
	for c, e := range each(ctx, readClaims(ctx, strings.NewReader(text), "claims.txt", "monitor", 4096)) {
		if e != nil {
			return claims, e
		}
		claims = append(claims, c)
	}
	return claims, nil
}

func TestClaimsAreReadAsTextAndAsJSON(t *testing.T) {
	claims, err := readAll("\ufeffSmoking causes cancer.\r\n\n" +
		`{"id": "a", "text": "Statins work.", "source": "feed", "attributes": {"lang": "en"}}` + "\n" +
		`{"id": 7, "claim": "Zinc cures colds.", "evidence": {}, "cited_doc_ids": [1]}` + "\n" +
		`{"id": null, "text": "No id."}` + "\n" +
		"Smoking causes cancer.")
	if err != nil {
		t.Fatal(err)
	}
	if len(claims) != 5 {
		t.Fatalf("%d claims", len(claims))
	}
	if claims[0].Text != "Smoking causes cancer." || claims[0].Source != "monitor" || claims[0].ID != claims[4].ID {
		t.Errorf("text: %+v and %+v", claims[0], claims[4])
	}
	if c := claims[1]; c.ID != "a" || c.Text != "Statins work." || c.Source != "feed" || c.Attributes["lang"] != "en" {
		t.Errorf("our record: %+v", c)
	}
	if c := claims[2]; c.ID != "7" || c.Text != "Zinc cures colds." {
		t.Errorf("SciFact's claim: %+v", c)
	}
	if c := claims[3]; c.ID == "" || c.ID == "0" || c.ID == claims[0].ID {
		t.Errorf("without an id: %+v", c)
	}
}

func TestLinesThatAreNoClaimsAreNamed(t *testing.T) {
	for name, line := range map[string]string{
		"cut JSON":      `{"id": "a", "text": "x"`,
		"two texts":     `{"id": "a", "text": "x", "claim": "y"}`,
		"no text":       `{"id": "a"}`,
		"odd id":        `{"id": [1], "text": "x"}`,
		"fraction":      `{"id": 1.5, "text": "x"}`,
		"text a number": `{"id": "a", "text": 5}`,
		"not UTF-8":     "A \xff claim.",
		"JSON not UTF8": "{\"text\": \"A \xff claim.\"}",
		"long text":     strings.Repeat("x", 4097),
		"NUL":           "A \x00 claim.",
		"a huge line":   strings.Repeat("x", maxClaimLine+1),
	} {
		claims, err := readAll("A good claim.\n" + line + "\nNever read.\n")
		if err == nil || !strings.Contains(err.Error(), "claims.txt:2") {
			t.Errorf("%s: the error does not name the line: %v", name, err)
		}
		if len(claims) != 1 {
			t.Errorf("%s: %d claims before the error", name, len(claims))
		}
	}
}

func TestABatchIsWhatIsThere(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	lines := readClaims(ctx, in, "pipe", "", 4096)
	go io.WriteString(out, "One.\n")
	if batch, err := nextBatch(ctx, lines, 10); err != nil || len(batch) != 1 {
		t.Errorf("%d claims, %v: a claim waits for others", len(batch), err)
	}
	cancel()
	if _, err := nextBatch(ctx, lines, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting on a silent pipe ended with %v", err)
	}
	out.Close()

	ctx = context.Background()
	lines = readClaims(ctx, strings.NewReader("One.\nTwo.\n{\nNever.\n"), "f", "", 4096)
	var n int
	var err error
	for err == nil {
		var batch []schemas.Claim
		batch, err = nextBatch(ctx, lines, 10)
		n += len(batch)
	}
	if n != 2 || !strings.Contains(err.Error(), "f:3") {
		t.Errorf("%d claims before the error %v", n, err)
	}
}
