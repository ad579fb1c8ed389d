package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
}

func TestEverySettingHasADocAndItsOwnFlag(t *testing.T) {
	flags, keys := map[string]bool{}, 0
	for _, s := range Settings() {
		keys++
		if s.Doc == "" {
			t.Errorf("%s has no doc", s.Key)
		}
		if flags[s.Flag] {
			t.Errorf("flag --%s stands for two keys", s.Flag)
		}
		flags[s.Flag] = true
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(set, "index", "models", "kafka", "claim", "log")
	n := 0
	set.VisitAll(func(*pflag.Flag) { n++ })
	if n != keys {
		t.Errorf("%d flags for %d keys: AddFlags does not know some type", n, keys)
	}
}

func TestFlagBeatsEnvironmentBeatsFileBeatsDefault(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verisci.yaml")
	write(t, path, "index: {k: 5, ranking: bm25}\nkafka:\n  lanes: 3\n  brokers: [a:1, b:2]\n  stop_timeout: 5s\n")
	t.Setenv("VERISCI_INDEX_RANKING", "reference")
	t.Setenv("VERISCI_KAFKA_LANES", "7")
	t.Setenv("VERISCI_DATA", "not a setting")
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(set, "kafka", "index.k")
	if err := set.Parse([]string{"--kafka-lanes", "9"}); err != nil {
		t.Fatal(err)
	}
	c, err := Load(path, set)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Index.K, want.Index.Ranking = 5, "reference"
	want.Kafka.Lanes, want.Kafka.Brokers, want.Kafka.StopTimeout = 9, []string{"a:1", "b:2"}, 5*time.Second
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %+v\nwant %+v", c, want)
	}
}

func TestEnvironmentSetsLists(t *testing.T) {
	t.Setenv("VERISCI_KAFKA_BROKERS", "a:1,b:2")
	c, err := Load("", nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Kafka.Brokers, []string{"a:1", "b:2"}) {
		t.Errorf("got %q", c.Kafka.Brokers)
	}
}

func TestEveryMistakeIsReportedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verisci.yaml")
	write(t, path, "index: {k: 0, ranking: pagerank, dir: ''}\nkafka: {lanes: -1, brokers: [nowhere], stop_timeout: 30, claims_topic: 'a b', verdicts_topic: x, dead_letter_topic: x}\nmodels: {device: tpu, rationale_threshold: 2}\nlog: {level: loud}\n")
	_, err := Load(path, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"index.k", "index.ranking", "kafka.lanes", "kafka.brokers", "kafka.stop_timeout", "index.dir", "kafka.claims_topic", "kafka.dead_letter_topic", "models.device", "models.rationale_threshold", "log.level"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestUnknownKeysWrongTypesAndMissingFilesAreErrors(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"unknown key":     "index: {kk: 3}\n",
		"unknown section": "indices: {k: 3}\n",
		"wrong type":      "index: {k: three}\n",
		"not YAML":        "index: [",
	} {
		path := filepath.Join(dir, "c.yaml")
		write(t, path, text)
		if _, err := Load(path, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Load(filepath.Join(dir, "absent.yaml"), nil); err == nil {
		t.Error("missing file: no error")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
