package ordering

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/dispatcher"
)

// turn is had by one at a time: by whoever brings an event, while he finds its
// place and submits what may run. While the dispatcher is full he waits for
// handlers to end, so a handler must not wait for him then.
type turn struct {
	taken chan struct{} // full while someone has it

	mu struct {
		sync.Mutex
		full chan struct{} // closed while the one who has it waits for the dispatcher
	}
}

func (t *turn) init() {
	t.taken = make(chan struct{}, 1)
	t.mu.full = make(chan struct{})
}

// waits is called by the one who has the turn when he begins to wait for the
// dispatcher, and what it returns when he has waited.
func (t *turn) waits() (waited func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.mu.full)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.full = make(chan struct{})
	}
}

func (t *turn) full() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.full
}

// takeTurn waits for the turn. The error is that of ctx, why nothing is
// accepted any more, or [dispatcher.ErrNested].
func (s *Sequencer) takeTurn(ctx context.Context) error {
	select {
	case s.turn.taken <- struct{}{}:
		return nil
	default:
	}
	var full <-chan struct{}
	if s.within(ctx) {
		full = s.turn.full()
	}
	select {
	case s.turn.taken <- struct{}{}:
		return nil
	case <-full:
		return dispatcher.ErrNested
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.background.Done():
		return s.Err()
	}
}

func (s *Sequencer) passTurn() { <-s.turn.taken }

// within tells whether ctx is that of a handler of this sequencer, or made
// from it.
func (s *Sequencer) within(ctx context.Context) bool {
	_, ok := dispatcher.InfoFrom(ctx) // of some dispatcher
	return ok && s.dispatcher.Nested(ctx)
}
