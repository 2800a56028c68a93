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
// all that runs and all that arrived earlier, before all that waits and
// arrived later. To that end the latter leave the set and return to it behind
// t, which costs one pass over them.
//
// Nothing can be blocked for ever by this: a message that waits, waits for
// messages that run or for such that arrived earlier. Of two running messages
// that widen towards each other, the first to do so stops running and waits
// for the other; when the other does so too, it does not run either, and the
// earlier one of the two goes first.
func (d *Dispatcher[M]) widenLocked(t *task[M], requests []lockkeys.Request, worker int) {
	later, woken := d.withdrawLocked(t.id)
	woken = d.mu.set.Remove(&t.place, woken)
	t.claim.Add(requests...)
	t.claim.Add(t.gone()...)
	if t.extra != nil {
		t.extra.gone = nil
	}
	if len(requests) > 0 {
		d.emitLocked(Widened, t, worker, nil)
	}
	granted := d.mu.set.Add(&t.place, &t.claim)
	d.returnLocked(later)
	if granted {
		d.readyLocked(t)
	} else {
		at := d.mu.waiting.last
		for at != nil && at.id > t.id {
			at = at.prev
		}
		d.waitLocked(t, at)
	}
	d.wakeAllLocked(slices.DeleteFunc(woken, func(p *lockkeys.Place[*task[M]]) bool {
		return !p.Granted() // withdrawn and returned meanwhile
	}))
	d.restallLocked()
}

// withdrawLocked takes the places of waiting messages that arrived after id
// out of the set, the latest first. They stay in the waiting list. As a rule
// nothing is granted by it, since what could be is behind them and gone
// already. The exception is an earlier message that widened while they were
// running in a batch, and that they kept their place before; it is woken.
func (d *Dispatcher[M]) withdrawLocked(id uint64) (withdrawn []*task[M], woken []*lockkeys.Place[*task[M]]) {
	for t := d.mu.waiting.last; t != nil && t.id > id; t = t.prev {
		if t.state == StateWaiting { // not the running rest of a batch
			woken = d.mu.set.Remove(&t.place, woken)
			withdrawn = append(withdrawn, t)
		}
	}
	slices.Reverse(withdrawn)
	return withdrawn, woken
}

// returnLocked puts withdrawn messages back in their order and wakes those
// that wait for nothing any more.
func (d *Dispatcher[M]) returnLocked(withdrawn []*task[M]) {
	for _, t := range withdrawn {
		if d.mu.set.Add(&t.place, &t.claim) {
			d.wakeLocked(t)
		}
	}
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
	d.wakeAllLocked(d.mu.set.Shrink(&t.place, keys, d.mu.woken[:0]))
	return nil
}
