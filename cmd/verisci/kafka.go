package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/verisci/verisci/consumer"
	"github.com/verisci/verisci/internal/broker"
	"github.com/verisci/verisci/internal/config"
	"github.com/verisci/verisci/internal/kafka"
	"github.com/verisci/verisci/producer"
	"github.com/verisci/verisci/schemas"
	"github.com/verisci/verisci/stages"
)

// stream is the Kafka side of a process: where the brokers are, and what is written to them.
type stream struct {
	connection kafka.Connection
	records    *producer.Records
}

// newStream connects to nothing yet.
func newStream(cfg config.Config, brokers []string, logger *slog.Logger) (*stream, error) {
	if len(brokers) == 0 {
		return nil, errors.New("kafka: no broker: name one with --brokers host:port, or use --embedded where the command has it")
	}
	codec, err := schemas.NewCodec(schemas.Options{MaxText: cfg.Claim.MaxBytes})
	if err != nil {
		return nil, err
	}
	return &stream{
		// The Kafka client's own running commentary belongs to debugging.
		connection: kafka.Connection{Brokers: brokers, Logger: slog.New(atLeast{logger.Handler(), slog.LevelWarn})},
		records: &producer.Records{
			Codec:  codec,
			Format: schemas.SingleObject,
			Topics: kafka.Topics{Claims: cfg.Kafka.ClaimsTopic, Verdicts: cfg.Kafka.VerdictsTopic, DeadLetters: cfg.Kafka.DeadLetterTopic},
		},
	}, nil
}

// openStream reaches the brokers and makes the topics that are missing.
func openStream(ctx context.Context, cfg config.Config, brokers []string, logger *slog.Logger) (*stream, error) {
	s, err := newStream(cfg, brokers, logger)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	s.records.Limits, err = producer.EnsureTopics(ctx, s.connection, s.records.Topics, producer.TopicOptions{
		Partitions: cfg.Kafka.Partitions, Replication: cfg.Kafka.Replication,
	})
	return s, err
}

// consumer makes the lanes between the topics and the pipeline.
func (s *stream) consumer(cfg config.Config, verifier consumer.Verifier) (*consumer.Consumer, error) {
	return consumer.New(consumer.Config{
		Connection:  s.connection,
		Records:     s.records,
		Group:       cfg.Kafka.Group,
		Instance:    cfg.Kafka.Instance,
		Lanes:       cfg.Kafka.Lanes,
		Batch:       cfg.Kafka.Batch,
		StopTimeout: cfg.Kafka.StopTimeout,
	}, verifier)
}

func (s *stream) send(ctx context.Context, claims iter.Seq2[schemas.Claim, error]) (int, error) {
	sender, err := producer.NewSender(s.connection, s.records)
	if err != nil {
		return 0, err
	}
	defer sender.Close()
	return sender.Send(ctx, claims)
}

func (s *stream) tail(ctx context.Context, fromStart bool, see func(schemas.Verdict) error) error {
	return consumer.Tail(ctx, consumer.TailOptions{
		Connection: s.connection, Topic: s.records.Topics.Verdicts, Codec: s.records.Codec, FromStart: fromStart,
	}, see)
}

// atLeast raises the least level a handler logs, unless it is set to debug.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, l) && (l >= h.level || h.Handler.Enabled(ctx, slog.LevelDebug))
}

func runCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run the service: claims topic in, verdicts topic out, exactly once",
		Long: `Reads claims from their topic, checks each against the index and publishes one
verdict a claim; what cannot be checked goes to the dead-letter topic with the
reason. Claims' offsets, verdicts and dead letters are committed in one
transaction. SIGTERM and Ctrl-C finish and commit the batches in hand.`,
		Example: `  verisci run --brokers kafka1:9092,kafka2:9092 --index data/index
  verisci run --embedded --port 9092 --demo    # its own broker, the demo's abstracts`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			if cfg.Kafka.Embedded && len(cfg.Kafka.Brokers) > 0 {
				return errors.New("run: kafka.embedded and kafka.brokers are both set: use one of them")
			}
			if !cfg.Kafka.Embedded && len(cfg.Kafka.Brokers) == 0 {
				return errors.New("run: say where Kafka is: --brokers host:port, or --embedded for a broker inside this process")
			}
			ctx := cmd.Context()
			x, err := claimsIndex(cmd, cfg, logger)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			e, err := openEngine(cfg, &stages.Retrieval{Index: x, K: cfg.Index.K})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, e.Close()) }()
			brokers := cfg.Kafka.Brokers
			if cfg.Kafka.Embedded {
				b, err := startBroker(cfg, logger)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, b.Close()) }()
				logger.Info("embedded broker", "address", b.Addr(), "dir", cfg.Kafka.EmbeddedDir)
				brokers = []string{b.Addr()}
			}
			s, err := openStream(ctx, cfg, brokers, logger)
			if err != nil {
				return err
			}
			c, err := s.consumer(cfg, e)
			if err != nil {
				return err
			}
			logger.Info("running", "brokers", brokers, "claims", cfg.Kafka.ClaimsTopic, "verdicts", cfg.Kafka.VerdictsTopic, "lanes", cfg.Kafka.Lanes)
			err = c.Run(ctx)
			logger.Info("stopped", "claims", c.Counters().Claims.Load(), "verdicts", c.Counters().Verdicts.Load(), "dead_letters", c.Counters().DeadLetters())
			return err
		},
	}
	config.AddFlags(cmd.Flags(), "index", "models", "kafka", "claim")
	cmd.Flags().Bool("demo", false, "use the demo's abstracts instead of an index")
	return cmd
}

func startBroker(cfg config.Config, logger *slog.Logger) (*broker.Broker, error) {
	return broker.Start(broker.Options{Dir: cfg.Kafka.EmbeddedDir, Port: cfg.Kafka.EmbeddedPort, Partitions: cfg.Kafka.Partitions, Logger: logger})
}

func brokerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "broker",
		Short:   "Run the embedded broker alone, for any Kafka client on this machine",
		Example: `  verisci broker --port 9092 --kafka-embedded-dir data/broker`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			b, err := startBroker(cfg, logger)
			if err != nil {
				return err
			}
			logger.Info("embedded broker", "address", b.Addr(), "dir", cfg.Kafka.EmbeddedDir)
			<-cmd.Context().Done()
			return b.Close()
		},
	}
	config.AddFlags(cmd.Flags(), "kafka.embedded_dir", "kafka.embedded_port", "kafka.partitions")
	return cmd
}

func produceCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "produce [FILE...]",
		Short: "Send claims to the claims topic",
		Long: `Sends the claims of files, or of standard input, to the claims topic, keyed by
their id, and says how many Kafka acknowledged. A line is a claim as plain text
(its id is then a hash of the text), or a JSON object: a Claim record (id, text,
source, created, attributes) or one of SciFact's claims (id, claim).`,
		Example: `  echo "Vitamin C cures colds." | verisci produce --brokers localhost:9092
  verisci produce --brokers localhost:9092 claims.jsonl`,
		RunE: func(cmd *cobra.Command, files []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			source, _ := cmd.Flags().GetString("source")
			s, err := openStream(cmd.Context(), cfg, cfg.Kafka.Brokers, logger)
			if err != nil {
				return err
			}
			sent, err := s.send(cmd.Context(), watched(cmd.ErrOrStderr(), claimsIn(cmd, files, source, cfg.Claim.MaxBytes)))
			_, printed := fmt.Fprintf(cmd.OutOrStdout(), "%d claims acknowledged\n", sent)
			return errors.Join(err, printed)
		},
	}
	config.AddFlags(cmd.Flags(), "kafka.brokers", "kafka.claims_topic", "kafka.verdicts_topic", "kafka.dead_letter_topic", "kafka.partitions", "kafka.replication", "claim")
	cmd.Flags().String("source", "", "where the claims come from, for those that do not say")
	return cmd
}

// claimsIn reads one file after the other, or standard input where none is named.
func claimsIn(cmd *cobra.Command, files []string, source string, maxText int) iter.Seq2[schemas.Claim, error] {
	if len(files) == 0 {
		return each(cmd.Context(), readClaims(cmd.Context(), cmd.InOrStdin(), "standard input", source, maxText))
	}
	return func(yield func(schemas.Claim, error) bool) {
		for _, name := range files {
			f, err := os.Open(name)
			if err != nil {
				yield(schemas.Claim{}, err)
				return
			}
			for c, err := range each(cmd.Context(), readClaims(cmd.Context(), f, name, source, maxText)) {
				if !yield(c, err) || err != nil {
					f.Close()
					return
				}
			}
			f.Close()
		}
	}
}

// watched counts claims under a spinner where a person watches.
func watched(stderr io.Writer, claims iter.Seq2[schemas.Claim, error]) iter.Seq2[schemas.Claim, error] {
	f, ok := stderr.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return claims
	}
	return func(yield func(schemas.Claim, error) bool) {
		bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(stderr), progressbar.OptionSetDescription("sending"),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("claims"), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(50*time.Millisecond))
		defer bar.Finish()
		for c, err := range claims {
			if !yield(c, err) {
				return
			}
			_ = bar.Add(1)
		}
	}
}

// errEnough ends a tail that has shown what it was asked for.
var errEnough = errors.New("enough")

func tailCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show verdicts as they are published",
		Long: `Reads the verdicts topic as any subscriber should (committed transactions alone)
and prints each verdict. It joins no group and changes nothing.`,
		Example: `  verisci tail --brokers localhost:9092
  verisci tail --brokers localhost:9092 --from-start --json -n 100 | jq .label`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, logger, err := load(cmd)
			if err != nil {
				return err
			}
			asJSON, _ := cmd.Flags().GetBool("json")
			fromStart, _ := cmd.Flags().GetBool("from-start")
			limit, _ := cmd.Flags().GetInt("number")
			out, err := newPrinter(cmd.OutOrStdout(), asJSON)
			if err != nil {
				return err
			}
			s, err := newStream(cfg, cfg.Kafka.Brokers, logger)
			if err != nil {
				return err
			}
			seen := 0
			err = s.tail(cmd.Context(), fromStart, func(v schemas.Verdict) error {
				if err := out.print(v); err != nil {
					return err
				}
				if seen++; seen == limit {
					return errEnough
				}
				return nil
			})
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		},
	}
	config.AddFlags(cmd.Flags(), "kafka.brokers", "kafka.verdicts_topic")
	cmd.Flags().Bool("json", false, "a JSON object a line instead of text")
	cmd.Flags().Bool("from-start", false, "begin with the oldest verdict kept instead of the next one")
	cmd.Flags().IntP("number", "n", 0, "end after so many verdicts; 0 goes on")
	return cmd
}
