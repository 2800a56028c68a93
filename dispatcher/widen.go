package dispatcher

import (
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// wider tells whether requests add anything to what t claims.
func (d *Dispatcher[M]) wider(t *task[M], requests []lockkeys.Request) bool {
	var claim lockkeys.Claim
	claim.Add(t.claim.Requests()...)
	claim.Add(requests...)
	return !slices.Equal(claim.Requests(), t.claim.Requests())
}

// widenLocked gives t, which has its keys and does not run, a wider claim: its
// own, the requests, and the keys it gave back during its last attempt. The
// new claim takes the place in the order that t has by its arrival: behind
// all that have their keys and all that arrived earlier, before all that waits
// and arrived later. It is linear in what conflicts with the claim.
//
// Nothing can be blocked for ever by this: a message that waits, waits for
// messages that have their keys or for such that arrived earlier. Of two running
// messages that widen towards each other, the first to do so stops running and
// waits for the other; when the other does so too, it does not run either, and
// the earlier one of the two goes first.
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

// releaseKeys is Release for the message that w runs under s.
func (w *worker[M]) releaseKeys(s *scope, keys []lockkeys.Key) error {
	d := w.d
	d.mu.Lock()
	defer d.letGo()
	if d.cfg.BatchHandler != nil || !s.beginRelease() {
		return ErrNoHandler
	}
	defer s.endRelease()
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
		if r, ok := t.claim.Find(k); ok { // not named before
			t.more().gone = append(t.gone(), r)
			t.claim.Drop(k)
		}
	}
	for _, r := range t.gone()[before:] {
		d.emitKeyLocked(Released, t, w.index, r.Key, 0)
	}
	d.wakeLocked(d.mu.set.Shrink(&t.place, keys, d.mu.woken[:0]))
	return nil
}
