package ordering

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/ordering/internal/core"
)

// keeper is a goroutine that carries out the core's actions on the store, one
// after the other, each until its result is known.
type keeper struct {
	actions chan core.Action
}

// laneSize is the largest number of actions under way in a lane of the core, so
// that sending one never waits.
const laneSize = 2

func (k *keeper) init() { k.actions = make(chan core.Action, laneSize) }

func (k *keeper) give(a core.Action) { k.actions <- a }

// keep is a keeper's goroutine.
func (s *Sequencer[T]) keep(k *keeper) {
	for {
		select {
		case a := <-k.actions:
			s.keepOne(a)
		case <-s.background.Done():
			return
		}
	}
}

// keepOne carries out an action and passes the result to the core.
func (s *Sequencer[T]) keepOne(a core.Action) {
	in, err := s.store(a)
	switch {
	case err == nil:
		s.step(in)
	case s.background.Err() != nil: // a shutdown gives back what was not done
	default:
		s.step(fatal(err))
	}
}

// fatal returns the input for a final error of the store.
func fatal(err error) core.Input {
	if errors.Is(err, ErrFenced) {
		return core.Fenced{Err: stopError(err)}
	}
	return core.Stopped{Err: stopError(err)}
}

// isFinal reports whether retrying is pointless: another holder has taken over,
// or the store has lost commits.
func isFinal(err error) bool {
	var lost *LostError
	return errors.Is(err, ErrFenced) || errors.As(err, &lost) || errors.Is(err, ErrStoreClosed)
}

// The longest pause between two attempts at something with the store.
const maxStorePause = time.Second

// insist repeats an operation on the store until its result is known. If the
// store does not answer for longer than StoreTimeout, the sequencer stops. The
// error is final by isFinal, one for which answers is true, or the reason why
// insist gave up.
func (s *Sequencer[T]) insist(ctx context.Context, what string, answers func(error) bool, do func() error) error {
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = 10*time.Millisecond, maxStorePause
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := do()
		if err != nil && (isFinal(err) || answers != nil && answers(err)) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(delays), backoff.WithMaxElapsedTime(s.cfg.StoreTimeout),
		backoff.WithNotify(func(err error, wait time.Duration) { s.away(what, wait, err) }))
	if err != nil && ctx.Err() != nil {
		return s.endError()
	}
	if err != nil && !isFinal(err) && (answers == nil || !answers(err)) {
		return &StoreError{what, err}
	}
	return err
}

// away records and logs that the store has not answered.
func (s *Sequencer[T]) away(what string, wait time.Duration, err error) {
	s.counts.storeErrors.Add(1)
	if ok, withheld := s.outage.Take(); ok { // many calls fail at the same time
		s.cfg.Logger.Error("store failed, trying again", "op", what, "wait", wait, "err", err, "withheld", withheld)
	}
}

// endError returns the reason why the sequencer has given up its work.
func (s *Sequencer[T]) endError() error {
	if err := s.Err(); err != nil {
		return err
	}
	return ErrClosed
}
