package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/internal/demo"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

func demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start everything, check the demo's claims through the topics, stop",
		Long: `Starts a broker in this process, indexes the demo's abstracts (short summaries of
well-known findings, written for the demo), sends the demo's claims to the claims
topic, runs the service, prints the verdicts it publishes, and stops. Nothing is
left behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			asJSON, _ := cmd.Flags().GetBool("json")
			out, err := newPrinter(cmd.OutOrStdout(), asJSON)
			if err != nil {
				return err
			}
			say := func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) }
			claims, err := demo.Claims()
			if err != nil {
				return err
			}
			ctx := cmd.Context()
			x, err := memoryIndex(ctx, cfg.Index.Ranking, nil, cmd.ErrOrStderr(), logger)
			if err != nil {
				return err
			}
			defer x.Close()
			stats, err := x.Stats(ctx)
			if err != nil {
				return err
			}
			say("index: %d abstracts, ranking %s", stats.Papers, stats.Ranking)
			e, err := openEngine(cfg, &stages.Retrieval{Index: x, K: cfg.Index.K})
			if err != nil {
				return err
			}
			defer e.Close()
			cfg.Kafka.EmbeddedDir, cfg.Kafka.EmbeddedPort = "", 0
			b, err := startBroker(cfg, logger)
			if err != nil {
				return err
			}
			defer b.Close()
			// What a client warns of while everything stops at once would only puzzle.
			quiet := slog.New(atLeast{logger.Handler(), slog.LevelError})
			s, err := openStream(ctx, cfg, []string{b.Addr()}, quiet)
			if err != nil {
				return err
			}
			c, err := s.consumer(cfg, e)
			if err != nil {
				return err
			}
			start := time.Now()
			sent, err := s.send(ctx, func(yield func(schemas.Claim, error) bool) {
				for _, c := range claims {
					if !yield(c.Claim, nil) {
						return
					}
				}
			})
			if err != nil {
				return err
			}
			say("broker: %s in this process; %d claims sent to %s", b.Addr(), sent, cfg.Kafka.ClaimsTopic)
			say("service: reading them, publishing on %s\n", cfg.Kafka.VerdictsTopic)
			running, stop := context.WithTimeout(ctx, 2*time.Minute)
			defer stop()
			group, running := errgroup.WithContext(running)
			seen := 0
			group.Go(func() error { return c.Run(running) })
			group.Go(func() error {
				return s.tail(running, true, func(v schemas.Verdict) error {
					if seen++; seen == len(claims) {
						stop() // the service commits what it has in hand and leaves the group
					}
					return out.print(v)
				})
			})
			if err := group.Wait(); err != nil {
				return err
			}
			if seen != len(claims) {
				return errors.Join(ctx.Err(), fmt.Errorf("demo: %d verdicts for %d claims", seen, len(claims)))
			}
			say("%d verdicts in %.1f s. Next: verisci index FILE, verisci verify \"CLAIM\", verisci run --embedded.", len(claims), time.Since(start).Seconds())
			return nil
		},
	}
	config.AddFlags(cmd.Flags(), "index.ranking", "index.k", "models")
	cmd.Flags().Bool("json", false, "a JSON object a line instead of text")
	return cmd
}
