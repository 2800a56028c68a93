package dispatcher

import (
	"container/heap"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// takeLocked finds the next message to start: of those ready the earliest,
// else the first in the queue that conflicts with nothing before it. Looking
// past blocked messages happens only here, only when a worker would be idle
// otherwise, and each message is considered once. It returns nil if nothing
// can start.
func (d *Dispatcher[M]) takeLocked() *task[M] {
	for d.canStartLocked() {
		if len(d.mu.ready) > 0 {
			return heap.Pop(&d.mu.ready).(*task[M])
		}
		if t := d.nextLocked(); t != nil && d.admitLocked(t) {
			return t
		}
	}
	return nil
}

// nextLocked takes the next message out of the queue, if there is one.
func (d *Dispatcher[M]) nextLocked() *task[M] {
	a, id := d.intake.take()
	if a == nil {
		return nil
	}
	t := d.spareLocked()
	t.id, t.msg, t.done, t.size, t.holdsSlot = id, a.msg, a.done, a.size, true
	t.claim.Copy(&a.claim)
	if a.rare != nil {
		t.more().ticket, t.extra.keyErr = a.rare.ticket, a.rare.keyErr
	}
	a.reset()
	return t
}

// admitLocked finds the place of a message that is in no set: behind a parked
// one, or else in the set, where it has its keys, all of them, or waits behind
// what it conflicts with, in the order of arrival. That later messages must not
// pass a waiting one with which they conflict is what keeps the order, and what
// keeps it from starving: with a running a/b, a waiting a, and then a/c, the
// last could run at once, and so could ever more like it, and a never. So a/c
// waits for a.
func (d *Dispatcher[M]) admitLocked(t *task[M]) (granted bool) {
	if d.mu.closed.Len() > 0 {
		if !d.mu.closed.AddAt(&t.place, &t.claim, t.id) {
			t.state = StateWaiting
			d.setApartLocked(t)
			d.emitBlockedLocked(t)
			return false
		}
		d.mu.closed.Remove(&t.place, nil)
	}
	if d.mu.set.AddAt(&t.place, &t.claim, t.id) {
		return true
	}
	d.waitLocked(t)
	d.emitBlockedLocked(t)
	return false
}

// waitLocked puts a message whose place in the set is not granted among the
// waiting.
func (d *Dispatcher[M]) waitLocked(t *task[M]) {
	t.state = StateWaiting
	d.mu.waiting.push(t)
}

// wakeLocked is called with the places of the set that have just been granted.
// The messages are ready, unless something has been parked meanwhile that is in
// their way: then they go behind it, and so do those that wait for them in turn.
// It is linear in them.
func (d *Dispatcher[M]) wakeLocked(woken []*lockkeys.Place[*task[M]]) {
	for len(woken) > 0 {
		var t *task[M]
		t, woken = pop(woken)
		if !d.waitsLocked(t) {
			continue
		}
		d.mu.waiting.remove(t)
		if d.behindParkedLocked(t) {
			woken = d.stallLocked(t, woken)
		} else {
			d.readyLocked(t)
		}
	}
	d.mu.woken = woken
}

func pop[M any](places []*lockkeys.Place[*task[M]]) (*task[M], []*lockkeys.Place[*task[M]]) {
	last := len(places) - 1
	t := places[last].Owner
	places[last] = nil
	return t, places[:last]
}

// waitsLocked tells whether t, whose place has just been granted, is to go on
// because of that: not if it runs already, in one batch with what it waited for,
// if an operator is giving it up, or if a shutdown has given it back.
func (d *Dispatcher[M]) waitsLocked(t *task[M]) bool {
	return t.state == StateWaiting && !d.mu.end.reported
}

func (d *Dispatcher[M]) readyLocked(t *task[M]) {
	t.state = StateReady
	heap.Push(&d.mu.ready, t)
}

// gatherLocked makes the batch of w: t, which can start, and the messages
// that wait directly behind it with the same exclusive keys. If too few have
// been considered, it considers more, as far as the policy lets it look.
func (d *Dispatcher[M]) gatherLocked(w *worker[M], t *task[M]) {
	w.batch = append(w.batch, t)
	if d.cfg.BatchHandler == nil {
		return
	}
	looks := d.cfg.MaxBatch
	for last := t; len(w.batch) < d.cfg.MaxBatch; {
		if place, ok := d.mu.set.Behind(&last.place); ok && place.Owner.state == StateWaiting {
			if last = place.Owner; d.behindParkedLocked(last) {
				return
			}
			d.mu.set.Hold(place)
			d.mu.waiting.remove(last)
			w.batch = append(w.batch, last)
			continue
		}
		if looks == 0 || !t.exclusive() || d.mu.waiting.len > d.window {
			return
		}
		looks--
		next := d.nextLocked()
		if next == nil {
			return
		}
		if d.admitLocked(next) {
			d.readyLocked(next)
		}
	}
}

// exclusive tells whether others can be in line for a key of t.
func (t *task[M]) exclusive() bool {
	return slices.ContainsFunc(t.claim.Requests(), func(r lockkeys.Request) bool {
		return r.Mode == lockkeys.Exclusive
	})
}

// startLocked marks the batch of w as running.
func (d *Dispatcher[M]) startLocked(w *worker[M]) {
	for _, t := range w.batch {
		t.state = StateRunning
		if t.keyErr() == nil {
			t.attempts++
			d.mu.stats.Started++
		}
		d.emitLocked(Started, t, w.index, nil)
	}
}
