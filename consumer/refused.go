package consumer

import (
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// refusedGrace is how long an error of a refused batch may take from the fetch to
// a poll: the same answer may bring others that take long to refuse.
const refusedGrace = 5 * time.Second

// refused keeps which partitions have a compressed batch that was fetched and
// not unpacked, from the fetch until its error is polled. The client drops what
// it has fetched whenever the positions of any partition change (an abort, a
// rebalance, a skip), and for a batch that is too large it drops the error, too:
// then it never reads the partition again and never says so. A new session does.
type refused struct {
	mu   sync.Mutex
	seen map[int32]time.Time // by partition; a lane has one topic
}

var _ kgo.HookFetchBatchRead = (*refused)(nil)

// OnFetchBatchRead is called by the client for each batch fetched.
func (r *refused) OnFetchBatchRead(_ kgo.BrokerMetadata, _ string, partition int32, m kgo.FetchBatchMetrics) {
	if m.CompressionType == 0 || m.NumRecords > 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.seen[partition]; !ok {
		r.seen[partition] = time.Now()
	}
}

// polled says that the error of a partition has arrived.
func (r *refused) polled(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.seen, partition)
}

// deadline is when the first error should have arrived, if one is awaited.
func (r *refused) deadline() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	for _, at := range r.seen {
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	return first.Add(refusedGrace), !first.IsZero()
}
