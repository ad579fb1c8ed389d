package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/verisci/verisci/index"
	"github.com/verisci/verisci/index/embedded"
	"github.com/verisci/verisci/index/papers"
	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/internal/demo"
	"github.com/verisci/verisci/schemas"
)

func indexCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "index [FILE...]",
		Short: "Build or update an index from files of abstracts",
		Long: `Adds the abstracts of JSON-lines files to the index, replacing those with the same
id. A file is either SciFact's corpus (doc_id, title, abstract as a list of
sentences) or VeriSci's own papers: id, title, abstract as a list of sentences,
and optionally identifiers, date, url, retracted.`,
		Example: `  verisci index corpus.jsonl
  verisci index --index /var/lib/verisci/index new-papers.jsonl
  verisci index --remove 4983,5836
  verisci index --stats`,
		RunE: func(cmd *cobra.Command, files []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			remove, _ := cmd.Flags().GetStringSlice("remove")
			stats, _ := cmd.Flags().GetBool("stats")
			skip, _ := cmd.Flags().GetBool("skip-bad")
			if len(files) == 0 && len(remove) == 0 && !stats {
				return errors.New("index: name at least one file, or use --remove or --stats")
			}
			if stats && len(files)+len(remove) > 0 {
				return errors.New("index: --stats changes nothing: leave out files and --remove")
			}
			if len(files) == 0 { // nothing to look at or to remove in an index that is not there
				if _, err := os.Stat(cfg.Index.Dir); err != nil {
					return noIndex(cfg.Index.Dir)
				}
			}
			x, err := embedded.Open(cmd.Context(), embedded.Options{Dir: cfg.Index.Dir, Ranking: index.Ranking(cfg.Index.Ranking), Logger: logger})
			if err != nil {
				return err
			}
			defer x.Close()
			if err := loadPapers(cmd.Context(), x, files, skip, cmd.ErrOrStderr(), logger); err != nil {
				return err
			}
			if err := x.Delete(cmd.Context(), remove); err != nil {
				return err
			}
			s, err := x.Stats(cmd.Context())
			if err != nil {
				return err
			}
			if err := json.NewEncoder(cmd.OutOrStdout()).Encode(s); err != nil {
				return err
			}
			return x.Close()
		},
	}
	config.AddFlags(cmd.Flags(), "index.dir", "index.ranking")
	cmd.Flags().StringSlice("remove", nil, "ids of papers to remove, separated by commas")
	cmd.Flags().Bool("stats", false, "only say what the index holds")
	cmd.Flags().Bool("skip-bad", false, "report and pass over lines that are no paper, instead of stopping")
	return cmd
}

// loadPapers adds files to an index, under a progress bar where a person watches.
func loadPapers(ctx context.Context, x index.Index, files []string, skip bool, stderr io.Writer, logger *slog.Logger) error {
	if len(files) == 0 {
		return nil
	}
	opts := papers.Options{}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		bar := progressbar.NewOptions64(-1,
			progressbar.OptionSetWriter(stderr), progressbar.OptionSetDescription("indexing"),
			progressbar.OptionShowBytes(true), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50e6))
		defer bar.Finish()
		opts.Progress = func(p papers.Progress) {
			bar.ChangeMax64(p.Total)
			bar.Describe(fmt.Sprintf("indexing, %d papers", p.Papers))
			_ = bar.Set64(p.Bytes)
		}
	}
	if skip {
		opts.Skip = func(e *papers.LineError) { logger.Warn("a line is passed over", "reason", e.Error()) }
	}
	return papers.Load(ctx, files, opts, func(batch []schemas.Paper) error { return x.Upsert(ctx, batch) })
}

// openIndex opens the index that claims are verified against. It must hold
// papers: an empty one would answer NOT_ENOUGH_INFO to everything.
func openIndex(ctx context.Context, cfg config.Config, logger *slog.Logger) (index.Index, error) {
	if _, err := os.Stat(cfg.Index.Dir); err != nil {
		return nil, noIndex(cfg.Index.Dir)
	}
	x, err := embedded.Open(ctx, embedded.Options{Dir: cfg.Index.Dir, Ranking: index.Ranking(cfg.Index.Ranking), Logger: logger})
	if err != nil {
		return nil, err
	}
	s, err := x.Stats(ctx)
	if err == nil && s.Papers == 0 {
		err = noIndex(cfg.Index.Dir)
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	logger.Info("index opened", "dir", cfg.Index.Dir, "papers", s.Papers, "ranking", s.Ranking, "version", s.Version)
	return x, nil
}

func noIndex(dir string) error {
	return fmt.Errorf("index: there are no papers in %s: build it with 'verisci index FILE', name another with --index, or use --demo for the demo's abstracts", dir)
}

// memoryIndex holds the papers of files, or of the demo where there are none, for this process alone.
func memoryIndex(ctx context.Context, ranking string, files []string, stderr io.Writer, logger *slog.Logger) (index.Index, error) {
	x, err := embedded.Open(ctx, embedded.Options{Ranking: index.Ranking(ranking), Logger: logger})
	if err != nil {
		return nil, err
	}
	if len(files) > 0 {
		err = loadPapers(ctx, x, files, false, stderr, logger)
	} else {
		var list []schemas.Paper
		if list, err = demo.Papers(); err == nil {
			err = x.Upsert(ctx, list)
		}
	}
	if err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// claimsIndex is the demo's index with --demo, or else the configured one.
func claimsIndex(cmd *cobra.Command, cfg config.Config, logger *slog.Logger) (index.Index, error) {
	if isDemo, _ := cmd.Flags().GetBool("demo"); isDemo {
		return memoryIndex(cmd.Context(), cfg.Index.Ranking, nil, cmd.ErrOrStderr(), logger)
	}
	return openIndex(cmd.Context(), cfg, logger)
}
