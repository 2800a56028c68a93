package interlocktest

import (
	"context"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Call is a message whose handler the test calls itself, on its own goroutine:
//
//	call := interlocktest.NewCall(t, lockkeys.Request{Key: account})
//	err := bank.withdraw(call.Context(), withdrawal)
//
// It is a message of a dispatcher that has no other, so that Hold, Holds, Release,
// Touch and InfoFrom do with its context what they always do, and a handler that
// returns dispatcher.Widen is to be called again with another Call.
type Call struct {
	t        testing.TB
	d        *dispatcher.Dispatcher[struct{}]
	ctx      context.Context
	claim    []lockkeys.Request
	ticket   *dispatcher.Ticket
	returns  chan error
	held     chan struct{}
	returned sync.Once
	released []lockkeys.Key // until the handler returned

	mu      sync.Mutex
	touched []dispatcher.Access
}

// NewCall returns a call for a message with this claim. What it touches is checked as
// by [Touched], and a call that was not over is ended with the test.
func NewCall(t testing.TB, claim ...lockkeys.Request) *Call {
	t.Helper()
	return newCall(t, false, claim)
}

// NewStrictCall is NewCall with Config.StrictLocking, as in a sequencer: Hold and
// Release are refused.
func NewStrictCall(t testing.TB, claim ...lockkeys.Request) *Call {
	t.Helper()
	return newCall(t, true, claim)
}

func newCall(t testing.TB, strict bool, claim []lockkeys.Request) *Call {
	t.Helper()
	c := &Call{t: t, claim: claim, returns: make(chan error, 1), held: make(chan struct{})}
	began := make(chan context.Context)
	check := Touched(t)
	var err error
	c.d, err = dispatcher.New(dispatcher.Config[struct{}]{
		Workers: 1,
		Keys:    func(_ struct{}, all *lockkeys.Claim) error { all.Add(claim...); return nil },
		Handler: func(ctx context.Context, _ struct{}) error {
			began <- ctx
			return <-c.returns
		},
		StrictLocking: strict,
		Touched: func(ctx context.Context, a dispatcher.Access) {
			check(ctx, a)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.touched = append(c.touched, a)
		},
		Observer: func(e dispatcher.Event[struct{}]) {
			if e.Kind == dispatcher.Held {
				close(c.held)
			}
		},
	})
	if err == nil {
		c.ticket, err = c.d.Go(t.Context(), struct{}{})
	}
	if err != nil {
		t.Fatal("interlocktest: ", err)
	}
	c.ctx = <-began
	t.Cleanup(c.close)
	return c
}

func (c *Call) close() {
	if c.Return(nil) {
		select {
		case <-c.ticket.Done():
		default:
			c.t.Error("interlocktest: the handler has called Hold, and nobody has called finish")
			return
		}
	}
	_ = c.d.Close()
}

// Context returns the context for the handler. It ends with the test.
func (c *Call) Context() context.Context { return c.ctx }

// Released returns the keys that the handler has released so far, or had when it
// returned.
func (c *Call) Released() (keys []lockkeys.Key) {
	now, err := dispatcher.ClaimOf(c.ctx)
	if err != nil { // it has returned
		return c.released
	}
	left := lockkeys.NewClaim(now...)
	for _, r := range c.claim {
		if !left.Covers(r) {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// Touched returns what the handler has touched so far, in order.
func (c *Call) Touched() []dispatcher.Access {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]dispatcher.Access(nil), c.touched...)
}

// Return says that the handler has returned, and with which error. It reports whether
// the message is held from now on, since the handler has called Hold; [Call.Wait]
// waits for its end. Only the first call of Return has an effect.
func (c *Call) Return(err error) (held bool) {
	c.returned.Do(func() {
		c.released = c.Released()
		c.returns <- err
	})
	select {
	case <-c.held:
		return true
	case <-c.ticket.Done():
	}
	select { // it was held, and is finished
	case <-c.held:
		return true
	default:
		return false
	}
}

// Wait waits, after Return, until the message has ended, and returns its result: the
// error of the handler, or of finish, as a [*dispatcher.HandlerError].
func (c *Call) Wait(ctx context.Context) error { return c.ticket.Wait(ctx) }
