package index

import (
	"fmt"

	"github.com/verisci/verisci/schemas"
)

// MaxPaperBytes bounds a paper: the bytes of all its strings, and 16 for each of them.
const MaxPaperBytes = 1 << 20

// PaperError says why a paper can't be indexed. Its cause is one that
// schemas.Permanent knows: trying again doesn't help.
type PaperError struct {
	ID  string
	Err error
}

func (e *PaperError) Error() string { return fmt.Sprintf("index: paper %.80q: %v", e.ID, e.Err) }
func (e *PaperError) Unwrap() error { return e.Err }

// CheckPaper reports a *PaperError for a paper that no index takes: one that
// is larger than MaxPaperBytes or that schemas.Paper.Validate refuses.
func CheckPaper(p *schemas.Paper) error {
	size := 0
	for _, s := range []string{p.ID, p.Title, p.Date, p.URL} {
		size += len(s) + 16
	}
	for _, s := range p.Abstract {
		size += len(s) + 16
	}
	for k, v := range p.Identifiers {
		size += len(k) + len(v) + 32
	}
	if size > MaxPaperBytes {
		return &PaperError{p.ID, fmt.Errorf("%d bytes, the limit is %d: %w", size, MaxPaperBytes, schemas.ErrTooLarge)}
	}
	if err := p.Validate(); err != nil {
		return &PaperError{p.ID, err}
	}
	return nil
}
