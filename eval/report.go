package eval

import "time"

// PipelineReport is the outcome of a run of the whole pipeline over labelled claims.
type PipelineReport struct {
	Metrics
	Claims          int     `json:"claims"`
	ClaimsPerSecond float64 `json:"claims_per_second"` // 0 where the time is unknown

	// StageShare is filled in by who ran and timed the stages.
	StageShare *StageShare `json:"stage_share,omitempty"`
}

// StageShare is how much of the wall time of a run went into each stage,
// fractions from 0 to 1. Inference is rationale and label; what is missing to 1
// went into reading, aggregating and writing.
type StageShare struct {
	Retrieval float64 `json:"retrieval"`
	Rationale float64 `json:"rationale"`
	Label     float64 `json:"label"`
}

// NewPipelineReport adds the throughput of a run that took elapsed.
func NewPipelineReport(m Metrics, claims int, elapsed time.Duration) PipelineReport {
	r := PipelineReport{Metrics: m, Claims: claims}
	if elapsed > 0 {
		r.ClaimsPerSecond = float64(claims) / elapsed.Seconds()
	}
	return r
}
