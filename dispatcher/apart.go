package dispatcher

import "github.com/interlock-go/interlock/lockkeys"

// A message stands in one of two sets of claims: mu.set, where it runs or waits
// for what runs, or mu.closed, apart from all that goes on, if it is parked or
// behind a parked one.
//
// Invariants: what is parked holds its keys, in front of all others in mu.closed,
// and no two that hold keys conflict, in whichever set they are. Who gets keys
// in mu.set conflicts with nothing that is parked, nor with anything earlier that
// waits in mu.closed: so he has a look into it first, and goes there if he has
// to. One that waits in mu.set does so for something that goes on; that it has to
// go behind a parked message then is found when it would be its turn, which
// costs nothing until then. In mu.closed everybody waits for what is parked, or
// for such that are before him and do. When nobody is in his way there any more,
// he leaves it for his place in mu.set.
//
// What an operator gives up stays in mu.closed until it has ended, in no list.

// behindParkedLocked tells whether t, which is not in mu.closed, conflicts with
// what is parked or an earlier message that is behind it.
func (d *Dispatcher[M]) behindParkedLocked(t *task[M]) bool {
	return d.mu.closed.Len() > 0 && d.closesLocked(&t.claim, t.id)
}

// closesLocked tells whether mu.closed is in the way of a claim that came as the
// order-th.
func (d *Dispatcher[M]) closesLocked(claim *lockkeys.Claim, order uint64) bool {
	free := d.mu.closed.AddAt(&d.mu.probe, claim, order)
	d.mu.closed.Remove(&d.mu.probe, nil)
	return !free
}

// stallLocked moves t, of which behindParkedLocked says so, from the set to the
// closed ones, and appends to woken who has its keys in the set by that.
func (d *Dispatcher[M]) stallLocked(t *task[M], woken []*lockkeys.Place[*task[M]]) []*lockkeys.Place[*task[M]] {
	woken = d.mu.set.Remove(&t.place, woken)
	d.mu.closed.AddAt(&t.place, &t.claim, t.id)
	t.state = StateWaiting
	d.setApartLocked(t)
	return woken
}

// closeLocked moves t, which has its keys in the set and is parked, to the closed
// ones, with those that would have them now. It is linear in these.
func (d *Dispatcher[M]) closeLocked(t *task[M]) {
	woken := d.mu.set.Remove(&t.place, d.mu.woken[:0])
	d.mu.closed.AddAt(&t.place, &d.mu.nothing, t.id)
	d.mu.closed.Retake(&t.place, &t.claim, nil)
	d.setApartLocked(t)
	d.wakeLocked(woken)
}

// reopenLocked lets t, which is parked no longer, be tried again: in the set,
// where it has its keys before all that waited for it. If it gave keys back
// during its last attempt, it needs them too: then it goes to its place by its
// arrival, with all of them.
func (d *Dispatcher[M]) reopenLocked(t *task[M]) {
	if len(t.gone()) > 0 {
		t.claim.Add(t.gone()...)
		t.extra.gone = nil
		t.state = StateWaiting
		woken := d.mu.closed.Replace(&t.place, &t.claim, d.mu.woken[:0])
		if t.place.Granted() {
			woken = append(woken, &t.place) // the last one is the first to return
		}
		d.returnLocked(woken)
		return
	}
	d.leaveApartLocked(t)
	woken := d.mu.closed.Remove(&t.place, d.mu.woken[:0])
	d.mu.set.AddAt(&t.place, &d.mu.nothing, t.id)
	d.mu.set.Retake(&t.place, &t.claim, nil)
	d.readyLocked(t)
	d.returnLocked(woken)
}

// returnLocked is called with the places of the closed ones that have just been
// granted: their messages are behind nothing parked any more and return to the
// set, and so do those that waited for them alone. It is linear in them.
func (d *Dispatcher[M]) returnLocked(woken []*lockkeys.Place[*task[M]]) {
	for len(woken) > 0 {
		var t *task[M]
		t, woken = pop(woken)
		if !d.waitsLocked(t) {
			continue
		}
		d.leaveApartLocked(t)
		woken = d.mu.closed.Remove(&t.place, woken)
		if d.mu.set.AddAt(&t.place, &t.claim, t.id) {
			d.readyLocked(t)
		} else {
			d.waitLocked(t)
		}
	}
	d.mu.woken = woken
}

// setApartLocked notes that t has come to the closed ones. It gives its slot
// back if MaxParked allows it.
func (d *Dispatcher[M]) setApartLocked(t *task[M]) {
	t.apart = true
	if t.holdsSlot && d.roomLocked(t) {
		d.giveUpSlotLocked(t)
	}
	d.apartLocked(t).push(t)
	d.noteFullLocked()
}

// leaveApartLocked notes that t leaves the closed ones, or will.
func (d *Dispatcher[M]) leaveApartLocked(t *task[M]) {
	d.apartLocked(t).remove(t)
	t.apart = false
	d.noteFullLocked()
}

// apartLocked returns the list that t, one of the closed ones, is in.
func (d *Dispatcher[M]) apartLocked(t *task[M]) *taskList[M] {
	if t.holdsSlot {
		return &d.mu.beyond
	}
	return &d.mu.aside
}

// roomLocked tells whether MaxParked has room for t. With a bound by bytes it has
// as many as MaxPending.
func (d *Dispatcher[M]) roomLocked(t *task[M]) bool {
	within := d.cfg.MaxPendingBytes == 0 || d.mu.unslotted.bytes+t.size <= d.cfg.MaxPendingBytes
	return within && d.mu.unslotted.count < int64(d.cfg.MaxParked)
}

// giveUpSlotLocked lets others have the slot of t, which has not ended.
func (d *Dispatcher[M]) giveUpSlotLocked(t *task[M]) {
	d.mu.unslotted.count++
	d.mu.unslotted.bytes += t.size
	d.leaveSlotLocked(t)
}

// endSlotLocked gives back what an ended message took of MaxPending or else of
// MaxParked, where the next one in line has room then.
func (d *Dispatcher[M]) endSlotLocked(t *task[M]) {
	if t.holdsSlot {
		d.leaveSlotLocked(t)
		return
	}
	d.mu.unslotted.count--
	d.mu.unslotted.bytes -= t.size
	for next := d.mu.beyond.first; next != nil && d.roomLocked(next); next = d.mu.beyond.first {
		d.mu.beyond.remove(next)
		d.giveUpSlotLocked(next)
		d.mu.aside.push(next)
	}
	d.noteFullLocked()
}

// noteFullLocked tells submitters whether MaxParked is reached.
func (d *Dispatcher[M]) noteFullLocked() {
	full := d.mu.unslotted.count >= int64(d.cfg.MaxParked) || d.mu.beyond.len > 0
	if full != d.full.Load() {
		d.full.Store(full)
		d.mu.fullTold = false
	}
}

// tooManyParked returns ErrTooManyParked if MaxParked is reached and a message
// with this claim would go behind what is parked.
func (d *Dispatcher[M]) tooManyParked(claim *lockkeys.Claim) error {
	if !d.full.Load() {
		return nil
	}
	d.mu.Lock()
	refused := d.full.Load() && d.closesLocked(claim, d.intake.out.id+1)
	tell := refused && !d.mu.fullTold
	if refused {
		d.mu.stats.Refused++
		d.mu.fullTold = true
	}
	parked, behind := d.parkedLocked()
	d.mu.Unlock()
	if tell {
		d.cfg.Logger.Error("MaxParked is reached: submissions that conflict with what is parked are refused until Resume, Skip or Drop",
			"parked", parked, "behind", behind)
	}
	if refused {
		return ErrTooManyParked
	}
	return nil
}

// parkedLocked counts the parked messages and those behind them.
func (d *Dispatcher[M]) parkedLocked() (parked, behind int) {
	return len(d.mu.parked) + d.mu.leaving, d.mu.aside.len + d.mu.beyond.len - len(d.mu.parked)
}
