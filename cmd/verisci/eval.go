package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
	cmd.PersistentFlags().String("corpus", "", "abstracts, in SciFact's format or VeriSci's (required)")
	cmd.PersistentFlags().String("claims", "", "labelled claims, in SciFact's format (required)")
	cmd.PersistentFlags().Bool("json", false, "print one JSON object")
	_ = cmd.MarkPersistentFlagRequired("corpus") // fails only for a flag that does not exist
	_ = cmd.MarkPersistentFlagRequired("claims")
	cmd.AddCommand(evalRetrievalCommand(), evalPipelineCommand())
	return cmd
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
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s over %d claims with %d evidence abstracts\n", cfg.Index.Ranking, report.Claims, report.Pairs)
			for _, p := range report.Recall {
				fmt.Fprintf(out, "R@%-3d %.4f\n", p.K, p.Value)
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "index.ranking")
	return cmd
}

func evalPipelineCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipeline",
		Short: "Sentence- and abstract-level F1 of the whole pipeline",
		Example: `  verisci eval pipeline --corpus corpus.jsonl --claims claims_dev.jsonl
  verisci eval pipeline --corpus corpus.jsonl --claims claims_dev.jsonl --oracle --json
  verisci eval pipeline --corpus corpus.jsonl --claims claims_dev.jsonl --verdicts verdicts.jsonl`,
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
			corpus, _ := cmd.Flags().GetString("corpus")
			oracle, _ := cmd.Flags().GetBool("oracle")
			verdictsFile, _ := cmd.Flags().GetString("verdicts")
			predictionsFile, _ := cmd.Flags().GetString("predictions")
			claims, err := labelledClaims(cmd)
			if err != nil {
				return err
			}
			var predictions []eval.Prediction
			var report eval.PipelineReport
			if verdictsFile != "" {
				if predictions, err = loadVerdicts(cmd.Context(), verdictsFile); err != nil {
					return err
				}
			} else {
				x, err := memoryIndex(cmd.Context(), cfg.Index.Ranking, []string{corpus}, cmd.ErrOrStderr(), logger)
				if err != nil {
					return err
				}
				defer x.Close()
				var retrieval stages.Stage = &stages.Retrieval{Index: x, K: cfg.Index.K}
				if oracle {
					var list []schemas.Paper
					err := papers.Load(cmd.Context(), []string{corpus}, papers.Options{}, func(batch []schemas.Paper) error {
						list = append(list, batch...)
						return nil
					})
					if err != nil {
						return err
					}
					if retrieval, err = eval.NewOracle(claims, list); err != nil {
						return err
					}
				}
				e, err := openEngine(cfg, retrieval)
				if err != nil {
					return err
				}
				defer e.Close()
				works := make([]*stages.Work, len(claims))
				start := time.Now()
				for i, c := range claims {
					works[i] = newWork(schemas.Claim{ID: strconv.Itoa(c.ID), Text: c.Text})
				}
				if err := e.VerifyAll(cmd.Context(), works, cfg.Kafka.Batch); err != nil {
					return err
				}
				elapsed := time.Since(start)
				for _, w := range works {
					if w.Err != nil {
						return fmt.Errorf("eval: claim %s: %w", w.Claim.ID, w.Err)
					}
					p, err := eval.FromVerdict(w.Verdict)
					if err != nil {
						return err
					}
					predictions = append(predictions, p)
				}
				report = eval.NewPipelineReport(eval.Metrics{}, len(claims), elapsed)
				report.InferenceShare = e.meter.Busy().Seconds() / elapsed.Seconds()
			}
			if report.Metrics, err = eval.Evaluate(claims, predictions); err != nil {
				return err
			}
			report.Claims = len(claims)
			if predictionsFile != "" {
				if err := writePredictions(predictionsFile, predictions); err != nil {
					return err
				}
			}
			if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			}
			printPipeline(cmd.OutOrStdout(), report)
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "index.ranking", "index.k", "models", "kafka.batch")
	cmd.Flags().Bool("oracle", false, "give each claim its gold evidence abstracts instead of retrieving")
	cmd.Flags().String("predictions", "", "write the predictions to this file, in the reference's submission format")
	cmd.Flags().String("verdicts", "", "score the verdicts of this file (a JSON object a line) instead of verifying")
	return cmd
}

func printPipeline(out io.Writer, r eval.PipelineReport) {
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
}

func labelledClaims(cmd *cobra.Command) ([]eval.Claim, error) {
	path, err := cmd.Flags().GetString("claims")
	if err != nil {
		return nil, err
	}
	return eval.LoadClaims(path)
}

func loadVerdicts(ctx context.Context, path string) ([]eval.Prediction, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("eval: %w", err)
	}
	defer f.Close()
	codec, err := schemas.NewCodec(schemas.Options{})
	if err != nil {
		return nil, err
	}
	var out []eval.Prediction
	dec := json.NewDecoder(f)
	for n := 1; ; n++ {
		var raw json.RawMessage
		if err := dec.Decode(&raw); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, fmt.Errorf("eval: %s: verdict %d: %w", path, n, err)
		}
		v, _, err := codec.DecodeVerdict(ctx, raw)
		if err != nil {
			return nil, fmt.Errorf("eval: %s: verdict %d: %w", path, n, err)
		}
		p, err := eval.FromVerdict(v)
		if err != nil {
			return nil, fmt.Errorf("eval: %s: verdict %d: %w", path, n, err)
		}
		out = append(out, p)
	}
}

func writePredictions(path string, predictions []eval.Prediction) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	if err := eval.WritePredictions(f, predictions); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
