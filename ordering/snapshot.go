package ordering

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Stats are counts since the sequencer was made, and current ones.
type Stats struct {
	// Events by their outcomes.
	Applied, Duplicates, Held, DeadLettered, Refused, Failed, Unfinished uint64

	// Conflicts are events that were refused, or parked if they were held,
	// because one of their numbers belongs to another event; see
	// [ConflictError]. Unconfirmed are those of Duplicates that are known by
	// their numbers alone, since the job state of the first copy was pruned;
	// see [Config.Retention]. SameID are events with the ID of a recent one
	// with other numbers, which ran all the same. Stale are events that were
	// refused since they are of an epoch that is over; see [StaleError].
	Conflicts, Unconfirmed, SameID, Stale uint64

	Epochs uint64 // that have begun, on each stream

	// Crashes are events that failed for good with a [*CrashError]: the process has
	// ended each time that they ran.
	Crashes uint64

	Gaps        uint64 // that were noticed
	Replays     uint64 // that were asked for
	StoreErrors uint64 // failed calls of the store that were repeated

	Open       int // events without an outcome
	Early      int // of those, the ones that wait for earlier ones, and copies of them
	EarlyBytes int64
	Streams    int // in memory
	Idle       int // of those, the ones with nothing in flight
	Parkings   int // in memory
	OpenGaps   int

	Dispatcher dispatcher.Stats
}

// counts are those of Stats that only grow.
type counts struct {
	results [Unfinished + 1]atomic.Uint64

	gaps, replays, storeErrors, epochs    atomic.Uint64
	conflicts, unconfirmed, sameID, stale atomic.Uint64
	crashes                               atomic.Uint64
}

func (c *counts) add(r Result) { c.results[r].Add(1) }

// Config returns the configuration of the sequencer, with defaults filled in.
func (s *Sequencer[T]) Config() Config[T] { return s.cfg }

// Stats returns the counts. Its cost is linear in the streams in memory.
func (s *Sequencer[T]) Stats() Stats {
	of := func(r Result) uint64 { return s.counts.results[r].Load() }
	stats := Stats{
		Applied: of(Applied), Duplicates: of(Duplicate), Held: of(Held), DeadLettered: of(DeadLettered),
		Refused: of(Refused), Failed: of(Failed), Unfinished: of(Unfinished),
		Conflicts: s.counts.conflicts.Load(), Unconfirmed: s.counts.unconfirmed.Load(), SameID: s.counts.sameID.Load(), Stale: s.counts.stale.Load(),
		Crashes: s.counts.crashes.Load(),
		Epochs:  s.counts.epochs.Load(),
		Gaps:    s.counts.gaps.Load(), Replays: s.counts.replays.Load(), StoreErrors: s.counts.storeErrors.Load(),
		Open: int(s.open.Load()), Dispatcher: s.dispatcher.Stats(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.mu.core.Stats()
	stats.Early, stats.EarlyBytes = now.Early, now.EarlyBytes
	stats.Streams, stats.Idle, stats.Parkings, stats.OpenGaps = now.Streams, now.Idle, now.Parkings, now.Gaps
	return stats
}

// LimitEarly lowers [Config.MaxEarlyTotal] to n, unless it is less already;
// with n ≤ 0, no event waits in memory. It is for sources with a window of
// unacknowledged events, such as a broker: if all of them waited, the missing
// one could not come.
func (s *Sequencer[T]) LimitEarly(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.core.LimitEarly(n)
}

// StreamInfo describes a stream in memory.
type StreamInfo struct {
	Stream  lockkeys.Key
	Next    Position // that is expected next
	Running int      // events that were submitted and have not ended
	Early   int      // events that wait for earlier ones
	Missing bool     // Next has not come, and later ones have
	Since   time.Time
	Parking string   // the ID of the parking that closes the stream, or ""
	HeldAt  Position // from this one on events are held; its number is 0 if none are
}

// Snapshot returns the n streams with the most events in flight, busiest first:
// the hot keys, which dominate latency, and those that wait for a gap. Its cost
// is linear in the streams in memory, under the mutex; it is meant for
// operators.
func (s *Sequencer[T]) Snapshot(n int) []StreamInfo {
	s.mu.Lock()
	streams := s.mu.core.Streams()
	s.mu.Unlock()
	slices.SortFunc(streams, func(a, b core.StreamInfo) int {
		return cmp.Or(cmp.Compare(b.Running+b.Early, a.Running+a.Early), a.Key.Compare(b.Key))
	})
	var infos []StreamInfo
	for _, st := range streams[:max(0, min(n, len(streams)))] {
		infos = append(infos, StreamInfo{Stream: st.Key, Next: PositionAt(st.Key, st.Next), Running: st.Running, Early: st.Early,
			Missing: st.Missing, Since: st.Since, Parking: st.Parking, HeldAt: PositionAt(st.Key, st.HeldAt)})
	}
	return infos
}
