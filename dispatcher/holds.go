package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// Holds checks whether the message whose handler ctx belongs to holds the keys
// it is about to use. It returns nil if the message's claim covers all
// requests, else a [*NotHeldError] that names the first one not covered. A
// request is covered by a request for the same key or for an ancestor of it
// that is exclusive or, if both are shared, shared. A key released by [Release]
// is no longer held.
//
// It is an assertion for code that is called by several handlers and depends on
// their claims. With [Config.Strict], a failure cannot be ignored.
//
// ctx must be the context of a running [Handler] or [BatchHandler], or of a
// message that is held (see [Hold]), or derived from it; else the error wraps
// [ErrNoHandler]. In a BatchHandler a request may be covered by the claim of any
// message of the batch. It takes a few binary searches under the mutex.
func Holds(ctx context.Context, requests ...lockkeys.Request) error {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || s.host.claim == nil {
		return ErrNoHandler
	}
	return s.now().claim.holds(s, requests)
}

// NotHeldError is the error of [Holds], or of [Touch], for a request that the
// message's claim does not cover. It wraps [ErrNotHeld].
type NotHeldError struct {
	Request lockkeys.Request   // the first that is not covered
	Claim   []lockkeys.Request // what the message holds
	Caller  string             // who called Touch, as file:line; "" for Holds
}

// Error names the request, the message's claim, and what to declare.
func (e *NotHeldError) Error() string {
	how := "Exclusive"
	if e.Request.Mode == lockkeys.Shared {
		how = "Shared"
	}
	touched := ""
	if e.Caller != "" {
		touched = ", touched at " + e.Caller + ","
	}
	return fmt.Sprintf("dispatcher: %v%s is not covered by the message's claim %v: "+
		"add claim.%s of %v or an ancestor in Config.Keys, or ask for it with Widen in the handler",
		e.Request, touched, e.Claim, how, e.Request.Key)
}

// Unwrap returns [ErrNotHeld].
func (e *NotHeldError) Unwrap() error { return ErrNotHeld }

// holds is Holds for the message that w runs under s.
func (w *worker[M]) holds(s *scope, requests []lockkeys.Request) (err error) {
	over := w.running(s, func(batch []*task[M]) { err = w.d.holdsLocked(batch, "", requests...) })
	return cmp.Or(over, err)
}

// holds is Holds for the message of h, whether its handler runs or it is held.
func (h *hold[M]) holds(s *scope, requests []lockkeys.Request) (err error) {
	over := h.running(s, func(batch []*task[M]) { err = h.d.holdsLocked(batch, "", requests...) })
	return cmp.Or(over, err)
}

// running calls look, under the mutex, with the messages that w runs under s. The
// error is ErrNoHandler if their handler has returned.
func (w *worker[M]) running(s *scope, look func(batch []*task[M])) error {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	if !s.beginUse() {
		return ErrNoHandler
	}
	defer s.endUse()
	if w.isChain() {
		look(w.batch[w.chain-1 : w.chain])
	} else {
		look(w.batch)
	}
	return nil
}

// running is that of a worker for the message of h, until it is finished.
func (h *hold[M]) running(_ *scope, look func(batch []*task[M])) error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.state == holdOver {
		return ErrNoHandler
	}
	look([]*task[M]{h.t})
	return nil
}

// holdsLocked is Holds for the messages of a batch, or Touch with its caller. With
// Config.Strict it records the first failure, for the first of them.
func (d *Dispatcher[M]) holdsLocked(batch []*task[M], caller string, requests ...lockkeys.Request) error {
	for _, r := range requests {
		if slices.ContainsFunc(batch, func(t *task[M]) bool { return t.claim.Covers(r) }) {
			continue
		}
		t := batch[0]
		err := &NotHeldError{Request: r, Claim: slices.Clone(t.claim.Requests()), Caller: caller}
		if d.cfg.Strict && t.more().notHeld == nil {
			t.extra.notHeld = err
		}
		return err
	}
	return nil
}
