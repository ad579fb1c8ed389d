// Package config is VeriSci's one configuration: a struct with defaults, read
// from a YAML file, the environment and command-line flags under the same keys,
// and validated as a whole. It opens nothing.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/verisci/verisci/internal/kafka"
)

// Config holds every setting. The key of a setting is the path of its koanf
// tags (kafka.lanes); VERISCI_KAFKA_LANES sets it from the environment, and its
// flag is the flag tag or else the key with dashes (--kafka-lanes).
type Config struct {
	Index  Index  `koanf:"index"`
	Models Models `koanf:"models"`
	Kafka  Kafka  `koanf:"kafka"`
	Claim  Claim  `koanf:"claim"`
	Log    Log    `koanf:"log"`
}

// Index is where abstracts are found.
type Index struct {
	Dir     string `koanf:"dir" flag:"index" doc:"folder of the embedded index"`
	Ranking string `koanf:"ranking" flag:"ranking" doc:"how abstracts are ranked: reference (the paper's TF-IDF), tfidf or bm25"`
	K       int    `koanf:"k" flag:"k" doc:"abstracts retrieved for a claim"`
}

// Models are the two bundles and how they run.
type Models struct {
	Rationale          string  `koanf:"rationale" flag:"rationale" doc:"bundle of the rationale stage: a folder, or a name under models/bundles"`
	Label              string  `koanf:"label" flag:"label" doc:"bundle of the label stage: a folder, or a name under models/bundles"`
	RationaleThreshold float64 `koanf:"rationale_threshold" flag:"rationale-threshold" doc:"least score of a rationale sentence, 0 to 1; -1 takes the bundle's"`
	LabelThreshold     float64 `koanf:"label_threshold" flag:"label-threshold" doc:"least probability of SUPPORT or CONTRADICT, 0 to 1; -1 takes the bundle's"`
	Device             string  `koanf:"device" flag:"device" doc:"cpu or cuda"`
	DeviceID           int     `koanf:"device_id" doc:"number of the GPU"`
	Library            string  `koanf:"library" doc:"path of ONNX Runtime's shared library; empty looks beside the program and in the system"`
	Runners            int     `koanf:"runners" doc:"batches inferred at once; 0 is one a core on cpu, one on cuda"`
	Threads            int     `koanf:"threads" doc:"threads inside one inference"`
	TokenBudget        int     `koanf:"token_budget" doc:"most padded tokens of one inference batch"`
}

// Kafka is where claims come from and verdicts go to.
type Kafka struct {
	Brokers         []string      `koanf:"brokers" flag:"brokers" doc:"host:port of Kafka brokers, separated by commas"`
	Embedded        bool          `koanf:"embedded" flag:"embedded" doc:"start a broker inside this process"`
	EmbeddedDir     string        `koanf:"embedded_dir" doc:"folder of the embedded broker's data; empty keeps nothing"`
	EmbeddedPort    int           `koanf:"embedded_port" flag:"port" doc:"loopback port of the embedded broker; 0 takes a free one"`
	ClaimsTopic     string        `koanf:"claims_topic" doc:"topic that claims are read from"`
	VerdictsTopic   string        `koanf:"verdicts_topic" doc:"topic that verdicts are published on"`
	DeadLetterTopic string        `koanf:"dead_letter_topic" doc:"topic of the records that can't be verified, with the reason"`
	Partitions      int           `koanf:"partitions" doc:"partitions of a topic that is created"`
	Replication     int           `koanf:"replication" doc:"replicas of a topic that is created; -1 is the broker's default"`
	Group           string        `koanf:"group" doc:"consumer group"`
	Instance        string        `koanf:"instance" doc:"name of this instance, unique and the same after a restart: it makes the transactional ids"`
	Lanes           int           `koanf:"lanes" doc:"consumers in this process, each with its own transactions"`
	Batch           int           `koanf:"batch" doc:"most claims of one transaction"`
	StopTimeout     time.Duration `koanf:"stop_timeout" doc:"longest wait for the batches in hand when stopping"`
}

// Claim bounds what is taken for a claim.
type Claim struct {
	MaxBytes int `koanf:"max_bytes" doc:"longest claim text, in bytes"`
}

// Log is what goes to standard error.
type Log struct {
	Level  string `koanf:"level" flag:"log-level" doc:"debug, info, warn or error"`
	Format string `koanf:"format" flag:"log-format" doc:"text or json"`
}

// Default is the configuration before file, environment and flags.
func Default() Config {
	instance, err := os.Hostname()
	if err != nil || instance == "" {
		instance = "verisci"
	}
	topics := kafka.DefaultTopics()
	return Config{
		Index: Index{Dir: "data/index", Ranking: "tfidf", K: 3},
		Models: Models{
			Rationale: "rationale", Label: "label",
			RationaleThreshold: -1, LabelThreshold: -1,
			Device: "cpu", Threads: 1, TokenBudget: 512,
		},
		Kafka: Kafka{
			EmbeddedDir: "data/broker", EmbeddedPort: 9092,
			ClaimsTopic: topics.Claims, VerdictsTopic: topics.Verdicts, DeadLetterTopic: topics.DeadLetters,
			Partitions: 4, Replication: -1,
			Group: "verisci", Instance: instance,
			Lanes: 2, Batch: 64, StopTimeout: 30 * time.Second,
		},
		Claim: Claim{MaxBytes: 4096},
		Log:   Log{Level: "info", Format: "text"},
	}
}

// Validate reports every mistake at once, each under its key.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, key, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
		}
	}
	oneOf := func(key, value string, allowed ...string) {
		for _, a := range allowed {
			if value == a {
				return
			}
		}
		check(false, key, "%q is not one of %s", value, strings.Join(allowed, ", "))
	}
	between := func(key string, value, low, high int) {
		check(value >= low && value <= high, key, "%d is not between %d and %d", value, low, high)
	}
	check(c.Index.Dir != "", "index.dir", "is empty: name a folder")
	oneOf("index.ranking", c.Index.Ranking, "reference", "tfidf", "bm25")
	between("index.k", c.Index.K, 1, 1000)
	check(c.Models.Rationale != "", "models.rationale", "is empty")
	check(c.Models.Label != "", "models.label", "is empty")
	threshold := func(key string, v float64) {
		check(v == -1 || v >= 0 && v <= 1, key, "%g is neither -1 nor between 0 and 1", v)
	}
	threshold("models.rationale_threshold", c.Models.RationaleThreshold)
	threshold("models.label_threshold", c.Models.LabelThreshold)
	oneOf("models.device", c.Models.Device, "cpu", "cuda")
	between("models.device_id", c.Models.DeviceID, 0, 255)
	between("models.runners", c.Models.Runners, 0, 256)
	between("models.threads", c.Models.Threads, 1, 256)
	between("models.token_budget", c.Models.TokenBudget, 16, 1<<20)
	for _, b := range c.Kafka.Brokers {
		_, _, err := net.SplitHostPort(b)
		check(err == nil, "kafka.brokers", "%q is not host:port", b)
	}
	between("kafka.embedded_port", c.Kafka.EmbeddedPort, 0, 65535)
	topics := map[string]string{}
	for _, t := range []struct{ key, name string }{
		{"kafka.claims_topic", c.Kafka.ClaimsTopic}, {"kafka.verdicts_topic", c.Kafka.VerdictsTopic}, {"kafka.dead_letter_topic", c.Kafka.DeadLetterTopic},
	} {
		check(validTopic(t.name), t.key, "%q is not a topic name (1 to 249 of a-z A-Z 0-9 . _ -)", t.name)
		check(topics[t.name] == "", t.key, "%q is also %s", t.name, topics[t.name])
		topics[t.name] = t.key
	}
	between("kafka.partitions", c.Kafka.Partitions, 1, 10_000)
	check(c.Kafka.Replication == -1 || c.Kafka.Replication >= 1 && c.Kafka.Replication <= 100, "kafka.replication", "%d is neither -1 nor between 1 and 100", c.Kafka.Replication)
	check(c.Kafka.Group != "", "kafka.group", "is empty")
	check(c.Kafka.Instance != "", "kafka.instance", "is empty")
	between("kafka.lanes", c.Kafka.Lanes, 1, 256)
	between("kafka.batch", c.Kafka.Batch, 1, 10_000)
	check(c.Kafka.StopTimeout >= time.Second, "kafka.stop_timeout", "%s is less than a second: give it a unit, as in 30s", c.Kafka.StopTimeout)
	between("claim.max_bytes", c.Claim.MaxBytes, 1, 1<<20)
	var level slog.Level
	check(level.UnmarshalText([]byte(c.Log.Level)) == nil, "log.level", "%q is not one of debug, info, warn, error", c.Log.Level)
	oneOf("log.format", c.Log.Format, "text", "json")
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	return nil
}

func validTopic(name string) bool {
	if len(name) == 0 || len(name) > 249 || name == "." || name == ".." {
		return false
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-') {
			return false
		}
	}
	return true
}
