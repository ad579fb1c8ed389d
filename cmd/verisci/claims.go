package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"
	"unicode/utf8"

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

// claimLine is a claim that was read, or why reading ended.
type claimLine struct {
	claim schemas.Claim
	err   error
}

// givenClaims are claims of texts given as arguments.
func givenClaims(texts []string, maxText int) <-chan claimLine {
	out := make(chan claimLine, len(texts))
	for _, t := range texts {
		c := textClaim(t, "")
		out <- claimLine{c, c.Validate(maxText)}
	}
	close(out)
	return out
}

// readClaims reads a claim a line: plain text, or a JSON object that is a Claim
// record (id, text, ...) or one of SciFact's claims (id, claim). Blank lines
// are passed over. The first line that is no valid claim is the last sent, as an
// error with its place. Reading goes on in a goroutine, so that who waits for a
// terminal or a pipe can stop waiting.
func readClaims(ctx context.Context, r io.Reader, name, source string, maxText int) <-chan claimLine {
	out := make(chan claimLine, 256)
	send := func(l claimLine) bool {
		select {
		case out <- l:
			return l.err == nil
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(out)
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
			if err == nil {
				err = claim.Validate(maxText)
			}
			if err != nil {
				err = fmt.Errorf("%s:%d: %w", name, number, err)
			}
			if !send(claimLine{claim, err}) {
				return
			}
		}
		err := lines.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("the line is over %d bytes", maxClaimLine)
		}
		if err != nil {
			send(claimLine{err: fmt.Errorf("%s:%d: %w", name, number+1, err)})
		}
	}()
	return out
}

// each goes through claims until their end, the first error, or the end of ctx.
func each(ctx context.Context, lines <-chan claimLine) iter.Seq2[schemas.Claim, error] {
	return func(yield func(schemas.Claim, error) bool) {
		for {
			select {
			case l, ok := <-lines:
				if !ok || !yield(l.claim, l.err) || l.err != nil {
					return
				}
			case <-ctx.Done():
				yield(schemas.Claim{}, ctx.Err())
				return
			}
		}
	}
}

// nextBatch waits for one claim and takes the others that are there already, at
// most size: who types claims gets an answer after each. At the end it returns
// io.EOF or the reader's error, beside the claims before it.
func nextBatch(ctx context.Context, lines <-chan claimLine, size int) (batch []schemas.Claim, err error) {
	select {
	case l, ok := <-lines:
		for {
			if !ok {
				return batch, io.EOF
			}
			if l.err != nil {
				return batch, l.err
			}
			if batch = append(batch, l.claim); len(batch) == size {
				return batch, nil
			}
			select {
			case l, ok = <-lines:
			default:
				return batch, nil
			}
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func parseClaim(line []byte, source string) (schemas.Claim, error) {
	if !utf8.Valid(line) {
		return schemas.Claim{}, errors.New("not UTF-8")
	}
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
	case len(c.ID) == 0 || string(c.ID) == "null":
		claim.ID = textClaim(claim.Text, "").ID
	case json.Unmarshal(c.ID, &number) == nil:
		claim.ID = strconv.FormatInt(number, 10)
	case json.Unmarshal(c.ID, &claim.ID) == nil:
	default:
		return claim, fmt.Errorf("id is neither a string nor a whole number")
	}
	return claim, nil
}
