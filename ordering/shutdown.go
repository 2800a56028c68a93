package ordering

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher"
)

// Drain waits until every event that was accepted has its outcome; those that
// wait for a gap, as long as that stays open. What is held and not parked any
// more runs before that. Drain does not stop offers; with others still offering
// it waits for a moment without any event on its way. The error is that of ctx,
// or of [Sequencer.Err] if the sequencer was shut down or stopped with events
// left; in a handler it is [dispatcher.ErrNested].
func (s *Sequencer) Drain(ctx context.Context) error {
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

// drainedLocked lets those go who wait in Drain, if no event is on its way and
// the keeper has nothing to do. Who ends an event counts first and looks at
// mu.drained then, who waits sets that and then looks at the count, so one of
// them sees the other.
func (s *Sequencer) drainedLocked() {
	if s.mu.drained != nil && s.open.Load() == 0 && (s.keeper.restsLocked() || s.mu.over) {
		close(s.mu.drained)
		s.mu.drained = nil
	}
}

// stopLocked ends the acceptance of events, for a failure.
func (s *Sequencer) stopLocked(cause error) {
	if s.mu.err == nil {
		s.mu.err = fmt.Errorf("%w: %w", ErrStopped, cause)
		s.stopped.Store(true)
		s.halt()
		s.cfg.Logger.Error("sequencer stopped", "err", cause)
	}
}

// Shutdown stops the sequencer: offers are refused and no handler starts any
// more. It waits for the handlers that run, whose events end as usual; shortly
// before the deadline of ctx their contexts end, see [dispatcher.Dispatcher.Shutdown].
// All other events, those that wait for earlier ones too, end as Unfinished, so
// that their sources deliver them again.
//
// Shutdown returns at the deadline at the latest. The error wraps
// [dispatcher.ErrUnfinished] if handlers, a replay or a call of the store still
// run then; what is left ends when they return. A second call waits likewise.
// In a handler the error is [dispatcher.ErrNested], and nothing is stopped.
func (s *Sequencer) Shutdown(ctx context.Context) error {
	if s.dispatcher.Nested(ctx) {
		return dispatcher.ErrNested
	}
	s.mu.Lock()
	s.mu.closers++
	if s.mu.err == nil {
		s.mu.err = ErrClosed
		s.stopped.Store(true)
		s.halt()
	}
	s.mu.Unlock()
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

// end ends the sequencer once all calls of Shutdown have told those whose
// events the dispatcher gave back.
func (s *Sequencer) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closers--; s.mu.closers > 0 || s.mu.ending {
		return
	}
	s.mu.ending = true
	go func() {
		s.goroutines.Wait()
		s.abandon()
		close(s.gone)
	}()
}

// abandon gives back what was accepted and not submitted.
func (s *Sequencer) abandon() {
	var a after
	s.mu.Lock()
	s.mu.over = true
	if s.mu.search != nil {
		s.mu.search.Stop()
	}
	if s.mu.look != nil {
		s.mu.look.Stop()
	}
	waiting := append(s.keeper.mu.holds, s.keeper.mu.checks...)
	s.keeper.mu.holds, s.keeper.mu.checks = nil, nil
	for _, st := range s.mu.streams {
		if st.gap != nil {
			st.gap.timer.Stop()
			st.gap = nil
		}
		for _, t := range st.early {
			s.leaveEarlyLocked(t)
			waiting = append(waiting, t)
		}
	}
	for _, o := range s.keeper.mu.ops {
		if o.reply != nil {
			o.reply <- ErrClosed
		}
	}
	s.keeper.mu.ops = nil
	for _, t := range waiting {
		s.endLocked(t, Outcome{Unfinished, ErrClosed}, &a)
	}
	s.mu.Unlock()
	s.do(&a)
}

// Close is Shutdown without a deadline, and ends what has begun only; call
// Drain first to run all. In a handler, for which it would wait, the error is
// [dispatcher.ErrNested], and nothing is closed.
func (s *Sequencer) Close() error {
	return s.Shutdown(context.Background())
}
