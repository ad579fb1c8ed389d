// Command verisci checks scientific claims against research abstracts: as a
// Kafka stream processor, or directly from the command line. What the commands
// do stands in the packages; here are flags, wiring and what a person sees.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/verisci/verisci/internal/config"
)

// version is set when linking.
var version = "development"

func main() {
	// The first signal asks for a graceful stop; after it, a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := root().ExecuteContext(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = fmt.Errorf("interrupted: %w", err)
		}
		fmt.Fprintln(os.Stderr, "verisci:", err)
		os.Exit(1)
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verisci",
		Short: "Check scientific claims against research abstracts",
		Long: `VeriSci reads scientific claims, finds the abstracts that bear on them, picks the
sentences that matter and says of each abstract whether it supports or
contradicts the claim. As a service it does so from one Kafka topic to another,
exactly once.

Settings come from --config FILE (YAML), the environment (VERISCI_KAFKA_LANES
for kafka.lanes) and flags, each over the one before. 'verisci config' lists them.`,
		Example: `  verisci demo                              # the whole way, in one process
  verisci index corpus.jsonl                # index your abstracts
  verisci verify "Vitamin C cures colds."   # check a claim, without Kafka
  verisci run --embedded                    # the service, with its own broker`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.PersistentFlags().String("config", "", "YAML file of settings")
	config.AddFlags(cmd.PersistentFlags(), "log")
	cmd.AddCommand(
		demoCommand(), runCommand(), indexCommand(), verifyCommand(),
		produceCommand(), tailCommand(), brokerCommand(), evalCommand(),
		configCommand(), versionCommand(),
	)
	return cmd
}

// load reads the settings of a command and makes its logger.
func load(cmd *cobra.Command) (config.Config, *slog.Logger, error) {
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return config.Config{}, nil, err
	}
	cfg, err := config.Load(path, cmd.Flags())
	if err != nil {
		return config.Config{}, nil, err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		return config.Config{}, nil, err
	}
	opts := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(cmd.ErrOrStderr(), opts)
	if cfg.Log.Format == "json" {
		handler = slog.NewJSONHandler(cmd.ErrOrStderr(), opts)
	}
	return cfg, slog.New(handler), nil
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "verisci", version)
			return err
		},
	}
}

func configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "List every setting with its default, environment variable and flag",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range config.Settings() {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n    %s\n    default %v, environment %s, flag --%s\n", s.Key, s.Doc, s.Default, s.Env, s.Flag); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
