package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/verisci/verisci/internal/kafka"
)

// recoverFrom makes a folder whole that a killed process left behind.
//
// kfake takes the transactions that were open at a kill for aborted, but writes
// no abort marker. Clients that read committed records skip a producer's records
// up to its marker, so they would miss what the same transactional id commits
// next; and after one more kill, kfake would take the aborted records for part
// of that commit. So the missing markers are written here, in a broker on a port
// that no client knows of yet. It reads every record once, as kfake itself does
// after a kill.
func recoverFrom(opts Options) error {
	// The windows against repeated batches are written on Close alone: those of
	// an earlier Close would refuse producers that are still going.
	if err := os.Remove(filepath.Join(opts.Dir, "seq_windows.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	opts.Port = 0
	cluster, err := newCluster(opts)
	if err != nil {
		return err
	}
	defer cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	connection := kafka.Connection{Brokers: cluster.ListenAddrs(), Logger: opts.Logger}
	open, err := openTransactions(ctx, connection)
	if err != nil {
		return err
	}
	opts.Logger.Info("broker: recovered after a kill", "dir", opts.Dir, "aborted_partitions", len(open))
	return abort(ctx, connection, open)
}

// part is a producer's part of a transaction in one partition.
type part struct {
	topic     string
	partition int32
	producer  int64
}

// openTransactions finds the parts of transactions that have no marker, and the
// epochs of their producers.
func openTransactions(ctx context.Context, connection kafka.Connection) (map[part]int16, error) {
	cl, err := kgo.NewClient(connection.Options()...)
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	starts, err := kadm.NewClient(cl).ListStartOffsets(ctx)
	if err = cmp.Or(err, starts.Error()); err != nil {
		return nil, err
	}
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return nil, err
	}
	open := map[part]int16{}
	unread := map[string]map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(end.Topic, end.Partition); start.Offset < end.Offset {
			if unread[end.Topic] == nil {
				unread[end.Topic] = map[int32]kgo.Offset{}
			}
			unread[end.Topic][end.Partition] = kgo.NewOffset().AtStart()
		}
	})
	if len(unread) == 0 {
		return open, nil
	}
	reader, err := kgo.NewClient(append(connection.Options(), kgo.ConsumePartitions(unread), kgo.KeepControlRecords())...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	for len(unread) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Attrs.IsTransactional() {
				p := part{r.Topic, r.Partition, r.ProducerID}
				if r.Attrs.IsControl() {
					delete(open, p)
				} else {
					open[p] = r.ProducerEpoch
				}
			}
			if end, _ := ends.Lookup(r.Topic, r.Partition); r.Offset >= end.Offset-1 {
				delete(unread[r.Topic], r.Partition)
				if len(unread[r.Topic]) == 0 {
					delete(unread, r.Topic)
				}
			}
		})
	}
	return open, nil
}

// abort writes the abort markers.
func abort(ctx context.Context, connection kafka.Connection, open map[part]int16) error {
	if len(open) == 0 {
		return nil
	}
	cl, err := kgo.NewClient(connection.Options()...)
	if err != nil {
		return err
	}
	defer cl.Close()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for p, epoch := range open {
		topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
		topic.Topic, topic.Partitions = p.topic, []int32{p.partition}
		marker := kmsg.NewWriteTxnMarkersRequestMarker()
		marker.ProducerID, marker.ProducerEpoch = p.producer, epoch
		marker.Topics = append(marker.Topics, topic)
		req.Markers = append(req.Markers, marker)
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, marker := range resp.Markers {
		for _, topic := range marker.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					return fmt.Errorf("abort the transaction of producer %d in %s/%d: %w", marker.ProducerID, topic.Topic, partition.Partition, err)
				}
			}
		}
	}
	return nil
}
