package dispatcher

import "github.com/interlock-go/interlock/lockkeys"

// A considered message is in one of two sets of claims: in mu.closed if it is
// parked or waits behind a parked message, otherwise in mu.set, where it runs
// or waits for a message that will run.
//
// Invariants: parked messages hold their keys, in front of all others in
// mu.closed, and no two messages that hold keys conflict, whichever sets they
// are in. A message that is granted its keys in mu.set conflicts with nothing
// parked, nor with anything earlier that waits in mu.closed. So mu.closed is
// checked first, and a message that conflicts with something there goes behind
// it. A message that waits in mu.set waits for one that will run; only when it
// would be granted its keys is it checked whether it has to go behind a parked
// message instead, so waiting costs nothing. Every message that waits in
// mu.closed waits for a parked one, or for an earlier one that does. When
// nothing there blocks it any more, it moves to its place in mu.set.
//
// A message that an operator gives up stays in mu.closed until it has ended,
// but is in no list.

// behindParkedLocked reports whether t, which is not in mu.closed, conflicts
// with a parked message or with an earlier one behind a parked message.
func (d *Dispatcher[M]) behindParkedLocked(t *task[M]) bool {
	return d.mu.closed.Len() > 0 && d.closesLocked(&t.claim, t.id)
}

// closesLocked reports whether something in mu.closed blocks a claim with this
// arrival number.
func (d *Dispatcher[M]) closesLocked(claim *lockkeys.Claim, order uint64) bool {
	free := d.mu.closed.AddAt(&d.mu.probe, claim, order)
	d.mu.closed.Remove(&d.mu.probe, nil)
	return !free
}

// stallLocked moves t, for which behindParkedLocked is true, from mu.set to
// mu.closed, and appends to woken the places in mu.set that are granted as a
// result.
func (d *Dispatcher[M]) stallLocked(t *task[M], woken []*lockkeys.Place[*task[M]]) []*lockkeys.Place[*task[M]] {
	woken = d.mu.set.Remove(&t.place, woken)
	d.mu.closed.AddAt(&t.place, &t.claim, t.id)
	if t.state != StateWaiting {
		d.blockLocked(t)
	}
	d.setApartLocked(t)
	return woken
}

// closeLocked moves t, which holds its keys in mu.set and is parked, to
// mu.closed, together with the messages that would be granted these keys now.
// Its cost is linear in their number.
func (d *Dispatcher[M]) closeLocked(t *task[M]) {
	woken := d.mu.set.Remove(&t.place, d.mu.woken[:0])
	d.mu.closed.AddAt(&t.place, &d.mu.nothing, t.id)
	d.mu.closed.Retake(&t.place, &t.claim, nil)
	d.setApartLocked(t)
	d.wakeLocked(woken)
}

// reopenLocked lets t, which is no longer parked, be tried again: it moves to
// mu.set, where it holds its keys before all that waited for it. If its last
// attempt released keys, it needs these again: then it goes to its place by
// arrival, with all its keys.
func (d *Dispatcher[M]) reopenLocked(t *task[M]) {
	if len(t.gone()) > 0 {
		t.claim.Add(t.gone()...)
		t.extra.gone = nil
		d.blockLocked(t)
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

// returnLocked must be called with the places of mu.closed that have just been
// granted: their messages are no longer behind a parked one and return to
// mu.set, and so do those that waited only for them. Its cost is linear in
// these messages.
func (d *Dispatcher[M]) returnLocked(woken []*lockkeys.Place[*task[M]]) {
	for len(woken) > 0 {
		var t *task[M]
		t, woken = pop(woken)
		if !d.waitsLocked(t) {
			continue
		}
		d.leaveApartLocked(t)
		d.endWaitLocked(t)
		woken = d.mu.closed.Remove(&t.place, woken)
		if d.mu.set.AddAt(&t.place, &t.claim, t.id) {
			d.readyLocked(t)
		} else {
			d.waitLocked(t)
		}
	}
	d.mu.woken = woken
}

// setApartLocked records that t has moved to mu.closed. It gives back the slot
// of t if MaxParked allows that.
func (d *Dispatcher[M]) setApartLocked(t *task[M]) {
	t.apart = true
	if t.holdsSlot && d.roomLocked(t) {
		d.giveUpSlotLocked(t)
	}
	d.apartLocked(t).push(t)
	d.noteFullLocked()
}

// leaveApartLocked records that t leaves mu.closed, or is about to.
func (d *Dispatcher[M]) leaveApartLocked(t *task[M]) {
	d.apartLocked(t).remove(t)
	t.apart = false
	d.noteFullLocked()
}

// apartLocked returns the list of t, which is in mu.closed.
func (d *Dispatcher[M]) apartLocked(t *task[M]) *taskList[M] {
	if t.holdsSlot {
		return &d.mu.beyond
	}
	return &d.mu.aside
}

// roomLocked reports whether t still fits MaxParked and, if MaxPendingBytes is
// set, as many bytes again.
func (d *Dispatcher[M]) roomLocked(t *task[M]) bool {
	within := d.cfg.MaxPendingBytes == 0 || t.size <= d.cfg.MaxPendingBytes-d.mu.unslotted.bytes
	return within && d.mu.unslotted.count < int64(d.cfg.MaxParked)
}

// giveUpSlotLocked frees the slot of t, which has not ended: t counts against
// MaxParked now.
func (d *Dispatcher[M]) giveUpSlotLocked(t *task[M]) {
	d.mu.unslotted.count++
	d.mu.unslotted.bytes += t.size
	d.leaveSlotLocked(t)
}

// endSlotLocked frees what an ended message used of MaxPending or of MaxParked;
// in the latter case, messages beyond MaxParked move up.
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

// noteFullLocked sets whether MaxParked is reached, for submitters; each time
// it changes, the log of it is due again.
func (d *Dispatcher[M]) noteFullLocked() {
	full := d.mu.unslotted.count >= int64(d.cfg.MaxParked) || d.mu.beyond.len > 0
	if full != d.full.Load() {
		d.full.Store(full)
		d.mu.fullTold = false
	}
}

// tooManyParked returns ErrTooManyParked if MaxParked is reached and a message
// with this claim would go behind a parked one; nil if nothing is accepted any
// more, whatever an operator does.
func (d *Dispatcher[M]) tooManyParked(claim *lockkeys.Claim) error {
	if !d.full.Load() || d.Err() != nil {
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
