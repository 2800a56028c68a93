package ordering

import (
	"context"
	"errors"
	"sync"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// submitter submits events to the dispatcher in the order of the core's
// actions. One goroutine at a time does so: the one that holds the turn. A
// source holds the turn while its event arrives and everything that may run as
// a result is submitted, so a full dispatcher blocks all sources. Submissions
// of other steps of the core go to the sequencer's queue, for the next holder
// of the turn; a goroutine makes sure that there is one.
//
// A handler must not wait for a turn whose holder waits for handlers to end:
// see full.
type submitter[T any] struct {
	turn   turn
	signal chan struct{} // the queue is not empty

	// These belong to the holder of the turn.
	batch   []*item[T] // what is to be submitted before the queue
	recent  recentIDs
	options [2]dispatcher.SubmitOption[Job[T]] // the callback, and the values of the event under way

	mu struct {
		sync.Mutex
		full chan struct{} // closed while the holder of the turn waits for the dispatcher
	}
}

func (u *submitter[T]) init() {
	u.turn.init()
	u.signal = make(chan struct{}, 1)
	u.mu.full = make(chan struct{})
}

func (u *submitter[T]) wake() {
	select {
	case u.signal <- struct{}{}:
	default:
	}
}

// waits must be called by the holder of the turn before it waits for the
// dispatcher, and waited after that.
func (u *submitter[T]) waits() (waited func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(u.mu.full)
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.mu.full = make(chan struct{})
	}
}

func (u *submitter[T]) full() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.mu.full
}

// takeTurn waits for the turn. The error is that of ctx, that of
// [Sequencer.Err], or [dispatcher.ErrNested].
func (s *Sequencer[T]) takeTurn(ctx context.Context) error {
	t := &s.submitter.turn
	if t.try() {
		return nil
	}
	defer t.leave()
	if t.await() {
		return nil
	}
	var full <-chan struct{}
	if s.within(ctx) {
		full = s.submitter.full()
	}
	select {
	case <-t.passed:
		return nil
	case <-full:
		return dispatcher.ErrNested
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.background.Done():
		return s.Err()
	}
}

// within reports whether ctx is that of a handler of this sequencer, or derived
// from it.
func (s *Sequencer[T]) within(ctx context.Context) bool {
	_, ok := dispatcher.InfoFrom(ctx) // of some dispatcher
	return ok && s.dispatcher.Nested(ctx)
}

// submitLeft submits the queue whenever nobody else takes the turn to do so.
func (s *Sequencer[T]) submitLeft() {
	for {
		select {
		case <-s.submitter.signal:
			if s.takeTurn(s.background) != nil {
				return
			}
			s.submitAside()
			s.submitter.turn.pass()
		case <-s.background.Done():
			return
		}
	}
}

// submitAside submits the queue on a goroutine of its own, which callbacks may
// end. The caller has the turn.
func (s *Sequencer[T]) submitAside() {
	for {
		err := contain.Apart(func() error {
			s.submitQueue(s.background)
			return nil
		})
		if err == nil {
			return
		}
		s.cfg.Logger.Error("submission failed", "err", err)
	}
}

// submitQueue submits the queue, or as much of it as ctx allows. The caller has
// the turn.
func (s *Sequencer[T]) submitQueue(ctx context.Context) {
	for {
		s.mu.Lock()
		s.submitter.batch, s.mu.queue = append(s.submitter.batch, s.mu.queue...), nil
		s.mu.Unlock()
		if len(s.submitter.batch) == 0 || !s.submitBatch(ctx) {
			return
		}
	}
}

// errUnwound is the error of a submission in which a function of the caller
// ended the goroutine.
var errUnwound = errors.New("ordering: Keys or Dispatcher.Size called runtime.Goexit or panicked")

// submitBatch submits the batch. If ctx ends first, the rest goes to the front
// of the queue, and done is false. The caller has the turn.
func (s *Sequencer[T]) submitBatch(ctx context.Context) (done bool) {
	u := &s.submitter
	batch := u.batch
	next, err := 0, errUnwound // until it is known to be otherwise
	defer func() {
		clear(batch[:next])
		left := batch[next:]
		u.batch = batch[:0]
		switch {
		case len(left) == 0:
		case err != nil:
			s.takeBack(left, err)
		}
	}()
	for ; next < len(batch); next++ {
		it := batch[next]
		err = errUnwound
		if err = s.enter(ctx, it); err != nil {
			return false
		}
	}
	return true
}

// enter submits an event to the dispatcher, and waits while that is full.
func (s *Sequencer[T]) enter(ctx context.Context, it *item[T]) error {
	if it.attempts == 0 { // else it has been seen
		s.seeID(it.event)
	}
	it.prepare()
	job, options := it.job(), s.submitter.options[:]
	options[1] = dispatcher.ValuesOf[Job[T]](it.values)
	if err := s.dispatcher.TrySubmit(ctx, job, options...); !errors.Is(err, dispatcher.ErrFull) {
		return err
	}
	defer s.submitter.waits()()
	return s.dispatcher.Submit(ctx, job, options...)
}

// takeBack handles events that were not submitted, the first one because of
// err: they wait for another turn, or go back to the core.
func (s *Sequencer[T]) takeBack(left []*item[T], err error) {
	var panicked *dispatcher.PanicError
	never := errors.Is(err, dispatcher.ErrTooLarge) || errors.Is(err, errUnwound) || errors.As(err, &panicked)
	ended := errors.Is(err, dispatcher.ErrClosed) || errors.Is(err, dispatcher.ErrStopped)
	if !never && !ended { // the context, or ErrNested
		s.mu.Lock()
		s.mu.queue = append(append([]*item[T](nil), left...), s.mu.queue...)
		s.mu.Unlock()
		clear(left)
		s.submitter.wake()
		return
	}
	in := core.NotSubmitted{Cause: err}
	if ended {
		s.stop(s.submitError(err))
		in.Cause = nil
	}
	s.mu.Lock() // so that nothing is submitted behind them meanwhile
	for _, it := range append(left, s.mu.queue...) {
		in.Events = append(in.Events, &it.Event)
	}
	clear(left)
	s.mu.queue = nil
	s.stepRest(in, s.tellAside)
}

// submitError converts an error of the dispatcher to one of the sequencer.
func (s *Sequencer[T]) submitError(err error) error {
	if errors.Is(err, dispatcher.ErrClosed) || errors.Is(err, dispatcher.ErrStopped) {
		if err := s.Err(); err != nil {
			return err
		}
	}
	return err
}
