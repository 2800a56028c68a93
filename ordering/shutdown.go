package ordering

import (
	"context"
	"fmt"
)

// Drain waits until every event that was accepted has its outcome; those that
// wait for a gap, as long as that stays open. It does not stop offers. The
// error is that of ctx, or of [Sequencer.Err] if the sequencer was shut down or
// stopped with events left.
func (s *Sequencer) Drain(ctx context.Context) error {
	s.mu.Lock()
	if s.open.Load() == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.mu.drained == nil {
		s.mu.drained = make(chan struct{})
	}
	drained := s.mu.drained
	if s.open.Load() == 0 { // it may not have seen that someone waits
		close(drained)
		s.mu.drained = nil
	}
	s.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-s.halted:
		return s.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stopLocked ends the acceptance of events, for a failure.
func (s *Sequencer) stopLocked(cause error) {
	if s.mu.err == nil {
		s.mu.err = fmt.Errorf("%w: %w", ErrStopped, cause)
		s.stopped.Store(true)
		close(s.halted)
		s.cfg.Logger.Error("sequencer stopped", "err", cause)
	}
}

// Shutdown stops the sequencer: offers are refused and no handler starts any
// more. It waits for the handlers that run, whose events end as usual; shortly
// before the deadline of ctx their contexts end, see [dispatcher.Dispatcher.Shutdown].
// All other events, those that wait for earlier ones too, end as Unfinished, so
// that their sources deliver them again.
//
// The error wraps [dispatcher.ErrUnfinished] if handlers still ran at the
// deadline. A second call waits likewise.
func (s *Sequencer) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	first := !s.mu.closed
	s.mu.closed = true
	if s.mu.err == nil {
		s.mu.err = ErrClosed
		s.stopped.Store(true)
		close(s.halted)
	}
	s.mu.Unlock()
	_, err := s.dispatcher.Shutdown(ctx)
	s.cancel(ErrClosed)
	s.goroutines.Wait()
	if first {
		s.abandon()
	}
	return err
}

// abandon gives back what was accepted and not submitted.
func (s *Sequencer) abandon() {
	var a after
	s.mu.Lock()
	waiting := s.keeper.mu.holds
	s.keeper.mu.holds = nil
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
// Drain first to run all. The error is nil unless a handler calls it.
func (s *Sequencer) Close() error {
	return s.Shutdown(context.Background())
}
