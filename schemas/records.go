package schemas

import "time"

// Claim is a scientific statement to be checked: one record of the claims topic.
type Claim struct {
	ID         string            `avro:"id" json:"id"`
	Text       string            `avro:"text" json:"text"`
	Source     string            `avro:"source" json:"source,omitempty"`
	Created    *time.Time        `avro:"created" json:"created,omitempty"` // millisecond precision; nil when unknown
	Attributes map[string]string `avro:"attributes" json:"attributes,omitempty"`
}

// Paper is a research abstract that claims are checked against.
type Paper struct {
	ID          string            `avro:"id" json:"id"`
	Title       string            `avro:"title" json:"title"`
	Abstract    []string          `avro:"abstract" json:"abstract"`                 // one sentence an entry
	Identifiers map[string]string `avro:"identifiers" json:"identifiers,omitempty"` // keys: doi, pmid, pmcid, cord_uid, ...
	Date        string            `avro:"date" json:"date,omitempty"`               // ISO 8601, possibly cut: 2020, 2020-03, 2020-03-17
	URL         string            `avro:"url" json:"url,omitempty"`
	Retracted   bool              `avro:"retracted" json:"retracted,omitempty"`
}

// Label is what one abstract, or a whole verdict, says of a claim.
type Label string

// The labels of one abstract are the first three (SciFact paper, section 2);
// Conflicting is only ever the label of a whole verdict.
const (
	Support       Label = "SUPPORT"
	Contradict    Label = "CONTRADICT"
	NotEnoughInfo Label = "NOT_ENOUGH_INFO"
	Conflicting   Label = "CONFLICTING"
)

// Probabilities are the label stage's softmax over the three labels of an abstract; they sum to 1.
type Probabilities struct {
	Contradict    float32 `avro:"contradict" json:"contradict"`
	NotEnoughInfo float32 `avro:"not_enough_info" json:"not_enough_info"`
	Support       float32 `avro:"support" json:"support"`
}

// RationaleSentence is a sentence picked by the rationale stage.
type RationaleSentence struct {
	Index int     `avro:"index" json:"index"` // zero-based position in the abstract
	Text  string  `avro:"text" json:"text"`
	Score float32 `avro:"score" json:"score"` // 0 to 1
}

// Evidence is one abstract that supports or contradicts the claim.
type Evidence struct {
	PaperID        string              `avro:"paper_id" json:"paper_id"`
	Title          string              `avro:"title" json:"title"`
	URL            string              `avro:"url" json:"url,omitempty"`
	Label          Label               `avro:"label" json:"label"` // Support or Contradict
	Probabilities  Probabilities       `avro:"probabilities" json:"probabilities"`
	Rationale      []RationaleSentence `avro:"rationale" json:"rationale"`           // best first, never empty
	RetrievalRank  int                 `avro:"retrieval_rank" json:"retrieval_rank"` // 1 is the best hit
	RetrievalScore float64             `avro:"retrieval_score" json:"retrieval_score"`
	Relevance      *float32            `avro:"relevance" json:"relevance,omitempty"` // 0 to 1; nil where the rationale stage does not judge abstracts
}

// Counts are the numbers of retrieved abstracts behind a verdict's label.
type Counts struct {
	Retrieved     int `avro:"retrieved" json:"retrieved"` // the sum of the three others
	Support       int `avro:"support" json:"support"`
	Contradict    int `avro:"contradict" json:"contradict"`
	NotEnoughInfo int `avro:"not_enough_info" json:"not_enough_info"`
}

// ModelRef names the bundle a stage ran.
type ModelRef struct {
	Name      string  `avro:"name" json:"name"`
	Hash      string  `avro:"hash" json:"hash"` // hex SHA-256 over the bundle's files
	Threshold float64 `avro:"threshold" json:"threshold"`
}

// Provenance says what made a verdict, so that it can be repeated.
type Provenance struct {
	Rationale    ModelRef `avro:"rationale" json:"rationale"`
	Label        ModelRef `avro:"label" json:"label"`
	Ranking      string   `avro:"ranking" json:"ranking"`             // reference, tfidf or bm25
	K            int      `avro:"k" json:"k"`                         // abstracts asked of the index
	IndexVersion string   `avro:"index_version" json:"index_version"` // changes with the index's content
	Software     string   `avro:"software" json:"software"`           // version of VeriSci
}

// Times are a claim's way through the service. The stages' times are those of
// the batch the claim was in, in milliseconds.
type Times struct {
	Created     *time.Time `avro:"created" json:"created,omitempty"`
	Received    time.Time  `avro:"received" json:"received"`
	Produced    time.Time  `avro:"produced" json:"produced"`
	RetrievalMs float64    `avro:"retrieval_ms" json:"retrieval_ms"`
	RationaleMs float64    `avro:"rationale_ms" json:"rationale_ms"`
	LabelMs     float64    `avro:"label_ms" json:"label_ms"`
}

// Verdict is what is published for every claim, evidence or not.
type Verdict struct {
	ClaimID    string     `avro:"claim_id" json:"claim_id"`
	Claim      string     `avro:"claim" json:"claim"`
	Label      Label      `avro:"label" json:"label"`
	Confidence float64    `avro:"confidence" json:"confidence"` // 0 to 1; the rule is stages.Aggregate's
	Counts     Counts     `avro:"counts" json:"counts"`
	Evidence   []Evidence `avro:"evidence" json:"evidence"` // best first; empty for NotEnoughInfo
	Provenance Provenance `avro:"provenance" json:"provenance"`
	Times      Times      `avro:"times" json:"times"`
}
