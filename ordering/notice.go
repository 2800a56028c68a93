package ordering

import (
	"errors"
	"log/slog"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Notice is an unusual occurrence on a stream.
type Notice struct {
	Kind   NoticeKind
	Time   time.Time
	Stream lockkeys.Key
	Range  Range  // with GapOpened, ReplayAsked, GapClosed, NumbersSkipped, EpochBegan
	Epoch  uint16 // with EpochBegan: the one that has begun; Range is what is left of the one before
	Event  *Event // with EventDeadLettered, EventRefused, SameID, Unconfirmed, StreamParked for a failure
	Reason Reason // with StreamParked
	Err    error  // with all but GapOpened, ReplayAsked, GapClosed and StreamResumed
}

// NoticeKind is the kind of a notice.
type NoticeKind uint8

// Kinds of notices.
const (
	// GapOpened: an event came before one with a smaller number.
	GapOpened NoticeKind = iota + 1
	// ReplayAsked: the replayer was asked for a range.
	ReplayAsked
	// GapClosed: the missing numbers have come, or were skipped.
	GapClosed
	// NumbersSkipped: numbers were marked as done without an event.
	NumbersSkipped
	// EventDeadLettered: an event failed for good, or was given up.
	EventDeadLettered
	// EventRefused: an event can never run. There is one for each of its streams.
	EventRefused
	// StreamParked: a stream is closed, see [Parking]; or one that was closed for numbers
	// that were still being requested, the Reason Waiting, is so for a Gap from now on.
	StreamParked
	// StreamResumed: a stream that was parked goes on.
	StreamResumed
	// SameID: an event has the ID of a recent one with other numbers. Both run.
	// It is reported once for each ID, and counted in [Stats].
	SameID
	// EpochBegan: the first event of a later epoch is the next one of the stream.
	// Numbers of the epochs before that have not come are done from now on, without
	// an event.
	EpochBegan
	// Unconfirmed: an event is taken for a duplicate by its numbers alone, since the job
	// state of what has made them done was pruned, see [Config.Retention]. If its producer
	// gives numbers again, it is another event, which is not applied. With [Config.Brief]
	// it is not told.
	Unconfirmed
)

// String returns the kind in words, "gap opened" for example.
func (k NoticeKind) String() string {
	names := [...]string{"", "gap opened", "replay asked", "gap closed", "numbers skipped",
		"event dead-lettered", "event refused", "stream parked", "stream resumed", "same ID", "epoch began", "unconfirmed"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return "unknown"
}

var kinds = [...]NoticeKind{
	core.GapOpened: GapOpened, core.ReplayAsked: ReplayAsked, core.GapClosed: GapClosed, core.NumbersSkipped: NumbersSkipped,
	core.EventRefused: EventRefused, core.StreamParked: StreamParked, core.StreamResumed: StreamResumed,
	core.EpochBegan: EpochBegan,
}

// tellCore reports a notice of the core.
func (s *Sequencer[T]) tellCore(c core.Notice) {
	n := Notice{Kind: kinds[c.Kind], Time: c.Time, Stream: c.Range.Key, Range: rangeOf(c.Range), Reason: Reason(c.Reason), Err: c.Err}
	if h, ok := c.Fault.(HeldEvent); ok {
		n.Event = h.Event
	}
	switch {
	case c.Event != nil:
		n.Event = itemOf[T](c.Event).event
		s.tellOf(n)
		return
	case n.Kind == GapOpened:
		s.counts.gaps.Add(1)
	case n.Kind == NumbersSkipped:
		s.cfg.Logger.Warn("numbers skipped", "range", n.Range.String(), "err", n.Err)
	case n.Kind == EpochBegan:
		n.Epoch = core.EpochOf(c.Range.To + 1)
		s.counts.epochs.Add(1)
		s.logEpoch(n)
	case n.Kind == StreamResumed:
		s.cfg.Logger.Info("stream resumed", "stream", n.Stream.String())
	}
	s.observe(n)
}

// tellOf reports a notice about an event, for each of its streams if it is
// refused.
func (s *Sequencer[T]) tellOf(n Notice) {
	e := n.Event
	switch n.Kind {
	case EventRefused:
		if isConflict(n.Err) {
			s.counts.conflicts.Add(1)
		}
		if _, stale := errors.AsType[*StaleError](n.Err); stale {
			s.counts.stale.Add(1)
		}
		s.cfg.Logger.Error("event refused", "event", e.Name(), "numbers", e.positionsText(), "err", n.Err)
	case EventDeadLettered:
		s.cfg.Logger.Warn("event dead-lettered", "event", e.Name(), "numbers", e.positionsText(), "err", n.Err)
	case SameID:
		s.cfg.Logger.Warn("event has the ID of another", "event", e.Name(), "numbers", e.positionsText(), "err", n.Err)
	case Unconfirmed:
		if ok, withheld := s.unconfirmed.Take(); ok { // a source may send all again
			s.cfg.Logger.Warn("event is taken for a duplicate by its numbers alone", "event", e.Name(), "numbers", e.positionsText(), "err", n.Err, "withheld", withheld)
		}
	}
	if n.Kind != EventRefused && len(e.Positions) > 0 || len(e.Positions) == 1 {
		n.Stream = e.Positions[0].Stream
	}
	if n.Kind != EventRefused || len(e.Positions) < 2 {
		s.observe(n)
		return
	}
	for _, p := range e.Positions {
		n.Stream = p.Stream
		s.observe(n)
	}
}

// logEpoch tells an operator of a new epoch. On a stream of which nothing was known
// before, nothing is given up by that.
func (s *Sequencer[T]) logEpoch(n Notice) {
	level := slog.LevelWarn
	if n.Range.Epoch == 0 && n.Range.From == 1 {
		level = slog.LevelInfo
	}
	s.cfg.Logger.Log(s.background, level, "epoch has begun", "stream", n.Stream.String(), "epoch", n.Epoch,
		"before", n.Range.Epoch, "skipped", n.Range.String(), "err", n.Err)
}

func (s *Sequencer[T]) observe(n Notice) {
	if s.cfg.Observer != nil {
		s.cfg.Observer(n)
	}
}

// logParking logs a parking for operators, and again each time the number of
// its streams has doubled. One whose events are still being requested needs no
// operator.
func (s *Sequencer[T]) logParking(p Parking, streams int) {
	origin, _ := p.Origin()
	args := []any{"reason", p.Reason.String(), "streams", streams, "first", origin.String(), "parking", p.ID, "err", p.Error}
	if len(p.Events) > 0 {
		args = append(args, "event", p.Events[0].Name())
	}
	if p.Reason == Waiting {
		s.cfg.Logger.Info("streams parked", args...)
		return
	}
	s.cfg.Logger.Error("streams parked", args...)
}

// seeID records the ID of an event that is about to run, and reports if a
// recent one had the same. The caller has the turn.
func (s *Sequencer[T]) seeID(e *Event) {
	again, first := s.submitter.recent.see(e)
	if again {
		s.counts.sameID.Add(1)
	}
	if first {
		s.tellAlone(Notice{Kind: SameID, Time: time.Now(), Event: e, Err: ErrSameID})
	}
}
