package ordering

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// item is an event in flight, with the data of the shell around the core. The
// embedded part belongs to the core; the rest belongs to the worker that runs
// the event, from its submission until it has ended.
type item[T any] struct {
	core.Event
	calls *atomic.Uint64 // of handlers with this item, counted as they begin and as they end, for all events that have it
	run   core.Run
	event *Event
	value T     // what Decode made of the event
	bad   error // of Decode or Keys: the event fails when its turn comes
	done  Done
	// values is the context of the offer, whose values the handler's context has. The
	// event may be submitted in the offer of another one, which is somebody else's.
	values context.Context
	term   *TermInfo

	attempts  int       // calls of the handler, also before it was parked
	before    int       // of them, before it was parked
	tries     int       // of them, since it was submitted
	started   time.Time // of the first attempt
	committed bool      // by the handler
	way       way       // how the attempt under way runs
	waited    bool      // it had to wait for others, which has taken some of its time
	reply     []byte
	status    Status                          // of the first copy, for a duplicate
	failure   error                           // for good
	policy    dispatcher.FailurePolicy        // when it failed for good
	awaySince time.Time                       // when the store was first away, as it saw
	pause     time.Duration                   // that it waits for it next
	claim     func(*lockkeys.Claim)           // of a Read
	read      func(ctx context.Context) error // likewise
	recalled  atomic.Bool
	offered   bool // by a source, which waits for the outcome
	brief     bool // see Config.Brief

	fences    []int64
	known     []uint64
	fewFences [2]int64 // backing array for the usual number
	fewKnown  [2]uint64
}

// newItem makes the item of a valid event; ctx is that of its offer.
func (s *Sequencer[T]) newItem(ctx context.Context, e *Event, done Done) *item[T] {
	it := s.plainItem(ctx, e, done)
	it.value, it.bad = s.decode(e)
	return it
}

// plainItem is newItem but for Decode.
func (s *Sequencer[T]) plainItem(ctx context.Context, e *Event, done Done) *item[T] {
	it := s.items.Get().(*item[T])
	it.event, it.done, it.values, it.term, it.brief = e, done, ctx, &s.info, s.cfg.Brief
	it.Owner = it
	it.Size = e.Size()
	it.Cost = e.waiting(it.Size)
	for _, p := range e.Positions {
		it.Add(p.Stream, p.Place(), p.End)
	}
	if len(e.Positions) == 0 {
		it.ID = e.ID
	}
	return it
}

// heldItem makes the item of an event that the store holds. Decode is called on a
// goroutine of its own, which it may end: its event fails then, and the keeper goes on.
func (s *Sequencer[T]) heldItem(h HeldEvent) *item[T] {
	it := s.plainItem(context.Background(), h.Event, nil) // whoever offered it has gone
	if err := contain.Apart(func() error { it.value, it.bad = s.decode(h.Event); return nil }); err != nil {
		nameError(&err, "Decode", h.Event)
		it.bad = err
	}
	it.Held, it.attempts, it.before, it.started = true, h.Attempts, h.Attempts, h.Started
	return it
}

// recycle returns an item to the pool; nothing may refer to it any more. It
// returns 1 if a source had offered it.
func (s *Sequencer[T]) recycle(it *item[T]) (offered int64) {
	if it.offered {
		offered = 1
	}
	*it = item[T]{calls: it.calls}
	s.items.Put(it)
	return offered
}

// job returns the job of the item. It is over once a handler has been called.
func (it *item[T]) job() Job[T] {
	return Job[T]{Event: it.event, Value: it.value, item: it, calls: it.calls}
}

// itemOf returns the shell's part of an event of the core.
func itemOf[T any](e *core.Event) *item[T] { return e.Owner.(*item[T]) }

// prepare collects the fencing tokens of the event's streams for a record.
func (it *item[T]) prepare() {
	it.fences, it.known = it.fewFences[:0], it.fewKnown[:0]
	for i := range it.Slots {
		it.fences = append(it.fences, it.Slots[i].Fence)
		it.known = append(it.known, it.Slots[i].Known)
	}
}

// record returns the record of the event, for a store.
func (it *item[T]) record(status Status, errText string) Record {
	if len(it.fences) != len(it.Slots) {
		it.prepare()
	}
	it.At = it.now()
	var reply []byte
	if status == StatusApplied { // that of a failed attempt counts for nothing
		reply = it.reply
	}
	return Record{Event: it.event, Term: it.term, Fences: it.fences, Known: it.known, Held: it.Held, Marked: it.run.IsMarked(), Brief: it.brief, JobState: JobState{
		Event: it.event.Name(), Positions: it.event.Positions, Status: status,
		Attempts: it.attempts, Error: errText, Started: it.started, Ended: it.At, Reply: reply,
	}}
}

// now returns the time, computed from the beginning of the first attempt, which
// is cheaper.
func (it *item[T]) now() time.Time {
	if it.started.IsZero() {
		return time.Now()
	}
	return it.started.Add(time.Since(it.started))
}

// heldEvent returns the item's event in the form that a store holds.
func (it *item[T]) heldEvent() HeldEvent {
	return HeldEvent{Event: it.event, Attempts: it.attempts, Started: it.started}
}
