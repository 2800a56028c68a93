package ordering

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Stats are counts since the sequencer was made, and of this moment.
type Stats struct {
	// Events by their outcomes.
	Applied, Duplicates, Held, DeadLettered, Refused, Unfinished uint64

	// Conflicts are events that were refused, or parked if they were held, since
	// one of their numbers is another event's; see [ConflictError]. Unconfirmed
	// are those of Duplicates that were taken for such by their numbers alone,
	// since what is known of the first copy was pruned; see [Config.Retention].
	// SameID are events that had an ID that another event had shortly before,
	// and ran all the same.
	Conflicts, Unconfirmed, SameID uint64

	Gaps    uint64 // that were noticed
	Replays uint64 // that were asked for

	Open       int // events without an outcome
	Early      int // of those, the ones that wait for earlier ones, and copies of them
	EarlyBytes int64
	Streams    int // in memory
	Idle       int // of those, the ones with nothing on their way
	Parkings   int
	OpenGaps   int

	Dispatcher dispatcher.Stats
}

// counts are those of Stats that only grow.
type counts struct {
	results       [Unfinished + 1]atomic.Uint64
	gaps, replays atomic.Uint64

	conflicts, unconfirmed, sameID atomic.Uint64
}

func (c *counts) add(r Result) { c.results[r].Add(1) }

// Config returns the settings that it was made with, and the defaults of what
// was not set.
func (s *Sequencer) Config() Config { return s.cfg }

// Stats returns the counts. It goes once through the streams in memory.
func (s *Sequencer) Stats() Stats {
	of := func(r Result) uint64 { return s.counts.results[r].Load() }
	stats := Stats{
		Applied: of(Applied), Duplicates: of(Duplicate), Held: of(Held), DeadLettered: of(DeadLettered),
		Refused: of(Refused), Unfinished: of(Unfinished),
		Conflicts: s.counts.conflicts.Load(), Unconfirmed: s.counts.unconfirmed.Load(), SameID: s.counts.sameID.Load(),
		Gaps: s.counts.gaps.Load(), Replays: s.counts.replays.Load(),
		Open: int(s.open.Load()), Dispatcher: s.dispatcher.Stats(),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	stats.Early, stats.EarlyBytes = s.mu.early, s.mu.bytes
	stats.Streams, stats.Idle = len(s.mu.streams), s.mu.idle.len
	for id, p := range s.mu.parkings {
		if id == p.ID {
			stats.Parkings++
		}
	}
	for _, st := range s.mu.streams {
		if st.gap != nil {
			stats.OpenGaps++
		}
	}
	return stats
}

// StreamInfo is what is in memory of a stream.
type StreamInfo struct {
	Stream  lockkeys.Key
	Next    uint64 // the number that is to be submitted next
	Running int    // events that were submitted and have not ended
	Early   int    // events that wait for earlier ones
	Missing bool   // Next has not come, and later ones have
	Since   time.Time
	Parking string // the ID of the parking that closes the stream, or ""
	HeldAt  uint64 // from this number on events are held; 0 for none
}

// Snapshot returns the streams with the most events on their way, busiest
// first, n of them at most: the hot keys, which dominate latency, and those
// that wait for a gap. It goes once through the streams in memory, under the
// mutex, and is meant for people.
func (s *Sequencer) Snapshot(n int) []StreamInfo {
	s.mu.Lock()
	var infos []StreamInfo
	for _, st := range s.mu.streams {
		if st.idle && st.parking == nil {
			continue
		}
		info := StreamInfo{Stream: st.key, Next: st.next, Running: st.window.running, Early: len(st.early), Missing: st.gap != nil}
		if at := st.heldFrom.Load(); at != notHeld {
			info.HeldAt = at
		}
		if st.parking != nil {
			info.Parking, info.Since = st.parking.ID, st.parking.Since
		} else if first := st.firstEarly(); first != nil {
			info.Since = first.arrived
		}
		infos = append(infos, info)
	}
	s.mu.Unlock()
	slices.SortFunc(infos, func(a, b StreamInfo) int {
		return cmp.Or(cmp.Compare(b.Running+b.Early, a.Running+a.Early), a.Stream.Compare(b.Stream))
	})
	return infos[:max(0, min(n, len(infos)))]
}

// notify tells the observer and the log.
func (s *Sequencer) notify(n Notice) {
	switch n.Kind {
	case NumbersSkipped:
		s.cfg.Logger.Warn("numbers skipped", "range", n.Range.String(), "err", n.Err)
	case EventRefused:
		s.cfg.Logger.Error("event refused", "event", n.Event.Name(), "numbers", n.Event.positionsText(), "stream", n.Stream.String(), "err", n.Err)
	case EventSkipped:
		s.cfg.Logger.Warn("event skipped", "event", n.Event.Name(), "err", n.Err)
	case SameID:
		s.cfg.Logger.Warn("event has the ID of another", "event", n.Event.Name(), "numbers", n.Event.positionsText(), "err", n.Err)
	case StreamResumed:
		s.cfg.Logger.Info("stream resumed", "stream", n.Stream.String())
	}
	if s.cfg.Observer != nil {
		s.cfg.Observer(n)
	}
}
