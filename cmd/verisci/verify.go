package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

func verifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [CLAIM...]",
		Short: "Check claims against an index, without Kafka",
		Long: `Checks the claims given as arguments, or those on standard input: a line of text
each, or a JSON object a line as for 'verisci produce'.`,
		Example: `  verisci verify --demo "Smoking causes lung cancer."
  verisci verify --index data/index --json < claims.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			asJSON, _ := cmd.Flags().GetBool("json")
			out, err := newPrinter(cmd.OutOrStdout(), asJSON)
			if err != nil {
				return err
			}
			claims := givenClaims(args, cfg.Claim.MaxBytes)
			if len(args) == 0 {
				claims = readClaims(cmd.Context(), cmd.InOrStdin(), "standard input", "", cfg.Claim.MaxBytes)
			}
			x, err := claimsIndex(cmd, cfg, logger)
			if err != nil {
				return err
			}
			defer x.Close()
			e, err := openEngine(cfg, &stages.Retrieval{Index: x, K: cfg.Index.K})
			if err != nil {
				return err
			}
			defer e.Close()
			failed := 0
			for end := error(nil); end == nil; {
				var batch []schemas.Claim
				batch, end = nextBatch(cmd.Context(), claims, 256)
				works := make([]*stages.Work, len(batch))
				for i, c := range batch {
					works[i] = newWork(c)
				}
				if err := e.VerifyAll(cmd.Context(), works, 32); err != nil {
					return err
				}
				for _, w := range works {
					if w.Err != nil {
						failed++
						fmt.Fprintf(cmd.ErrOrStderr(), "verisci: claim %s: %v\n", w.Claim.ID, w.Err)
						continue
					}
					w.Verdict.Times.Produced = time.Now()
					if err := out.print(w.Verdict); err != nil {
						return err
					}
				}
				if end != nil && !errors.Is(end, io.EOF) {
					return fmt.Errorf("verify: %w", end)
				}
			}
			if failed > 0 {
				return fmt.Errorf("verify: %d claims could not be verified", failed)
			}
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "index", "models", "claim")
	cmd.Flags().Bool("json", false, "a JSON object a line instead of text")
	cmd.Flags().Bool("demo", false, "use the demo's abstracts instead of an index")
	return cmd
}

func newWork(c schemas.Claim) *stages.Work {
	return &stages.Work{Claim: c, Received: time.Now()}
}
