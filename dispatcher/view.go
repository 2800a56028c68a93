package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

// View implements [view.Source]: what package inspect shows of the dispatcher. Under the
// mutex, its cost is linear in the messages that hold keys and in the limit of the query;
// with an ID or a key it visits all messages that hold or wait for keys.
//
// Messages with an ID come with the number of those behind them, and so do parked ones.
func (d *Dispatcher[M]) View(_ context.Context, q view.Query) (view.View, error) {
	stats := d.Stats()
	v := view.View{
		Kind: "dispatcher", Stopped: d.Err() != nil,
		Waits: int64(stats.Queued + stats.Waiting + stats.Ready),
		Moved: stats.Started + stats.Succeeded + stats.Failed,
		Counts: []view.Count{
			{Name: "running", Value: int64(stats.Running)}, {Name: "ready", Value: int64(stats.Ready)},
			{Name: "waiting", Value: int64(stats.Waiting)}, {Name: "queued", Value: int64(stats.Queued)},
			{Name: "backoff", Value: int64(stats.Backoff)}, {Name: "held", Value: int64(stats.Held)},
			{Name: "parked", Value: int64(stats.Parked)}, {Name: "behind parked", Value: int64(stats.Behind)},
			{Name: "workers", Value: int64(d.cfg.Workers)},
			{Name: "accepted", Value: int64(stats.Accepted)}, {Name: "succeeded", Value: int64(stats.Succeeded)},
			{Name: "failed", Value: int64(stats.Failed)}, {Name: "retried", Value: int64(stats.Retried)},
			{Name: "refused", Value: int64(stats.Refused)},
		},
	}
	if err := d.Err(); err != nil {
		v.Problems = append(v.Problems, err.Error())
	}
	if stats.Parked > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d parked: an operator must decide; %d wait behind", stats.Parked, stats.Behind))
	}
	if q.Brief {
		return v, nil
	}
	list, hidden := d.look(q)
	v.Hidden = hidden
	v.Messages = make([]view.Message, len(list))
	for i, l := range list {
		v.Messages[i] = d.viewOf(l.MessageInfo, l.behind)
	}
	return v, nil
}

// target names a parked message for Act: with the time when the dispatcher was made, since
// the next one, after a restart, gives its messages the same IDs; and with its attempts,
// since an operator who has seen one failure has decided nothing about the next.
func (d *Dispatcher[M]) target(id uint64, seen parking) string {
	return fmt.Sprintf("%d/%d/%d", d.made.UnixNano(), id, seen)
}

// Act implements [view.Operated] with Resume, Skip and Drop. The target is that of a
// message in a View of this dispatcher; the error wraps [ErrNotParked] for one of another,
// as before a restart, and for one that was resumed since and is parked again.
func (d *Dispatcher[M]) Act(ctx context.Context, a view.Action) error {
	var (
		made int64
		id   uint64
		seen parking
	)
	if _, err := fmt.Sscanf(a.Target, "%d/%d/%d", &made, &id, &seen); err != nil || seen < 0 {
		return fmt.Errorf("%w: %.80q is no message", view.ErrAction, a.Target)
	}
	if a.Target != d.target(id, seen) {
		return fmt.Errorf("%w: it was one of an earlier process: look again", ErrNotParked)
	}
	switch a.Name {
	case view.Resume:
		return d.resume(ctx, id, seen)
	case view.Skip:
		return d.giveUp(ctx, id, seen, false)
	case view.Drop:
		return d.giveUp(ctx, id, seen, true)
	}
	return fmt.Errorf("%w: %.80q: use resume, skip or drop", view.ErrAction, a.Name)
}

// looked is a message with the number of those behind it, or -1 if it is not known.
type looked[M any] struct {
	MessageInfo[M]
	behind int
}

// look returns the messages that a query asks for, in the order of arrival, and how many
// more there are.
func (d *Dispatcher[M]) look(q view.Query) (list []looked[M], hidden int) {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.ID != 0 {
		return d.chainLocked(q.ID), 0
	}
	var claim *lockkeys.Claim
	if !q.Key.IsRoot() {
		claim = new(lockkeys.Claim)
		claim.Exclusive(q.Key)
	}
	room := q.Limit
	for t, worker := range d.consideredLocked() {
		if claim != nil && !t.claim.Conflicts(claim) {
			continue
		}
		if t.state == StateWaiting || t.state == StateParked {
			if room == 0 {
				if claim == nil {
					break
				}
				hidden++
				continue
			}
			room--
		}
		list = append(list, looked[M]{d.infoLocked(t, worker), -1})
	}
	if claim == nil {
		listed := q.Limit - room
		hidden = d.mu.waiting.len + d.mu.aside.len + d.mu.beyond.len - listed
	}
	for i := range list {
		if t := d.mu.parked[list[i].ID]; t != nil {
			list[i].behind = d.behindLocked(t)
		}
	}
	slices.SortFunc(list, func(a, b looked[M]) int { return cmp.Compare(a.ID, b.ID) })
	return list, hidden
}

// chainLocked returns the message with an ID and those that it waits for, directly or not:
// of several, one for each. It returns nil if there is no such message.
func (d *Dispatcher[M]) chainLocked(id uint64) (chain []looked[M]) {
	for t, worker := range d.consideredLocked() {
		if t.id != id {
			continue
		}
		for t != nil {
			chain = append(chain, looked[M]{d.infoLocked(t, worker), d.behindLocked(t)})
			blocked := t.state == StateWaiting
			t, worker = nil, -1
			if last := chain[len(chain)-1]; blocked && last.Blocker != 0 {
				t, worker = d.findLocked(last.Blocker)
			}
		}
		break
	}
	slices.Reverse(chain)
	return chain
}

// findLocked returns a message and its worker, or -1; nil if it was not considered, or has
// ended.
func (d *Dispatcher[M]) findLocked(id uint64) (*task[M], int) {
	for t, worker := range d.consideredLocked() {
		if t.id == id {
			return t, worker
		}
	}
	return nil, -1
}

// behindLocked returns the number of considered messages that arrived later and conflict
// with t.
func (d *Dispatcher[M]) behindLocked(t *task[M]) int {
	behind := map[*task[M]]struct{}{}
	for _, set := range []*lockkeys.Set[*task[M]]{&d.mu.set, &d.mu.closed} {
		for _, place := range set.Conflicting(&t.claim, nil) {
			if q := place.Owner; q.state == StateWaiting && q.id > t.id {
				behind[q] = struct{}{}
			}
		}
	}
	return len(behind)
}

func (d *Dispatcher[M]) viewOf(m MessageInfo[M], behind int) view.Message {
	v := view.Message{
		ID: m.ID, Name: d.name(m.Message), State: m.State.String(), Attempts: m.Attempts, Most: d.cfg.MaxAttempts, Worker: m.Worker,
		Since: m.Since, Next: m.Next, Blocker: m.Blocker, Blocks: requestOf(m.BlockedBy), Behind: max(behind, 0), Stalled: m.Stalled, Payload: m.Message,
	}
	if m.Err != nil {
		var last *HandlerError // it repeats what the view has
		if errors.As(m.Err, &last) {
			m.Err = last.Err
		}
		v.Err = m.Err.Error()
	}
	for _, r := range m.Claim {
		v.Claim = append(v.Claim, requestOf(r))
	}
	if m.State == StateParked {
		v.Target, v.Actions = d.target(m.ID, parking(m.Attempts)), []string{view.Resume, view.Skip, view.Drop}
	}
	return v
}

func requestOf(r lockkeys.Request) view.Request {
	return view.Request{Key: r.Key, Mode: r.Mode.String()}
}
