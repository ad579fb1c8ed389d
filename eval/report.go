package eval

import "time"

// PipelineReport is the outcome of a run of the whole pipeline over labelled claims.
type PipelineReport struct {
	Metrics
	Claims          int     `json:"claims"`
	ClaimsPerSecond float64 `json:"claims_per_second"` // 0 where the time is unknown

	// InferenceShare is the part of the wall time in which at least one batch
	// was inside ONNX Runtime, from 0 to 1; who ran the pipeline fills it in.
	InferenceShare float64 `json:"inference_share"`
}

// NewPipelineReport adds the throughput of a run that took elapsed.
func NewPipelineReport(m Metrics, claims int, elapsed time.Duration) PipelineReport {
	r := PipelineReport{Metrics: m, Claims: claims}
	if elapsed > 0 {
		r.ClaimsPerSecond = float64(claims) / elapsed.Seconds()
	}
	return r
}
