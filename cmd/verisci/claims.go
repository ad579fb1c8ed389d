package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/verisci/verisci/schemas"
)

// maxClaimLine bounds one line of input; the limit on a claim's text is the configuration's.
const maxClaimLine = 4 << 20

// textClaim makes a claim of plain text. Its id is a hash of the text, so that
// the same text sent twice has the same key.
func textClaim(text, source string) schemas.Claim {
	sum := sha256.Sum256([]byte(text))
	now := time.Now()
	return schemas.Claim{ID: hex.EncodeToString(sum[:8]), Text: text, Source: source, Created: &now}
}

func claimsOf(texts []string, source string) iter.Seq2[schemas.Claim, error] {
	return func(yield func(schemas.Claim, error) bool) {
		for _, t := range texts {
			if !yield(textClaim(t, source), nil) {
				return
			}
		}
	}
}

// readClaims reads a claim a line: plain text, or a JSON object that is a Claim
// record (id, text, ...) or one of SciFact's claims (id, claim). Blank lines
// are passed over; the first line that is no claim ends it with an error.
func readClaims(r io.Reader, name, source string) iter.Seq2[schemas.Claim, error] {
	return func(yield func(schemas.Claim, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(make([]byte, 64<<10), maxClaimLine)
		number := 0
		for lines.Scan() {
			number++
			line := bytes.TrimSpace(bytes.TrimPrefix(lines.Bytes(), []byte("\ufeff")))
			if len(line) == 0 {
				continue
			}
			claim, err := parseClaim(line, source)
			if err != nil {
				err = fmt.Errorf("%s:%d: %w", name, number, err)
			}
			if !yield(claim, err) || err != nil {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(schemas.Claim{}, fmt.Errorf("%s:%d: %w", name, number+1, err))
		}
	}
}

func parseClaim(line []byte, source string) (schemas.Claim, error) {
	if line[0] != '{' {
		return textClaim(string(line), source), nil
	}
	var c struct {
		schemas.Claim
		ID        json.RawMessage `json:"id"`
		SciFact   string          `json:"claim"`
		ClaimText string          `json:"text"`
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return schemas.Claim{}, fmt.Errorf("not a JSON claim: %w", err)
	}
	claim := c.Claim
	switch {
	case c.ClaimText != "" && c.SciFact != "":
		return claim, fmt.Errorf("both text and claim are given: use one")
	case c.ClaimText != "":
		claim.Text = c.ClaimText
	case c.SciFact != "":
		claim.Text = c.SciFact
	default:
		return claim, fmt.Errorf("neither text nor claim is given")
	}
	if claim.Source == "" {
		claim.Source = source
	}
	var number int64
	switch {
	case len(c.ID) == 0:
		claim.ID = textClaim(claim.Text, "").ID
	case json.Unmarshal(c.ID, &number) == nil:
		claim.ID = strconv.FormatInt(number, 10)
	case json.Unmarshal(c.ID, &claim.ID) == nil:
	default:
		return claim, fmt.Errorf("id is neither a string nor a whole number")
	}
	return claim, nil
}
