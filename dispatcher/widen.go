package dispatcher

import (
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// wider reports whether requests add anything to what t claims.
func (d *Dispatcher[M]) wider(t *task[M], requests []lockkeys.Request) bool {
	var claim lockkeys.Claim
	claim.Add(t.claim.Requests()...)
	claim.Add(requests...)
	return !slices.Equal(claim.Requests(), t.claim.Requests())
}

// widenLocked gives t, which holds its keys and does not run, a wider claim:
// its own, the requests, and the keys released during its last attempt. The new
// claim goes to the place of t by arrival: behind all that hold their keys and
// all that arrived earlier, before all that wait and arrived later. Its cost is
// linear in the messages that conflict with the claim.
//
// This cannot block a message for ever: a waiting message waits only for
// messages that hold their keys or arrived earlier. Of two running messages
// that widen towards each other, the first to do so stops running and waits for
// the other; when the other widens too, it does not run either, and the earlier
// of the two goes first.
func (d *Dispatcher[M]) widenLocked(t *task[M], requests []lockkeys.Request, worker int) {
	t.claim.Add(requests...)
	t.claim.Add(t.gone()...)
	if t.extra != nil {
		t.extra.gone = nil
	}
	if len(requests) > 0 {
		d.emitLocked(Widened, t, worker, nil)
	}
	woken := d.mu.woken[:0]
	if d.behindParkedLocked(t) {
		woken = d.stallLocked(t, woken)
	} else if woken = d.mu.set.Replace(&t.place, &t.claim, woken); t.place.Granted() {
		d.readyLocked(t)
	} else {
		d.waitLocked(t)
	}
	if t.state == StateWaiting {
		d.emitBlockedLocked(t)
	}
	d.wakeLocked(woken)
}

// release is Release for the message that w runs under s.
func (w *worker[M]) release(s *scope, keys []lockkeys.Key) error {
	d := w.d
	d.mu.Lock()
	defer d.letGo()
	if d.cfg.BatchHandler != nil || !s.beginUse() {
		return ErrNoHandler
	}
	defer s.endUse()
	if w.isChain() {
		return fmt.Errorf("%w: the message runs in a chain, see Together; return this error, and it runs alone", ErrNoHandler)
	}
	if d.cfg.StrictLocking {
		return ErrStrictLocking
	}
	t := w.batch[0]
	for _, k := range keys {
		if _, ok := t.claim.Find(k); !ok {
			return fmt.Errorf("%w: %v is not one of %v", ErrNotHeld, k, t.claim.Requests())
		}
	}
	before := len(t.gone())
	for _, k := range keys {
		if r, ok := t.claim.Find(k); ok { // else it was named twice
			t.more().gone = append(t.gone(), r)
			t.claim.Drop(k)
		}
	}
	for _, r := range t.gone()[before:] {
		d.emitKeyLocked(Released, t, w.index, r.Key, 0)
	}
	t.claim.Requests() // closes the gaps now: the worker reads the claim without the mutex
	d.wakeLocked(d.mu.set.Shrink(&t.place, keys, d.mu.woken[:0]))
	return nil
}
