package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"
	"github.com/twmb/franz-go/pkg/kfake"
)

// ErrInUse is returned by Start when another broker has the folder open.
var ErrInUse = errors.New("another process runs a broker on this folder: stop it or use another folder")

// Options of a broker.
type Options struct {
	Dir        string       // folder of the data, made if missing; "" keeps everything in memory
	Port       int          // loopback port; 0 takes a free one
	Partitions int          // of topics created without a number; default 4
	Logger     *slog.Logger // default: nothing is logged
}

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	addr    string
	lock    *flock.Flock // nil without a folder
	running string       // path of the file that stands for "not closed"; "" without a folder
}

// Start opens the folder and listens on 127.0.0.1. There are no topics but
// those that clients create by asking for them; a mention in a metadata request
// creates none.
//
// Records, topics, transactions and group offsets are on their way to the
// operating system before a request is answered, so that a killed process loses
// nothing it acknowledged; Start after a kill reads every record once and aborts
// what was open. Three things are weaker than with Kafka:
//   - Nothing is flushed to the disk before a segment is full or the broker is
//     closed (Kafka counts on replicas there): a power failure can lose the last
//     records, and more of one file than of another.
//   - A commit writes its markers one by one, then its group offsets. A kill in
//     between leaves verdicts whose claims are verified again.
//   - A kill forgets which batches of a producer were stored: one that outlives
//     the broker and repeats a batch whose answer it missed stores it twice.
//     Transactional producers are not affected, their transaction is aborted.
func Start(opts Options) (*Broker, error) {
	if opts.Port < 0 || opts.Port > 65535 {
		return nil, fmt.Errorf("broker: port %d: use 0 to 65535", opts.Port)
	}
	if opts.Partitions == 0 {
		opts.Partitions = 4
	}
	if opts.Partitions < 0 {
		return nil, fmt.Errorf("broker: %d partitions: use at least 1", opts.Partitions)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Broker{}
	if err := b.start(opts); err != nil {
		_ = b.release() // the error that matters is why it did not start
		return nil, fmt.Errorf("broker: %w", err)
	}
	return b, nil
}

func (b *Broker) start(opts Options) error {
	if opts.Dir != "" {
		if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
			return err
		}
		lock := flock.New(filepath.Join(opts.Dir, "LOCK"))
		locked, err := lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock %s: %w", opts.Dir, err)
		}
		if !locked {
			return fmt.Errorf("%s: %w", opts.Dir, ErrInUse)
		}
		b.lock = lock
		running := filepath.Join(opts.Dir, "RUNNING")
		if _, err := os.Stat(running); err == nil {
			if err := recoverFrom(opts); err != nil {
				return fmt.Errorf("recover %s after a kill: %w", opts.Dir, err)
			}
		}
		if err := os.WriteFile(running, nil, 0o644); err != nil {
			return err
		}
		b.running = running
	}
	cluster, err := newCluster(opts)
	if err != nil {
		return fmt.Errorf("listen on 127.0.0.1:%d: %w", opts.Port, err)
	}
	b.cluster = cluster
	b.addr = cluster.ListenAddrs()[0]
	return nil
}

func newCluster(opts Options) (*kfake.Cluster, error) {
	return kfake.NewCluster(
		kfake.Ports(opts.Port), // one port is one broker: more would only be more ports
		kfake.ClusterID("verisci"),
		kfake.DefaultNumPartitions(opts.Partitions),
		kfake.DataDir(opts.Dir),
		kfake.ListenFn(func(network, address string) (net.Listener, error) {
			ln, err := net.Listen(network, address)
			return guarded{ln}, err
		}),
		kfake.WithLogger(logger{opts.Logger}),
	)
}

// Addr is the host:port to give to clients.
func (b *Broker) Addr() string { return b.addr }

// Port is the port of Addr.
func (b *Broker) Port() int {
	_, port, _ := net.SplitHostPort(b.addr)
	n, _ := strconv.Atoi(port)
	return n
}

// Close ends all connections, writes what is in memory and lets the folder go.
// Transactions in flight are kept and can be ended after the next Start, until
// their timeout.
func (b *Broker) Close() error {
	b.cluster.Close()
	err := b.release()
	if err != nil {
		return fmt.Errorf("broker: close: %w", err)
	}
	return nil
}

func (b *Broker) release() error {
	var errs []error
	if b.running != "" {
		errs = append(errs, os.Remove(b.running))
		b.running = ""
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Unlock())
		b.lock = nil
	}
	return errors.Join(errs...)
}
