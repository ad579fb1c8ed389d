package demo

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"

	"github.com/verisci/verisci/schemas"
)

//go:embed data/papers.jsonl
var papersFile []byte

//go:embed data/claims.jsonl
var claimsFile []byte

// Claim is a claim together with what the abstracts say of it. Only the embedded
// claim goes into the pipeline.
type Claim struct {
	schemas.Claim
	Expected schemas.Label `json:"expected"`  // Support, Contradict or NotEnoughInfo
	PaperIDs []string      `json:"paper_ids"` // the abstracts that say so; empty for NotEnoughInfo
}

// Papers returns the abstracts, ordered by id: demo-001, demo-002, ...
func Papers() ([]schemas.Paper, error) { return decode[schemas.Paper](papersFile, "papers.jsonl") }

// Claims returns the claims, ordered by id: demo-claim-01, demo-claim-02, ...
func Claims() ([]Claim, error) { return decode[Claim](claimsFile, "claims.jsonl") }

func decode[T any](file []byte, name string) ([]T, error) {
	dec := json.NewDecoder(bytes.NewReader(file))
	dec.DisallowUnknownFields()
	var records []T
	for {
		var r T
		err := dec.Decode(&r)
		if err == io.EOF {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("demo: %s: record %d: %w", name, len(records)+1, err)
		}
		records = append(records, r)
	}
}
