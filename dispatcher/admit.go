package dispatcher

import (
	"container/heap"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// takeLocked returns the next message for a worker: one that was held and is
// finished, else the earliest ready one, else the first in the queue that
// conflicts with nothing before it. It returns nil if nothing can start. This
// is the only place that looks past blocked messages; it does so only when the
// worker would be idle otherwise, and considers each message once.
func (d *Dispatcher[M]) takeLocked() *task[M] {
	for d.canStartLocked() {
		if t := d.mu.finished.first; t != nil {
			d.mu.finished.remove(t)
			return t
		}
		if len(d.mu.ready) > 0 {
			return heap.Pop(&d.mu.ready).(*task[M])
		}
		if t := d.nextLocked(); t != nil && d.admitLocked(t) {
			return t
		}
	}
	return nil
}

// nextLocked removes the next message from the queue and returns it, or nil if
// there is none.
func (d *Dispatcher[M]) nextLocked() *task[M] {
	a, id := d.intake.take()
	if a == nil {
		return nil
	}
	t := d.spareLocked()
	t.id, t.msg, t.done, t.size, t.values, t.holdsSlot = id, a.msg, a.done, a.size, a.values, true
	t.claim.Copy(&a.claim)
	if a.rare != nil {
		t.more().ticket, t.extra.keyErr, t.extra.timing = a.rare.ticket, a.rare.keyErr, a.rare.timing
	}
	a.reset()
	return t
}

// admitLocked gives a message that is in no set its place: behind a parked one
// or else in mu.set, where it is granted all its keys or waits, in the order of
// arrival, behind what it conflicts with. It reports whether the keys were
// granted. A later message never overtakes a waiting one that it conflicts
// with: that keeps the order and prevents starvation. If a/b runs and a waits,
// then a/c could run at once, and so could any number like it, and a would
// never run. So a/c waits for a.
func (d *Dispatcher[M]) admitLocked(t *task[M]) (granted bool) {
	if d.mu.closed.Len() > 0 {
		if !d.mu.closed.AddAt(&t.place, &t.claim, t.id) {
			d.blockLocked(t)
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

// waitLocked adds a message whose place in the set is not granted to the
// waiting ones.
func (d *Dispatcher[M]) waitLocked(t *task[M]) {
	d.blockLocked(t)
	d.mu.waiting.push(t)
}

// blockLocked notes that t has to wait, and since when.
func (d *Dispatcher[M]) blockLocked(t *task[M]) {
	t.state, t.blocked = StateWaiting, time.Since(d.made)
}

// wakeLocked must be called with the places of mu.set that have just been
// granted. Their messages become ready, unless they conflict with something
// that was parked in the meantime: then they go behind it, and so do those that
// wait for them in turn. Its cost is linear in these messages.
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
			d.endWaitLocked(t)
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

// waitsLocked reports whether t, whose place has just been granted, was waiting
// for that. It was not if it runs already, in one batch with what it waited
// for, if an operator is giving it up, or if a shutdown has handed it back.
func (d *Dispatcher[M]) waitsLocked(t *task[M]) bool {
	return t.state == StateWaiting && !d.mu.end.reported
}

func (d *Dispatcher[M]) readyLocked(t *task[M]) {
	t.state = StateReady
	heap.Push(&d.mu.ready, t)
}

// gatherLocked makes the batch of w, a chain: t, which can start, and messages
// that wait for nothing but those before them in the batch, each in conflict with
// the one before it. If there are too few, it considers more messages of the
// queue, as far as the policy allows.
func (d *Dispatcher[M]) gatherLocked(w *worker[M], t *task[M]) {
	w.batch = append(w.batch, t)
	if !d.chains(t) {
		return
	}
	t.batch = w
	looks := d.cfg.MaxBatch
	for last := t; len(w.batch) < d.cfg.MaxBatch; {
		if place, ok := d.mu.set.Behind(&last.place, w.has); ok && place.Owner.state == StateWaiting && d.chains(place.Owner) {
			if last = place.Owner; d.behindParkedLocked(last) {
				return
			}
			d.mu.set.Hold(place)
			d.mu.waiting.remove(last)
			d.endWaitLocked(last)
			last.batch = w
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

// chains reports whether t may be part of a chain.
func (d *Dispatcher[M]) chains(t *task[M]) bool {
	switch {
	case d.cfg.BatchHandler != nil:
		return true
	case d.cfg.Together == nil:
		return false
	}
	return t.attempts == 0 && !t.alone && t.keyErr() == nil
}

// has reports whether the message of a place is in w's batch.
func (w *worker[M]) has(p *lockkeys.Place[*task[M]]) bool { return p.Owner.batch == w }

// exclusive reports whether t has an exclusive key, for which others can be in
// line.
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
