package rabbitmq

import (
	"context"
	"sync"
	"sync/atomic"
)

// tally counts the messages whose callback has not returned yet.
type tally struct {
	open atomic.Int64

	mu struct {
		sync.Mutex
		none chan struct{} // closed when open is 0, if someone waits
	}
}

func (t *tally) enter() { t.open.Add(1) }

func (t *tally) leave() {
	if t.open.Add(-1) > 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.none != nil && t.open.Load() == 0 {
		close(t.mu.none)
		t.mu.none = nil
	}
}

// wait waits for a moment without any message.
func (t *tally) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.open.Load() == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.mu.none == nil {
		t.mu.none = make(chan struct{})
	}
	none := t.mu.none
	t.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Drain waits until every accepted event is confirmed or has failed, and its
// callback has returned. It does not stop publishing: while others publish, it
// waits for a moment without any event in flight. The error is the cause of
// ctx. Do not call it in a callback.
func (p *Publisher) Drain(ctx context.Context) error { return p.accepted.wait(ctx) }
