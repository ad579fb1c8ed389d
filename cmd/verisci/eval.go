package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/verisci/verisci/eval"
	"github.com/verisci/verisci/index/papers"
	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

func evalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "eval",
		Short: "Measure retrieval and the whole pipeline on labelled claims",
		Long: `Measures with the SciFact paper's metrics on claims in SciFact's format. The corpus
is indexed in memory for the run.`,
	}
	cmd.AddCommand(evalRetrievalCommand(), evalPipelineCommand())
	return cmd
}

// addInputs adds what both evaluations read.
func addInputs(cmd *cobra.Command) {
	cmd.Flags().String("corpus", "", "abstracts, in SciFact's format or VeriSci's")
	cmd.Flags().String("claims", "", "labelled claims, in SciFact's format (required)")
	cmd.Flags().Bool("json", false, "print one JSON object")
	_ = cmd.MarkFlagRequired("claims") // fails only for a flag that does not exist
}

func evalRetrievalCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "retrieval",
		Short:   "Recall of the evidence abstracts at 1, 3, 5, 10 and 20",
		Example: `  verisci eval retrieval --corpus corpus.jsonl --claims claims_dev.jsonl --ranking reference --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			corpus, _ := cmd.Flags().GetString("corpus")
			claims, err := labelledClaims(cmd)
			if err != nil {
				return err
			}
			x, err := memoryIndex(cmd.Context(), cfg.Index.Ranking, []string{corpus}, cmd.ErrOrStderr(), logger)
			if err != nil {
				return err
			}
			defer x.Close()
			report, err := eval.EvaluateRetrieval(cmd.Context(), x, claims)
			if err != nil {
				return err
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			var out bytes.Buffer
			fmt.Fprintf(&out, "%s over %d claims with %d evidence abstracts\n", cfg.Index.Ranking, report.Claims, report.Pairs)
			for _, p := range report.Recall {
				fmt.Fprintf(&out, "R@%-3d %.4f\n", p.K, p.Value)
			}
			_, err = out.WriteTo(cmd.OutOrStdout())
			return err
		},
	}
	addInputs(cmd)
	config.AddFlags(cmd.Flags(), "index.ranking")
	_ = cmd.MarkFlagRequired("corpus")
	return cmd
}

func evalPipelineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Sentence- and abstract-level F1 of the whole pipeline",
		Example: `  verisci eval pipeline --corpus corpus.jsonl --claims claims_dev.jsonl
  verisci eval pipeline --corpus corpus.jsonl --claims claims_dev.jsonl --oracle --json
  verisci eval pipeline --claims claims_dev.jsonl --verdicts verdicts.jsonl`,
		Long: `Verifies labelled claims and scores the verdicts with the SciFact paper's metrics.
With --oracle retrieval gives each claim its gold abstracts. With --verdicts
nothing is verified: the verdicts of a file (as 'verisci tail --json' prints
them) are scored, one for each claim.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			verdictsFile, _ := cmd.Flags().GetString("verdicts")
			predictionsFile, _ := cmd.Flags().GetString("predictions")
			claims, err := labelledClaims(cmd)
			if err != nil {
				return err
			}
			var predictionsTo *os.File
			if predictionsFile != "" { // before the work, so that a wrong name does not cost it
				if predictionsTo, err = os.Create(predictionsFile); err != nil {
					return fmt.Errorf("eval: %w", err)
				}
				defer predictionsTo.Close()
			}
			var verdicts []schemas.Verdict
			var report eval.PipelineReport
			if verdictsFile != "" {
				verdicts, err = loadVerdicts(cmd.Context(), verdictsFile)
			} else {
				verdicts, report, err = verifyLabelled(cmd, cfg, logger, claims)
			}
			if err != nil {
				return err
			}
			if len(verdicts) != len(claims) { // ids that are doubled or unknown are found below
				return fmt.Errorf("eval: %d verdicts for %d claims: every claim has one, also those without evidence", len(verdicts), len(claims))
			}
			predictions := make([]eval.Prediction, len(verdicts))
			for i, v := range verdicts {
				if predictions[i], err = eval.FromVerdict(v); err != nil {
					return err
				}
			}
			if report.Metrics, err = eval.Evaluate(claims, predictions); err != nil {
				return err
			}
			report.Claims = len(claims)
			if predictionsTo != nil {
				if err := errors.Join(eval.WritePredictions(predictionsTo, predictions), predictionsTo.Close()); err != nil {
					return err
				}
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			return printPipeline(cmd.OutOrStdout(), report)
		},
	}
	addInputs(cmd)
	config.AddFlags(cmd.Flags(), "index.ranking", "index.k", "models", "kafka.batch")
	cmd.Flags().Bool("oracle", false, "give each claim its gold evidence abstracts instead of retrieving")
	cmd.Flags().String("predictions", "", "write the predictions to this file, in the reference's submission format")
	cmd.Flags().String("verdicts", "", "score the verdicts of this file (a JSON object a line) instead of verifying")
	cmd.MarkFlagsOneRequired("corpus", "verdicts")
	cmd.MarkFlagsMutuallyExclusive("corpus", "verdicts")
	cmd.MarkFlagsMutuallyExclusive("oracle", "verdicts")
	return cmd
}

// verifyLabelled takes the claims through the pipeline, and reports how fast that was.
func verifyLabelled(cmd *cobra.Command, cfg config.Config, logger *slog.Logger, claims []eval.Claim) ([]schemas.Verdict, eval.PipelineReport, error) {
	none := eval.PipelineReport{}
	retrieval, closeIndex, err := evalRetrieval(cmd, cfg, logger, claims)
	if err != nil {
		return nil, none, err
	}
	defer closeIndex()
	e, err := openEngine(cfg, retrieval)
	if err != nil {
		return nil, none, err
	}
	defer e.Close()
	works := make([]*stages.Work, len(claims))
	start := time.Now()
	for i, c := range claims {
		works[i] = newWork(schemas.Claim{ID: strconv.Itoa(c.ID), Text: c.Text})
	}
	if err := e.VerifyAll(cmd.Context(), works, cfg.Kafka.Batch); err != nil {
		return nil, none, err
	}
	elapsed := time.Since(start)
	verdicts := make([]schemas.Verdict, len(works))
	for i, w := range works {
		if w.Err != nil {
			return nil, none, fmt.Errorf("eval: claim %s: %w", w.Claim.ID, w.Err)
		}
		verdicts[i] = w.Verdict
	}
	report := eval.NewPipelineReport(eval.Metrics{}, len(claims), elapsed)
	report.InferenceShare = e.meter.Busy().Seconds() / elapsed.Seconds()
	return verdicts, report, nil
}

// evalRetrieval is the oracle's stage with --oracle, or else that of an index in memory.
func evalRetrieval(cmd *cobra.Command, cfg config.Config, logger *slog.Logger, claims []eval.Claim) (stage stages.Stage, closeIndex func() error, err error) {
	corpus, _ := cmd.Flags().GetString("corpus")
	if oracle, _ := cmd.Flags().GetBool("oracle"); oracle {
		var list []schemas.Paper
		err := papers.Load(cmd.Context(), []string{corpus}, papers.Options{}, func(batch []schemas.Paper) error {
			list = append(list, batch...)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		stage, err := eval.NewOracle(claims, list)
		return stage, func() error { return nil }, err
	}
	x, err := memoryIndex(cmd.Context(), cfg.Index.Ranking, []string{corpus}, cmd.ErrOrStderr(), logger)
	if err != nil {
		return nil, nil, err
	}
	return &stages.Retrieval{Index: x, K: cfg.Index.K}, x.Close, nil
}

func printPipeline(w io.Writer, r eval.PipelineReport) error {
	out := &bytes.Buffer{}
	fmt.Fprintf(out, "%-20s %6s %6s %6s\n", "", "P", "R", "F1")
	for _, row := range []struct {
		name string
		s    eval.Score
	}{
		{"sentence selection", r.SentenceSelection}, {"sentence label", r.SentenceLabel},
		{"abstract label", r.AbstractLabel}, {"abstract rationale", r.AbstractRationale},
	} {
		fmt.Fprintf(out, "%-20s %6.1f %6.1f %6.1f\n", row.name, row.s.P, row.s.R, row.s.F1)
	}
	fmt.Fprintf(out, "%d claims", r.Claims)
	if r.ClaimsPerSecond > 0 {
		fmt.Fprintf(out, ", %.1f a second, %.1f %% of the time inside ONNX Runtime", r.ClaimsPerSecond, 100*r.InferenceShare)
	}
	fmt.Fprintln(out)
	_, err := out.WriteTo(w)
	return err
}

func labelledClaims(cmd *cobra.Command) ([]eval.Claim, error) {
	path, err := cmd.Flags().GetString("claims")
	if err != nil {
		return nil, err
	}
	return eval.LoadClaims(path)
}

func loadVerdicts(ctx context.Context, path string) ([]schemas.Verdict, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer f.Close()
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		return nil, err
	}
	var out []schemas.Verdict
	dec := json.NewDecoder(f)
	for n := 1; ; n++ {
		var raw json.RawMessage
		err := dec.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		var v schemas.Verdict
		if err == nil {
			v, _, err = codec.DecodeVerdict(ctx, raw)
		}
		if err != nil {
			return nil, fmt.Errorf("eval: %s: verdict %d: %w", path, n, err)
		}
		out = append(out, v)
	}
}
