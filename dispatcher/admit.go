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

// admitLocked considers a message from the queue: it takes its keys, all of
// them, or else a place behind what it conflicts with, in the order of
// arrival. That later messages must not pass a waiting one with which they
// conflict is what keeps the order, and what keeps it from starving: with a
// running a/b, a waiting a, and then a/c, the last could run at once, and so
// could ever more like it, and a never. So a/c waits for a.
func (d *Dispatcher[M]) admitLocked(t *task[M]) (granted bool) {
	if d.mu.set.Add(&t.place, &t.claim) {
		return true
	}
	d.waitLocked(t, d.mu.waiting.last)
	return false
}

// waitLocked puts a message whose place is not granted among the waiting,
// behind at.
func (d *Dispatcher[M]) waitLocked(t, at *task[M]) {
	t.state = StateWaiting
	d.mu.waiting.insertAfter(t, at)
	if !d.stallLocked(t) {
		d.mu.looking++
	}
	d.emitBlockedLocked(t)
}

// wakeLocked moves a message whose last blocker is gone from waiting to ready.
func (d *Dispatcher[M]) wakeLocked(t *task[M]) {
	if t.state != StateWaiting {
		return // it runs already, in one batch with what it waited for
	}
	if d.mu.end.reported {
		return // a shutdown has given it back, or will
	}
	d.mu.waiting.remove(t)
	d.lookedAtLocked(t)
	d.readyLocked(t)
}

// lookedAtLocked notes that a message which is about to leave the waiting ones
// uses the look-ahead window no longer.
func (d *Dispatcher[M]) lookedAtLocked(t *task[M]) {
	if t.stalled {
		d.openLocked(t)
	} else {
		d.mu.looking--
	}
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
			last = place.Owner
			d.lookedAtLocked(last)
			w.batch = append(w.batch, last)
			continue
		}
		if looks == 0 || !t.exclusive() || d.mu.looking > d.window {
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
