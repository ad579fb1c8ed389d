package stages

import (
	"context"
	"time"

	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/schemas"
)

// ErrClaimTooLong is the permanent error of a claim that leaves a model no room
// for evidence.
var ErrClaimTooLong = models.ErrClaimTooLong

// Work is one claim on its way through the pipeline. Each stage reads what the
// stages before it wrote and fills in its own part.
type Work struct {
	Claim      schemas.Claim
	Received   time.Time
	Candidates []Candidate     // written by retrieval, best hit first
	Verdict    schemas.Verdict // written by aggregate

	// Err is this claim's own permanent error: the stages after it pass the
	// claim by, and it goes to the dead letters.
	Err error

	IndexVersion string
	Spent        Spent
}

// Spent is the wall time that the batch this claim was in took in each stage.
type Spent struct{ Retrieval, Rationale, Label time.Duration }

// Candidate is one retrieved abstract of a claim.
type Candidate struct {
	Paper *schemas.Paper
	Rank  int     // 1 is the best
	Score float64 // the ranking's

	// Rationale and Relevance are written by the rationale stage. An empty
	// rationale means that the abstract has nothing to say of the claim.
	Rationale []schemas.RationaleSentence // best first
	Relevance *float32                    // nil where the stage does not judge whole abstracts

	// Label and Probabilities are written by the label stage.
	Label         schemas.Label
	Probabilities schemas.Probabilities
}

// Stage is the one contract of the pipeline. Run works on a batch in place.
// What goes wrong with one item for good is set in that item's Err. A returned
// error is the batch's: nothing of the batch may be published or committed, and
// the same batch may be run again (stages overwrite what they wrote before).
// Run is safe for concurrent use: several lanes share the stages.
type Stage interface {
	Name() string
	Run(ctx context.Context, batch []*Work) error
}
