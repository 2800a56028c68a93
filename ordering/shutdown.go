package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// Drain waits until every accepted event has its outcome, including those that
// wait for a gap, and until held events of resumed streams have run. Drain does
// not stop offers: while others offer, it waits for a moment without any event
// in flight. The error is that of ctx, or of [Sequencer.Err] if the sequencer
// was shut down or stopped with events left; in a handler it is
// [dispatcher.ErrNested].
func (s *Sequencer[T]) Drain(ctx context.Context) error {
	if s.dispatcher.Nested(ctx) {
		return dispatcher.ErrNested
	}
	s.mu.Lock()
	if s.mu.drained == nil {
		s.mu.drained = make(chan struct{})
	}
	drained := s.mu.drained
	s.drainedLocked()
	s.mu.Unlock()
	select {
	case <-drained:
		return nil
	default:
	}
	select {
	case <-drained:
		return nil
	case <-s.accepting.Done():
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// drainedLocked releases waiting Drain calls, if no event is in flight. The end
// of an event changes the count first and then reads mu.drained; Drain sets
// that first and then reads the count, so one of them sees the other.
func (s *Sequencer[T]) drainedLocked() {
	if s.mu.drained != nil && s.open.Load() == 0 && (s.mu.core.Rests() || s.mu.over) {
		close(s.mu.drained)
		s.mu.drained = nil
	}
}

// Shutdown stops the sequencer: offers are refused and no handler starts any
// more. It waits for the handlers that run, whose events end as usual; shortly
// before the deadline of ctx their contexts end, see
// [dispatcher.Dispatcher.Shutdown]. All other events, including those that wait
// for earlier ones, end as Unfinished, so that their sources redeliver them.
// Then the term ends.
//
// Shutdown returns at the deadline at the latest. The error wraps
// [dispatcher.ErrUnfinished] if handlers, a replay or a call of the store still
// run then; what is left ends when they return. A second call waits likewise.
// In a handler the error is [dispatcher.ErrNested], and nothing is stopped.
func (s *Sequencer[T]) Shutdown(ctx context.Context) error {
	if s.dispatcher.Nested(ctx) {
		return dispatcher.ErrNested
	}
	s.mu.Lock()
	s.mu.closers++
	s.stopLocked(ErrClosed)
	s.stepRest(core.Stopped{Err: s.mu.err}, s.tellAside)
	_, err := s.dispatcher.Shutdown(ctx)
	s.cancel(ErrClosed)
	s.end()
	select {
	case <-s.gone:
		return err
	default:
	}
	select {
	case <-s.gone:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("%w: %w: a replay or a call of the store has not returned", dispatcher.ErrUnfinished, context.Cause(ctx)))
	}
}

// end ends the sequencer once all calls of Shutdown have reported the events
// that the dispatcher gave back.
func (s *Sequencer[T]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closers--; s.mu.closers > 0 || s.mu.ending {
		return
	}
	s.mu.ending = true
	go func() {
		s.goroutines.Wait()
		s.abandon()
		s.endTerm()
		close(s.gone)
	}()
}

// abandon gives back the events that were accepted and not submitted.
func (s *Sequencer[T]) abandon() {
	s.mu.Lock()
	s.mu.over = true
	in := core.NotSubmitted{}
	for _, it := range s.mu.queue {
		in.Events = append(in.Events, &it.Event)
	}
	s.mu.queue = nil
	s.stepRest(in, s.tellAside)
	s.step(core.Abandoned{Err: s.Err()})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drainedLocked()
}

// endTermTimeout bounds the call that ends the term in the store.
const endTermTimeout = 5 * time.Second

// endTerm records in the store that the term has ended cleanly.
func (s *Sequencer[T]) endTerm() {
	ctx, cancel := context.WithTimeout(context.Background(), endTermTimeout)
	defer cancel()
	switch err := s.term.End(ctx); {
	case err == nil, errors.Is(err, ErrStoreClosed), errors.Is(err, ErrFenced):
	default:
		s.cfg.Logger.Warn("the store was not told that the term has ended", "err", err)
	}
}

// Close is Shutdown without a deadline: it finishes only what runs; call Drain
// first to run all. In a handler, for which it would wait, the error is
// [dispatcher.ErrNested], and nothing is closed.
func (s *Sequencer[T]) Close() error {
	return s.Shutdown(context.Background())
}
