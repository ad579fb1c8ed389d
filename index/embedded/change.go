package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/schemas"
)

// change is one paper upserted or, without a paper, deleted.
type change struct {
	id     string
	paper  *schemas.Paper
	hash   [sha256.Size]byte // of the payload
	record record
}

// newUpsert makes a change with its own copy of a paper.
func newUpsert(p *schemas.Paper) (*change, error) {
	if err := index.CheckPaper(p); err != nil {
		return nil, err
	}
	own := *p
	// Never nil, so that equal papers have equal hashes.
	own.Abstract = append(make([]string, 0, len(p.Abstract)), p.Abstract...)
	own.Identifiers = maps.Clone(p.Identifiers)
	payload, err := encode(&own)
	if err != nil {
		return nil, err
	}
	return &change{own.ID, &own, sha256.Sum256(payload), record{upsert, payload}}, nil
}

func newDelete(id string) (*change, error) {
	payload, err := encode(id)
	if err != nil {
		return nil, err
	}
	return &change{id: id, record: record{erase, payload}}, nil
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func decodeChange(rec record) (*change, error) {
	c := &change{record: rec}
	var err error
	if rec.kind == erase {
		err = json.Unmarshal(rec.payload, &c.id)
	} else {
		c.paper = new(schemas.Paper)
		err = json.Unmarshal(rec.payload, c.paper)
		c.id, c.hash = c.paper.ID, sha256.Sum256(rec.payload)
	}
	if err != nil {
		return nil, fmt.Errorf("record with a good CRC, but %w", err)
	}
	return c, nil
}
