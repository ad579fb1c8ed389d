package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/models"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// engine is the pipeline with its models, ready to verify.
type engine struct {
	*stages.Pipeline
	runners  int
	meter    models.Meter // of both models
	models   []*models.Model
	batchers []*stages.Batcher
}

// openEngine opens both bundles and puts the pipeline together over retrieval.
func openEngine(cfg config.Config, retrieval stages.Stage) (_ *engine, err error) {
	e := &engine{runners: cfg.Models.Runners}
	if e.runners == 0 {
		e.runners = 1
		if cfg.Models.Device == string(models.CPU) {
			e.runners = max(1, runtime.GOMAXPROCS(0)/cfg.Models.Threads)
		}
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	rationale, rationaleBatcher, err := e.open(cfg, cfg.Models.Rationale, models.Rationale)
	if err != nil {
		return nil, err
	}
	label, labelBatcher, err := e.open(cfg, cfg.Models.Label, models.Label)
	if err != nil {
		return nil, err
	}
	rationaleThreshold := orBundles(cfg.Models.RationaleThreshold, rationale)
	labelThreshold := orBundles(cfg.Models.LabelThreshold, label)
	e.Pipeline = &stages.Pipeline{
		Retrieval: retrieval,
		Rationale: &stages.PairRationale{Model: rationale, Infer: rationaleBatcher, Threshold: rationaleThreshold},
		Label:     &stages.PairLabel{Model: label, Infer: labelBatcher, Threshold: labelThreshold},
		Aggregate: &stages.Aggregate{Provenance: schemas.Provenance{
			Rationale: schemas.ModelRef{Name: rationale.Name, Hash: rationale.Hash, Threshold: rationaleThreshold},
			Label:     schemas.ModelRef{Name: label.Name, Hash: label.Hash, Threshold: labelThreshold},
			Ranking:   cfg.Index.Ranking,
			K:         cfg.Index.K,
			Software:  fmt.Sprintf("verisci %s, ONNX Runtime %s", version, rationale.RuntimeVersion),
		}},
	}
	return e, nil
}

func (e *engine) open(cfg config.Config, name string, task models.Task) (*models.Model, *stages.Batcher, error) {
	dir, err := models.FindBundle(name)
	if err != nil {
		return nil, nil, err
	}
	m, err := models.Open(dir, task, models.Options{
		Library:  cfg.Models.Library,
		Device:   models.Device(cfg.Models.Device),
		DeviceID: cfg.Models.DeviceID,
		Threads:  cfg.Models.Threads,
		Meter:    &e.meter,
	})
	if err != nil {
		return nil, nil, err
	}
	b := stages.NewBatcher(m, stages.BatcherOptions{TokenBudget: cfg.Models.TokenBudget, Runners: e.runners})
	e.models, e.batchers = append(e.models, m), append(e.batchers, b)
	return m, b, nil
}

// orBundles is the configured threshold, or the bundle's where none is configured.
func orBundles(configured float64, m *models.Model) float64 {
	if configured < 0 {
		return m.Threshold
	}
	return configured
}

// VerifyAll verifies claims in batches of size, several at once so that one
// batch's tokenizing and retrieval fill the wait for another's inference.
func (e *engine) VerifyAll(ctx context.Context, works []*stages.Work, size int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(e.runners + 1)
	for start := 0; start < len(works); start += size {
		batch := works[start:min(start+size, len(works))]
		group.Go(func() error { return e.Verify(ctx, batch) })
	}
	return group.Wait()
}

func (e *engine) Close() error {
	var errs []error
	for _, b := range e.batchers {
		b.Close()
	}
	for _, m := range e.models {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
