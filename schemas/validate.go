package schemas

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// The bounds on single fields, in bytes and entries.
const (
	DefaultMaxText = 4096 // of a claim's text
	maxID          = 512
	maxEntries     = 64 // of attributes and of identifiers
	maxEntryKey    = 128
	maxEntryValue  = 4096
	maxCount       = math.MaxInt32 // what an Avro int holds
	minYear        = 1             // the zero time.Time's
	maxYear        = 9999          // RFC 3339's last, the form of times in JSON
)

// checker keeps the first thing wrong with a record, so that the rules below
// read as a list.
type checker struct {
	record string
	err    error
}

func (c *checker) fail(field string, kind error) {
	if c.err == nil {
		c.err = fmt.Errorf("schemas: %s %s: %w", c.record, field, kind)
	}
}

func (c *checker) that(ok bool, field, rule string) {
	if !ok {
		c.fail(field+" "+rule, ErrInvalid)
	}
}

func (c *checker) utf8(field, s string) {
	if !utf8.ValidString(s) {
		c.fail(field, ErrNotUTF8)
	}
}

func (c *checker) size(field, s string, limit int) {
	if len(s) > limit {
		c.fail(fmt.Sprintf("%s has %d bytes, the limit is %d", field, len(s), limit), ErrTooLarge)
	}
}

func (c *checker) id(field, s string) {
	c.size(field, s, maxID)
	c.utf8(field, s)
	c.that(s != "", field, "must not be empty")
	c.that(strings.IndexByte(s, 0) < 0, field, "must not hold a NUL")
}

func (c *checker) text(field, s string) {
	c.utf8(field, s)
	c.that(strings.TrimSpace(s) != "", field, "must not be blank")
	c.that(strings.IndexByte(s, 0) < 0, field, "must not hold a NUL")
}

func (c *checker) entries(field string, m map[string]string) {
	c.that(len(m) <= maxEntries, field, fmt.Sprintf("must have at most %d entries", maxEntries))
	for k, v := range m {
		c.utf8(field, k)
		c.utf8(field, v)
		c.size(field+": a key", k, maxEntryKey)
		c.size(field+": a value", v, maxEntryValue)
	}
}

func (c *checker) time(field string, t time.Time) {
	year := t.UTC().Year()
	c.that(year >= minYear && year <= maxYear, field, fmt.Sprintf("must lie in the years %d to %d", minYear, maxYear))
}

func (c *checker) count(field string, n int) {
	c.that(n >= 0 && n <= maxCount, field, fmt.Sprintf("must be 0 to %d", maxCount))
}

func (c *checker) unit(field string, x float64) {
	c.that(x >= 0 && x <= 1, field, "must be 0 to 1") // false for NaN too
}

func (c *checker) finite(field string, x float64) {
	c.that(!math.IsNaN(x) && !math.IsInf(x, 0), field, "must be a finite number")
}

// Validate checks what the schema cannot say. maxText bounds the text in bytes;
// 0 stands for DefaultMaxText. Errors wrap ErrInvalid, ErrTooLarge or ErrNotUTF8
// and name the field.
func (c Claim) Validate(maxText int) error {
	if maxText <= 0 {
		maxText = DefaultMaxText
	}
	v := checker{record: "claim"}
	v.id("id", c.ID)
	v.size("text", c.Text, maxText)
	v.text("text", c.Text)
	v.utf8("source", c.Source)
	if c.Created != nil {
		v.time("created", *c.Created)
	}
	v.entries("attributes", c.Attributes)
	return v.err
}

// Validate checks what the schema cannot say; see Claim.Validate for the errors.
func (p Paper) Validate() error {
	v := checker{record: "paper"}
	v.id("id", p.ID)
	v.utf8("title", p.Title)
	for _, s := range p.Abstract {
		v.utf8("abstract", s)
	}
	v.entries("identifiers", p.Identifiers)
	v.utf8("date", p.Date)
	v.utf8("url", p.URL)
	return v.err
}

// Validate checks what the schema cannot say; see Claim.Validate for the errors.
// It bounds numbers and names; that counts and labels agree with the evidence
// is the business of whoever makes the verdict.
func (d Verdict) Validate() error {
	v := checker{record: "verdict"}
	v.id("claim_id", d.ClaimID)
	v.text("claim", d.Claim)
	v.that(d.Label == Support || d.Label == Contradict || d.Label == NotEnoughInfo || d.Label == Conflicting,
		"label", "must be SUPPORT, CONTRADICT, NOT_ENOUGH_INFO or CONFLICTING")
	v.unit("confidence", d.Confidence)
	v.count("counts.retrieved", d.Counts.Retrieved)
	v.count("counts.support", d.Counts.Support)
	v.count("counts.contradict", d.Counts.Contradict)
	v.count("counts.not_enough_info", d.Counts.NotEnoughInfo)
	for _, e := range d.Evidence {
		e.check(&v)
	}
	d.Provenance.check(&v)
	d.Times.check(&v)
	return v.err
}

func (e Evidence) check(v *checker) {
	v.id("evidence.paper_id", e.PaperID)
	v.utf8("evidence.title", e.Title)
	v.utf8("evidence.url", e.URL)
	// NotEnoughInfo is what a reader makes of a label newer than its schema.
	v.that(e.Label == Support || e.Label == Contradict || e.Label == NotEnoughInfo,
		"evidence.label", "must be SUPPORT or CONTRADICT")
	v.unit("evidence.probabilities.contradict", float64(e.Probabilities.Contradict))
	v.unit("evidence.probabilities.not_enough_info", float64(e.Probabilities.NotEnoughInfo))
	v.unit("evidence.probabilities.support", float64(e.Probabilities.Support))
	for _, s := range e.Rationale {
		v.count("evidence.rationale.index", s.Index)
		v.utf8("evidence.rationale.text", s.Text)
		v.unit("evidence.rationale.score", float64(s.Score))
	}
	v.count("evidence.retrieval_rank", e.RetrievalRank)
	v.finite("evidence.retrieval_score", e.RetrievalScore)
	if e.Relevance != nil {
		v.unit("evidence.relevance", float64(*e.Relevance))
	}
}

func (p Provenance) check(v *checker) {
	for _, m := range []ModelRef{p.Rationale, p.Label} {
		v.utf8("provenance: a model's name", m.Name)
		v.utf8("provenance: a model's hash", m.Hash)
		v.finite("provenance: a model's threshold", m.Threshold)
	}
	v.utf8("provenance.ranking", p.Ranking)
	v.count("provenance.k", p.K)
	v.utf8("provenance.index_version", p.IndexVersion)
	v.utf8("provenance.software", p.Software)
}

func (t Times) check(v *checker) {
	if t.Created != nil {
		v.time("times.created", *t.Created)
	}
	v.time("times.received", t.Received)
	v.time("times.produced", t.Produced)
	v.finite("times.retrieval_ms", t.RetrievalMs)
	v.finite("times.rationale_ms", t.RationaleMs)
	v.finite("times.label_ms", t.LabelMs)
}
