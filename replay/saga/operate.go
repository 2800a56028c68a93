package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/sqldb"
)

// Cancel has a run compensated, for a reason. Attempts that are under way are canceled,
// and undone if they were done or may have been; contexts of compensations are not. It
// returns when that is durable, and not when it is done. For a run that is compensated
// already it does nothing. The error wraps [ErrPastPivot], [ErrNoRun] or an
// [*EndedError], or is that of ctx, of the store, or of [Coordinator.Err].
func (c *Coordinator) Cancel(ctx context.Context, id, reason string) error {
	return c.operate(ctx, "canceled", id, input{kind: canceled, err: "canceled: " + text(reason)}, time.Time{})
}

// Undo is Cancel by an operator, see [dispatcher.WithOperator], who may also turn back a
// run that is parked because its pivot has failed, and perhaps was done: by that the
// operator says that it was not. If the pivot has an Undo, that is called.
func (c *Coordinator) Undo(ctx context.Context, id string) error {
	return c.operate(ctx, "turned back", id, input{kind: undo, err: "turned back by an operator"}, time.Time{})
}

// Resume lets a parked run go on: what has failed is tried again, as often as at first.
// The error wraps [ErrNotParked], or is like that of [Coordinator.Cancel].
func (c *Coordinator) Resume(ctx context.Context, id string) error {
	return c.operate(ctx, "resumed", id, input{kind: resume}, time.Time{})
}

// Skip lets a parked run go on as if what has failed was done: the step counts as
// completed, or while the run is compensated, as undone. So it is for operators who
// have done that by hand. The errors are those of Resume.
//
// Resume, Skip, Drop and Undo decide about the run as it is by then: Skip called twice may
// skip a step that has failed since, which its caller has not seen. To decide about a run as
// it was seen, pass its [Run.Target] to [Coordinator.Act].
func (c *Coordinator) Skip(ctx context.Context, id string) error {
	return c.operate(ctx, "skipped", id, input{kind: skip}, time.Time{})
}

// Drop ends a parked run as it is: nothing more is done or undone, and its keys are
// released. Calls of other steps that are under way are canceled, and may have been done: what
// becomes of them is only logged. Its record and history stay. The errors are those of Resume.
func (c *Coordinator) Drop(ctx context.Context, id string) error {
	return c.operate(ctx, "dropped", id, input{kind: drop}, time.Time{})
}

// operate makes a decision about a run durable, with the operator in ctx: if seen is not
// zero, only if nothing has happened to the run since.
func (c *Coordinator) operate(ctx context.Context, did, id string, in input, seen time.Time) error {
	if err := c.decide(ctx, id, in, seen); err != nil {
		return fmt.Errorf("saga: run %.80q could not be %s: %w", id, did, err)
	}
	who, why := dispatcher.OperatorOf(ctx)
	c.cfg.Logger.Warn("saga: a run is "+did, "saga", id, "operator", who, "why", cmp.Or(why, in.err))
	return nil
}

func (c *Coordinator) decide(ctx context.Context, id string, in input, seen time.Time) error {
	a, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	m := commitment{in: in, seen: seen}
	m.who, m.why = dispatcher.OperatorOf(ctx)
	for {
		if err := c.Err(); err != nil {
			return err
		}
		if err := c.commit(ctx, a, m); err != errChanged {
			return err
		}
	}
}

// expire has a run compensated whose time is over.
func (c *Coordinator) expire(a *active) {
	if a.lock(c.open) != nil {
		return
	}
	defer a.unlock()
	m := commitment{in: input{kind: expired, err: a.overdue()}, patient: true}
	for c.open.Err() == nil {
		if err := c.commit(c.open, a, m); err != errChanged {
			if err != nil && !errors.As(err, new(*EndedError)) && c.open.Err() == nil {
				c.cfg.Logger.Error("saga: a run whose time is over cannot be compensated", "saga", a.row.id, "err", err)
			}
			return
		}
	}
}

// Retry has the next attempt of a run's steps made at once, instead of after its
// back-off. The error wraps [ErrNotStuck], or is like that of [Coordinator.Cancel].
func (c *Coordinator) Retry(ctx context.Context, id string) error {
	if err := c.retry(ctx, id); err != nil {
		return fmt.Errorf("saga: run %.80q could not be tried again: %w", id, err)
	}
	who, why := dispatcher.OperatorOf(ctx)
	c.cfg.Logger.Info("saga: a run is tried again at once", "saga", id, "operator", who, "why", why)
	return nil
}

func (c *Coordinator) retry(ctx context.Context, id string) error {
	a, err := c.find(ctx, id)
	if err != nil {
		return err
	}
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	found := false
	for i, l := range a.live {
		task := a.def.plan.due(&a.row.rec, i)
		if (task == act || task == takeBack) && time.Until(l.notBefore) > 0 {
			found = true
			l.notBefore = time.Time{}
			l.wake()
		}
	}
	if !found {
		return ErrNotStuck
	}
	return nil
}

// prunedAtATime bounds the histories that one statement deletes.
const prunedAtATime = 500

// Prune deletes the runs that have ended before a time, with their histories, and returns
// how many. Their IDs can be used again after that, once nobody else remembers them: calls
// and events of the new run have the keys and IDs that those of the old one had, and a
// participant that knows them does nothing.
func (c *Coordinator) Prune(ctx context.Context, before time.Time) (runs int64, err error) {
	err = c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		// In this order, since others may end meanwhile: a history without its run would be in
		// the way of the next one with its ID.
		ids, err := deleteEnded(ctx, tx, c.cfg.Name, before)
		if err != nil {
			return err
		}
		runs = int64(len(ids))
		for some := range slices.Chunk(ids, prunedAtATime) {
			_, err := tx.ExecContext(ctx, sqldb.Repeat(c.cfg.Store.Dialect(), 1, `DELETE FROM saga_history WHERE coordinator = ? AND id IN (?`+strings.Repeat(", ?", len(some)-1)+`)`),
				append([]any{c.cfg.Name}, some...)...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("saga: prune: %w", err)
	}
	return runs, nil
}

// deleteEnded deletes the runs that have ended before a time, without their histories, and
// returns their IDs.
func deleteEnded(ctx context.Context, tx *sql.Tx, coordinator string, before time.Time) (ids []any, err error) {
	found, err := tx.QueryContext(ctx, `DELETE FROM saga_runs WHERE coordinator = $1 AND ended > 0 AND ended < $2 RETURNING id`, coordinator, toMicros(before))
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id string
		if err := found.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, found.Err()
}
