package eval

import (
	"context"
	"testing"

	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

func TestTheOracleGivesGoldAbstractsAndNoOthers(t *testing.T) {
	claims := []Claim{
		{ID: 1, Evidence: []Gold{{PaperID: "20", Label: schemas.Support}, {PaperID: "10", Label: schemas.Support}}},
		{ID: 2, Cited: []string{"10"}}, // no evidence: none is given
	}
	papers := []schemas.Paper{{ID: "10"}, {ID: "20"}, {ID: "30"}}
	o, err := NewOracle(claims, papers)
	if err != nil {
		t.Fatal(err)
	}
	work := func(id string) *stages.Work { return &stages.Work{Claim: schemas.Claim{ID: id}} }
	batch := []*stages.Work{work("1"), work("2"), work("3")}
	if err := o.Run(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
	if c := batch[0].Candidates; len(c) != 2 || c[0].Paper.ID != "20" || c[0].Rank != 1 || c[1].Paper.ID != "10" || c[1].Rank != 2 {
		t.Errorf("claim 1: %+v", c)
	}
	if batch[1].Err != nil || len(batch[1].Candidates) != 0 {
		t.Errorf("claim 2: %v, %+v", batch[1].Err, batch[1].Candidates)
	}
	if batch[2].Err == nil {
		t.Error("a claim that the oracle does not know has no error")
	}
	if _, err := NewOracle(claims, papers[:1]); err == nil {
		t.Error("a gold abstract outside the corpus is no error")
	}
}
