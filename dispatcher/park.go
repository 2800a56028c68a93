package dispatcher

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// ParkedMessage is a message whose failure closed its keys.
type ParkedMessage[M any] struct {
	ID       uint64
	Message  M
	Claim    []lockkeys.Request
	Attempts int
	Err      error     // of the last attempt
	Since    time.Time // when it was parked
	// Behind is the number of messages that wait for it; one that waits for
	// several parked messages counts with one of them.
	Behind int
}

// Parked returns the parked messages in order of arrival.
func (d *Dispatcher[M]) Parked() []ParkedMessage[M] {
	d.mu.Lock()
	defer d.mu.Unlock()
	behind := make(map[*task[M]]int)
	root := make(map[*task[M]]*task[M])
	for t := d.mu.waiting.first; t != nil; t = t.next {
		if !t.stalled {
			continue
		}
		if _, by, ok := d.mu.closed.Blocker(&t.more().closed); ok {
			head := by.Owner
			if root[head] != nil {
				head = root[head]
			}
			root[t] = head
			behind[head]++
		}
	}
	list := make([]ParkedMessage[M], 0, len(d.mu.parked))
	for _, t := range d.mu.parked {
		list = append(list, ParkedMessage[M]{t.id, t.msg, slices.Clone(t.claim.Requests()), t.attempts, t.err, t.more().since, behind[t]})
	}
	slices.SortFunc(list, func(a, b ParkedMessage[M]) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Resume lets a parked message be tried again, with MaxAttempts attempts from
// now on; those before still count in what is reported. What waits behind it
// follows in order, if it succeeds, with newer arrivals behind that. If it
// fails again it is parked again, before any of them. The error is
// [ErrNotParked] or [ErrClosed].
func (d *Dispatcher[M]) Resume(id uint64) error {
	d.mu.Lock()
	defer d.letGo()
	t, err := d.unparkLocked(id)
	if err != nil {
		return err
	}
	t.extra.spent, t.extra.delays = t.attempts, nil
	d.emitLocked(Resumed, t, -1, nil)
	d.openLocked(t)
	d.restartLocked(t)
	return nil
}

// Skip gives a parked message up and releases its keys, so that what waits
// behind it goes on. Its result wraps [ErrSkipped] and the error that parked
// it. The error of Skip is [ErrNotParked] or [ErrClosed].
func (d *Dispatcher[M]) Skip(id uint64) error { return d.giveUp(id, false) }

// Drop gives up a parked message and all accepted ones that conflict with it;
// their results wrap [ErrSkipped]. To know them, it considers everything in
// the queue, whatever the policy's window. The error of Drop is
// [ErrNotParked] or [ErrClosed].
func (d *Dispatcher[M]) Drop(id uint64) error { return d.giveUp(id, true) }

func (d *Dispatcher[M]) giveUp(id uint64, related bool) error {
	d.mu.Lock()
	t, err := d.unparkLocked(id)
	if err != nil {
		d.mu.Unlock()
		return err
	}
	if related {
		d.considerAllLocked()
	}
	leaving := []*task[M]{t}
	for q := d.mu.waiting.first; related && q != nil; {
		next := q.next
		if q.state == StateWaiting && q.claim.Conflicts(&t.claim) {
			d.mu.waiting.remove(q)
			if q.stalled {
				d.mu.stalled--
			} else {
				d.mu.looking--
			}
			q.state, q.err = StateParked, t.err
			leaving = append(leaving, q)
		}
		q = next
	}
	d.mu.leaving += len(leaving)
	d.letGo()

	// Nobody else can end these now, and their keys are still taken.
	for _, q := range leaving {
		q.err = errors.Join(ErrSkipped, q.err)
		d.cfg.Logger.Warn("message given up by an operator", "message", q.id, "error", q.err)
		d.completeAside(q, q.err)
	}

	d.mu.Lock()
	defer d.letGo()
	for _, q := range leaving {
		if q == t || q.stalled {
			d.openLocked(q)
		}
		d.endLocked(q, -1, q.err)
	}
	d.mu.leaving -= len(leaving)
	if d.mu.end.reported {
		d.abandonLocked(nil)
	}
	return nil
}

// considerAllLocked considers all messages in the queue.
func (d *Dispatcher[M]) considerAllLocked() {
	for t := d.nextLocked(); t != nil; t = d.nextLocked() {
		if d.admitLocked(t) {
			d.readyLocked(t)
		}
	}
}

// unparkLocked takes a message off the parked ones. It goes on having its
// keys, and those who wait for it go on being stalled.
func (d *Dispatcher[M]) unparkLocked(id uint64) (*task[M], error) {
	t := d.mu.parked[id]
	switch {
	case d.mu.closing:
		return nil, ErrClosed
	case t == nil:
		return nil, ErrNotParked
	}
	delete(d.mu.parked, id)
	return t, nil
}

// parkLocked closes the keys of a message that failed.
func (d *Dispatcher[M]) parkLocked(t *task[M], worker int) {
	t.state = StateParked
	d.mu.parked[t.id] = t
	d.leaveSlotLocked(t)
	d.emitLocked(Parked, t, worker, t.err)
	t.more().since = time.Now()
	if !d.mu.closed.Add(&t.more().closed, &t.claim) || d.stallsLocked() {
		d.restallLocked()
	}
}

// stallLocked notes that a blocked message is behind a parked one, if it is
// and MaxParked allows it. Such a message uses neither the look-ahead window
// nor a slot of MaxPending.
func (d *Dispatcher[M]) stallLocked(t *task[M]) bool {
	if len(d.mu.parked) == 0 || d.mu.closed.Len() >= d.cfg.MaxParked {
		return false
	}
	if !d.behindClosedLocked(t) {
		return false
	}
	d.mu.closed.Add(&t.more().closed, &t.claim)
	t.stalled = true
	d.mu.stalled++
	d.leaveSlotLocked(t)
	return true
}

// stallsLocked tells whether a waiting message that is not stalled conflicts
// with a claim in the closed set.
func (d *Dispatcher[M]) stallsLocked() bool {
	for t := d.mu.waiting.first; t != nil; t = t.next {
		if t.state == StateWaiting && !t.stalled && d.behindClosedLocked(t) {
			return true
		}
	}
	return false
}

// behindClosedLocked tells whether t conflicts with a claim in the closed set.
func (d *Dispatcher[M]) behindClosedLocked(t *task[M]) bool {
	granted := d.mu.closed.Add(&d.mu.probe, &t.claim)
	d.mu.closed.Remove(&d.mu.probe, nil)
	return !granted
}

// restallLocked notes anew which of the waiting messages are behind a parked
// one. The claims of the others return to the closed set in order of arrival:
// a message that conflicts with a later one which is behind a parked one is
// not behind it for that.
func (d *Dispatcher[M]) restallLocked() {
	if d.mu.closed.Len() == 0 {
		return
	}
	for t := d.mu.waiting.last; t != nil; t = t.prev {
		if t.stalled {
			d.closedNoMoreLocked(t)
			d.mu.looking++
		}
	}
	for t := d.mu.waiting.first; t != nil; t = t.next {
		if t.state == StateWaiting && d.stallLocked(t) {
			d.mu.looking--
		}
	}
}

// closedNoMoreLocked takes a claim out of the closed set without looking at
// those that are in it because of that claim.
func (d *Dispatcher[M]) closedNoMoreLocked(t *task[M]) {
	d.unstallLocked(t)
	d.mu.closed.Remove(&t.more().closed, nil)
}

// openLocked takes a claim that is parked no longer, or stalled no longer, out
// of the closed set, and all those that were stalled because of it alone.
func (d *Dispatcher[M]) openLocked(t *task[M]) {
	d.unstallLocked(t)
	woken := d.mu.closed.Remove(&t.more().closed, nil)
	for len(woken) > 0 {
		q := woken[len(woken)-1].Owner
		woken = woken[:len(woken)-1]
		if !q.stalled {
			continue
		}
		d.unstallLocked(q)
		if q.state == StateWaiting {
			d.mu.looking++
		}
		woken = d.mu.closed.Remove(&q.more().closed, woken)
	}
}

// unstallLocked notes that a message is not behind a parked one any more. One
// that an operator is giving up does not count.
func (d *Dispatcher[M]) unstallLocked(t *task[M]) {
	if t.stalled && t.state == StateWaiting {
		d.mu.stalled--
	}
	t.stalled = false
}
