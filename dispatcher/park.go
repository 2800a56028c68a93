package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// ParkedMessage is a message whose failure closed its keys.
type ParkedMessage[M any] struct {
	ID       uint64
	Name     string // from Config.Name
	Message  M
	Claim    []lockkeys.Request
	Attempts int
	Err      error     // of the last attempt
	Since    time.Time // when it was parked
	// Behind is the number of messages that wait for it; one that waits for
	// several parked messages is counted at one of them.
	Behind int
}

// Parked returns the parked messages in order of arrival. Its cost is linear in
// them and in the messages behind them.
func (d *Dispatcher[M]) Parked() []ParkedMessage[M] {
	list := d.parked()
	for i := range list {
		list[i].Name = d.name(list[i].Message)
	}
	return list
}

// parked is Parked without names.
func (d *Dispatcher[M]) parked() []ParkedMessage[M] {
	d.mu.Lock()
	defer d.mu.Unlock()
	behind := make(map[*task[M]]int)
	root := make(map[*task[M]]*task[M])
	list := make([]ParkedMessage[M], 0, len(d.mu.parked))
	all := append(d.mu.aside.all(), d.mu.beyond.all()...)
	slices.SortFunc(all, byArrival)
	for _, t := range all {
		if _, by, ok := d.mu.closed.Blocker(&t.place); ok {
			head := by.Owner
			if root[head] != nil {
				head = root[head]
			}
			root[t] = head
			behind[head]++
		}
	}
	for _, t := range all {
		if t.state == StateParked {
			list = append(list, ParkedMessage[M]{
				ID: t.id, Message: t.msg, Claim: slices.Clone(t.claim.Requests()), Attempts: int(t.attempts),
				Err: t.err, Since: t.more().since, Behind: behind[t],
			})
		}
	}
	return list
}

// Resume lets a parked message be tried again, with MaxAttempts further
// attempts; reports count the earlier ones too. If it succeeds, the messages
// that wait behind it follow in order, and newer arrivals after them. If it
// fails again it is parked again, before any of them. The error is
// [ErrNotParked] or [ErrClosed], wraps [ErrStopped] if nothing is tried any more, or
// is that of ctx if it has ended, which is checked first.
func (d *Dispatcher[M]) Resume(ctx context.Context, id uint64) error {
	return d.resume(ctx, id, anyParking)
}

func (d *Dispatcher[M]) resume(ctx context.Context, id uint64, seen parking) error {
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	m, claim, err := d.reopen(id, seen)
	if err == nil {
		d.cfg.Logger.Warn("message resumed by an operator", append(d.about(id, m, claim), operatorAttrs(ctx)...)...)
	}
	return err
}

// reopen lets a parked message be tried again, and returns it with its claim.
func (d *Dispatcher[M]) reopen(id uint64, seen parking) (m M, claim []lockkeys.Request, err error) {
	d.mu.Lock()
	defer d.letGo()
	if d.mu.stopped != nil && !d.mu.closing {
		return m, nil, d.mu.stopped // it would not start
	}
	t, err := d.unparkLocked(id, seen)
	if err != nil {
		return m, nil, err
	}
	m, claim = t.msg, slices.Clone(t.claim.Requests())
	t.extra.spent = int(t.attempts)
	d.emitLocked(Resumed, t, -1, nil)
	d.reopenLocked(t)
	return m, claim, nil
}

// Skip gives up a parked message and releases its keys, so that the messages
// behind it go on. Its result wraps [ErrSkipped] and the error that parked it.
// The errors of Skip are those of [Dispatcher.Resume], but for ErrStopped.
func (d *Dispatcher[M]) Skip(ctx context.Context, id uint64) error {
	return d.giveUp(ctx, id, anyParking, false)
}

// Drop gives up a parked message and all accepted ones that conflict with it;
// their results wrap [ErrSkipped]. To find them, it considers everything in the
// queue, whatever the policy's window. The errors of Drop are those of
// [Dispatcher.Skip].
func (d *Dispatcher[M]) Drop(ctx context.Context, id uint64) error {
	return d.giveUp(ctx, id, anyParking, true)
}

func (d *Dispatcher[M]) giveUp(ctx context.Context, id uint64, seen parking, related bool) error {
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	leaving, err := d.leave(id, seen, related)
	if err != nil {
		return err
	}
	// Nothing else can end these now, and their keys are still held.
	for _, q := range leaving {
		q.err = errors.Join(ErrSkipped, q.err)
		d.cfg.Logger.Warn("message given up by an operator", append(append(d.about(q.id, q.msg, q.claim.Requests()), operatorAttrs(ctx)...), "err", q.err)...)
		d.completeAside(q, q.err)
	}
	d.mu.Lock()
	defer d.letGo()
	for _, q := range leaving {
		d.endLocked(q, -1, q.err)
	}
	d.mu.leaving -= len(leaving)
	d.endEventsLocked()
	if d.mu.end.reported {
		d.abandonLocked(nil)
	}
	return nil
}

// leave removes a parked message and, if related is set, all that conflict with
// it from the parked and the waiting ones, to be given up. They stay in
// mu.closed until they have ended. Its cost is linear in the queue and in the
// conflicting messages.
func (d *Dispatcher[M]) leave(id uint64, seen parking, related bool) (leaving []*task[M], err error) {
	d.mu.Lock()
	defer d.letGo()
	t, err := d.unparkLocked(id, seen)
	if err != nil {
		return nil, err
	}
	d.apartLocked(t).remove(t)
	leaving = append(leaving, t)
	if related {
		d.considerAllLocked()
		related := d.mu.closed.Conflicting(&t.claim, nil)
		related = d.mu.set.Conflicting(&t.claim, related)
		for _, place := range related {
			q := place.Owner
			if q.state != StateWaiting {
				continue // it is being given up already, here or with another one
			}
			if !q.apart {
				d.mu.waiting.remove(q)
				d.wakeLocked(d.stallLocked(q, d.mu.woken[:0]))
			}
			d.apartLocked(q).remove(q)
			q.state, q.err = StateParked, t.err
			leaving = append(leaving, q)
		}
		slices.SortFunc(leaving[1:], byArrival)
	}
	d.mu.leaving += len(leaving)
	d.noteFullLocked()
	return leaving, nil
}

// considerAllLocked considers all messages in the queue.
func (d *Dispatcher[M]) considerAllLocked() {
	for t := d.nextLocked(); t != nil; t = d.nextLocked() {
		if d.admitLocked(t) {
			d.readyLocked(t)
		}
	}
}

// parking tells the times from each other that a message was parked: by the attempts
// before.
type parking int

const anyParking parking = -1

// unparkLocked removes a message from the parked ones. It keeps its keys, and
// those behind it stay there.
func (d *Dispatcher[M]) unparkLocked(id uint64, seen parking) (*task[M], error) {
	t := d.mu.parked[id]
	switch {
	case d.mu.closing:
		return nil, ErrClosed
	case t == nil:
		return nil, ErrNotParked
	case seen != anyParking && seen != parking(t.attempts):
		return nil, fmt.Errorf("%w as it was seen: it was resumed and has failed again: look again", ErrNotParked)
	}
	delete(d.mu.parked, id)
	return t, nil
}

// parkLocked closes the keys of a message that failed.
func (d *Dispatcher[M]) parkLocked(t *task[M], worker int) {
	t.state = StateParked
	d.mu.parked[t.id] = t
	d.emitLocked(Parked, t, worker, t.err)
	t.more().since = time.Now()
	d.closeLocked(t)
}
