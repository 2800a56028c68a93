package ordering

import (
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Offer accepts an event from a source. It waits while the dispatcher is full,
// and while too many events wait for the store, which is backpressure for the
// source.
//
// An event with an ID and no numbers is a command, see [Event.IsCommand].
//
// If the error is nil, the event is accepted, and done, which may be nil, is
// called with the outcome. Otherwise the error is or wraps an [*EventError],
// [ErrNilEvent], [dispatcher.ErrTooLarge], that of ctx, [ErrClosed], or
// [ErrStopped]. If ctx ends while an accepted event waits for a full
// dispatcher, it stays accepted, and is submitted when there is room.
//
// The handler's context has the values of ctx, such as a trace ID or a user, in every
// attempt, but not its end. That of an event that the store has held has none.
//
// A handler may offer events, with its context, but must not wait for their
// outcomes. If the offer itself would have to wait for other handlers, its
// error is [dispatcher.ErrNested].
func (s *Sequencer[T]) Offer(ctx context.Context, e *Event, done Done) error {
	if err := s.validate(e); err != nil {
		return err
	}
	it := s.newItem(ctx, e, done)
	err := s.checkSize(it)
	if err == nil {
		err = s.begins(ctx)
	}
	if err != nil {
		s.recycle(it)
		return err
	}
	defer s.submitter.turn.pass()
	s.offer(ctx, it)
	return nil
}

// batchChunk is the number of events of a batch that are accepted in one turn.
const batchChunk = 1024

// OfferBatch accepts events in the given order. It returns how many were
// accepted, from the first on; if not all, the error is that of
// [Sequencer.Offer] for the next one.
func (s *Sequencer[T]) OfferBatch(ctx context.Context, events []*Event, done Done) (accepted int, err error) {
	return s.offerAll(ctx, events, done, 0)
}

// offerAll is OfferBatch for events that a replay has brought, if link is not 0; see
// [core.Event].Link.
func (s *Sequencer[T]) offerAll(ctx context.Context, events []*Event, done Done, link int) (accepted int, err error) {
	for accepted < len(events) && err == nil {
		accepted, err = s.offerChunk(ctx, events, accepted, done, link)
	}
	return accepted, err
}

// offerChunk accepts events, starting at index from, and returns the index of
// the first that was not accepted.
func (s *Sequencer[T]) offerChunk(ctx context.Context, events []*Event, from int, done Done, link int) (accepted int, err error) {
	var items []*item[T]
	for i := from; i < len(events) && len(items) < batchChunk && err == nil; i++ {
		if err = s.validate(events[i]); err != nil {
			break
		}
		it := s.newItem(ctx, events[i], done)
		it.Link = link
		if err = s.checkSize(it); err == nil {
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return from, err
	}
	if err := s.begins(ctx); err != nil {
		return from, err
	}
	defer s.submitter.turn.pass()
	for i, it := range items {
		if s.stopped.Load() {
			return from + i, s.Err()
		}
		s.offer(ctx, it)
	}
	return from + len(items), err
}

// validate returns an error if an event cannot be accepted.
func (s *Sequencer[T]) validate(e *Event) error {
	if e == nil {
		return ErrNilEvent
	}
	if e.IsCommand() {
		return e.validateTexts()
	}
	if len(e.Positions) == 0 {
		return &EventError{Reason: fmt.Errorf("%w, or, for a command, an ID", ErrNoPosition)}
	}
	return e.Validate()
}

// checkSize returns an error for an event that is too large for the dispatcher.
func (s *Sequencer[T]) checkSize(it *item[T]) error {
	most := s.cfg.Dispatcher.MaxPendingBytes
	if most == 0 {
		return nil
	}
	size, err := s.size(it)
	if err == nil && size > most {
		err = dispatcher.ErrTooLarge
	}
	if err != nil {
		return fmt.Errorf("ordering: event %.80q: %w", it.event.Name(), err)
	}
	return nil
}

// size returns the size of an event. A panic of Dispatcher.Size is the error.
func (s *Sequencer[T]) size(it *item[T]) (size int64, err error) {
	defer contain.Recover(&err)
	return s.cfg.Dispatcher.Size(it.job()), nil
}

// begins takes the turn for a source.
func (s *Sequencer[T]) begins(ctx context.Context) error {
	if s.stopped.Load() {
		return s.Err()
	}
	if s.crowded.Load() {
		if err := s.waitForSpace(ctx); err != nil {
			return err
		}
	}
	return s.takeTurn(ctx)
}

// waitForSpace waits while too many events wait for the store.
func (s *Sequencer[T]) waitForSpace(ctx context.Context) error {
	for s.crowded.Load() {
		if s.within(ctx) { // the store may wait for handlers
			return dispatcher.ErrNested
		}
		s.mu.Lock()
		if !s.crowded.Load() {
			s.mu.Unlock()
			return nil
		}
		if s.mu.space == nil {
			s.mu.space = make(chan struct{})
		}
		space := s.mu.space
		s.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.accepting.Done():
			return s.Err()
		}
	}
	return nil
}

// offer passes an event to the core, and submits everything that may run as a
// result. The caller has the turn.
func (s *Sequencer[T]) offer(ctx context.Context, it *item[T]) {
	it.offered = true
	s.open.Add(1)
	u := &s.submitter
	s.mu.Lock()
	actions := s.stepLocked(core.Arrived{Event: &it.Event})
	for _, a := range actions {
		if a, ok := a.(core.Submit); ok {
			if len(s.mu.queue) == 0 {
				u.batch = append(u.batch, itemOf[T](a.Event))
			} else { // behind those
				s.mu.queue = append(s.mu.queue, itemOf[T](a.Event))
			}
		}
	}
	if _, ok := only[core.Submit](actions); ok { // mostly
		actions = nil
	}
	actions = slices.Clone(actions)
	left := len(s.mu.queue) > 0
	s.mu.Unlock()
	s.execute(actions, s.tellAside)
	if len(u.batch) > 0 {
		s.submitBatch(ctx)
	}
	if left {
		s.submitQueue(ctx)
	}
}
