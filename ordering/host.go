package ordering

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// core returns the settings of the core.
func (c Config[T]) core(h core.Host) core.Config {
	policy := core.ParkGap
	switch c.GapPolicy {
	case dispatcher.DeadLetter:
		policy = core.SkipGap
	case dispatcher.Stop:
		policy = core.StopAtGap
	}
	return core.Config{
		GapTimeout: c.GapTimeout, GapPolicy: policy, MaxSkip: c.MaxSkip, MaxReplays: c.MaxReplays,
		MaxEarly: c.MaxEarly, MaxEarlyTotal: c.MaxEarlyTotal, MaxEarlyBytes: c.MaxEarlyBytes,
		MaxActive: c.MaxActive, IdleTTL: c.IdleTTL,
		MaxSpread: c.MaxSpread, SpreadStops: c.Spread == dispatcher.Stop,
		NewID: rand.Text, Host: h,
	}
}

// host answers the core's questions about the contents of events.
type host[T any] struct{}

func (host[T]) IsCopy(e, of *core.Event) bool {
	return itemOf[T](e).event.IsCopy(itemOf[T](of).event)
}

func (host[T]) Name(e *core.Event) string { return itemOf[T](e).event.Name() }

func (host[T]) FaultOf(e *core.Event) core.Fault {
	it := itemOf[T](e)
	return faultOf(it.heldEvent())
}

func faultOf(h HeldEvent) core.Fault {
	f := core.Fault{Owner: h}
	for _, p := range h.Positions {
		f.Slots = append(f.Slots, core.Slot{Key: p.Stream, Number: p.Place(), End: p.End})
	}
	return f
}

func (host[T]) Detach(e *core.Event) *core.Event {
	it := itemOf[T](e)
	detached := &item[T]{event: it.event, term: it.term, brief: it.brief, attempts: it.attempts, started: it.started}
	detached.Owner, detached.Held = detached, true
	for _, p := range it.event.Positions {
		detached.Add(p.Stream, p.Place(), p.End)
	}
	return &detached.Event
}

func (host[T]) ConflictError(e, other *core.Event) error {
	return conflict(itemOf[T](e).event, itemOf[T](other).event)
}

func (host[T]) ContradictionError(events []*core.Event) error {
	err := &ContradictionError{}
	for _, e := range events {
		err.Events = append(err.Events, itemOf[T](e).event)
	}
	return err
}

func (host[T]) EndedError(*core.Event) error { return ErrEnded }

func (host[T]) GapError(r core.Range, cause error) error {
	return fmt.Errorf("%w: %v: %w", ErrGap, rangeOf(r), cause)
}

func (host[T]) TooFarError(r core.Range, n uint64) error {
	return fmt.Errorf("%w: %v are %d: check that the number behind them is right; Drop gives up the events held behind them, and SkipTo skips the numbers", ErrTooFar, rangeOf(r), n)
}

func (host[T]) SpreadError(p core.ParkingState) error {
	return &SpreadError{Parking: parkingOf(p)}
}

func (host[T]) NotParkedError(key lockkeys.Key, at uint64) error {
	if at != 0 {
		return fmt.Errorf("%w as it was seen: %s, from %s on: look again", ErrNotParked, key, PositionAt(key, at))
	}
	return fmt.Errorf("%w: %s", ErrNotParked, key)
}

func (host[T]) LostError(e *core.Event) error {
	it := itemOf[T](e)
	first := it.event.Positions[0]
	return &LostError{Stream: first.Stream, Known: first.Place()}
}

func rangeOf(r core.Range) Range { return RangeAt(r.Key, r.From, r.To) }

func (r Range) core() core.Range {
	from, to := r.Places()
	return core.Range{Key: r.Stream, From: from, To: to}
}

// parkingOf converts a parking of the core to one of a store.
func parkingOf(s core.ParkingState) Parking {
	p := Parking{ID: s.ID, Reason: Reason(s.Reason), Gap: rangeOf(s.Gap), Since: s.Since}
	if s.Cause != nil {
		p.Error = s.Cause.Error()
	}
	for _, c := range s.Streams {
		p.Streams = append(p.Streams, parkedAt(PositionAt(c.Key, c.Number), c.By))
	}
	sortParked(p.Streams)
	for _, f := range s.Faults {
		p.Events = append(p.Events, f.Owner.(HeldEvent))
	}
	return p
}

// stateOf converts a parking of a store to one of the core.
func stateOf(p Parking) core.ParkingState {
	s := core.ParkingState{ID: p.ID, Reason: core.Reason(p.Reason), Since: p.Since, Gap: p.Gap.core()}
	if p.Error != "" {
		s.Cause = errors.New(p.Error)
	}
	for _, c := range p.Streams {
		s.Streams = append(s.Streams, core.Closed{Key: c.Stream, Number: c.Position().Place(), By: c.Bound})
	}
	for _, h := range p.Events {
		s.Faults = append(s.Faults, faultOf(h))
	}
	return s
}

func sortParked(streams []ParkedStream) {
	slices.SortFunc(streams, func(a, b ParkedStream) int { return a.Stream.Compare(b.Stream) })
}
