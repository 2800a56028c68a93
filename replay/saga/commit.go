package saga

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// commitment is a change of a run that is to be made durable.
type commitment struct {
	in      input
	who     string // the operator, and the reason
	why     string
	seen    time.Time     // if not zero: nothing has happened to the run since
	limit   time.Duration // of the transaction; 0 for none of its own
	patient bool          // errors of the store are waited out
	// change, if set, writes what belongs to it, and returns the state afterwards. With
	// the error Wait the step awaits a reply; any other one undoes all.
	change func(ctx context.Context, tx *sql.Tx, state []byte) ([]byte, error)
}

// commit changes a run, which is locked, and makes the change durable in one
// transaction with its events and with what else belongs to it, in the coordinator's
// term. Then what is due now is begun.
//
// The row has the version that the run was known to have: if not, a commit whose answer
// was lost has been carried out after all. Then the run is read anew, and the error is
// errChanged. Errors of the store are waited out; they are no attempts. Any other error
// is one of the input, or of change.
func (c *Coordinator) commit(ctx context.Context, a *active, m commitment) error {
	probe := a.row.rec.clone()
	changes, err := a.def.plan.apply(&probe, m.in)
	if err != nil || len(changes) == 0 && m.change == nil {
		return err
	}
	for failed := 1; ; failed++ {
		next, err := c.try(ctx, a, m)
		switch {
		case err == nil:
			c.adopt(a, next)
			return nil
		case errors.Is(err, errStale):
			err = c.reread(ctx, a)
			if err == nil {
				return errChanged
			}
		case c.noteFenced(err) || !isStoreError(err):
			return err
		}
		if !m.patient || ctx.Err() != nil {
			return err
		}
		c.warn("saga: the store has failed; the run waits for it", "saga", a.row.id, "err", err)
		if !c.pause(ctx, failed) {
			return err
		}
	}
}

// storeFailure is an error that is no attempt of a step, although it comes from within
// its transaction.
type storeFailure struct{ error }

func (e storeFailure) Unwrap() error { return e.error }

func isStoreError(err error) bool {
	return errors.As(err, new(*ordering.StoreError)) || errors.As(err, new(storeFailure))
}

// try is commit without waiting for the store.
func (c *Coordinator) try(ctx context.Context, a *active, m commitment) (next *row, err error) {
	if m.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.limit)
		defer cancel()
	}
	called := false
	err = c.cfg.Store.WriteIn(ctx, c.term, func(ctx context.Context, tx *sql.Tx) error {
		if !m.seen.IsZero() && toMicros(a.row.changed) != toMicros(m.seen) {
			return fmt.Errorf("%w, as it was at %v: look again", ErrNotParked, m.seen)
		}
		n, in := a.row.clone(), m.in
		if m.change != nil {
			called = true
			state, err := m.change(ctx, tx, n.state)
			if isWait(err) {
				in.kind = awaits
			} else if err != nil {
				return err
			}
			n.state = state
		}
		if a.isLate() {
			in.late = a.overdue()
		}
		at := now()
		in.at = toMicros(at)
		changes, err := a.def.plan.apply(&n.rec, in)
		if err != nil {
			return err
		}
		if err := c.write(ctx, tx, n, a.row.version, n.happened(changes, m.who, m.why, at)); err != nil {
			return storeFailure{err}
		}
		next = n
		return nil
	})
	if isStoreError(err) && called && ctx.Err() != nil {
		return nil, fmt.Errorf("saga: the transaction took longer than %v: %w", m.limit, context.Cause(ctx)) // the attempt did, and not the store
	}
	return next, err
}

// happened gives numbers and a time to what has happened to the run, and returns it.
func (r *row) happened(changes []change, who, why string, at time.Time) (entries []Entry) {
	for _, h := range changes {
		r.version++
		e := Entry{N: r.version, Type: h.kind, Time: at, Error: text(h.err), Operator: text(who), Why: text(why)}
		if h.step >= 0 {
			e.Step = r.rec.Steps[h.step].Name
		}
		if h.kind == StepFailed || h.kind == CompensationFailed || h.kind == StepSuspected {
			e.Attempt = h.attempt
		}
		entries = append(entries, e)
	}
	r.changed = at
	switch {
	case r.rec.Status != Parked:
		r.parked = time.Time{}
	case r.parked.IsZero():
		r.parked = at
	}
	if r.rec.Status.Ended() {
		r.ended = at
	}
	return entries
}

// write writes a run and its new events.
func (c *Coordinator) write(ctx context.Context, tx *sql.Tx, r *row, expected int, entries []Entry) error {
	if err := update(ctx, tx, c.cfg.Name, r, expected, entries); err != nil {
		return err
	}
	for _, entry := range entries {
		e, err := entry.event(c.cfg.Name, r)
		if err == nil {
			err = c.record(ctx, tx, e)
		}
		if err != nil {
			return fmt.Errorf("saga: event %s of run %.80q: %w", entry.Type, r.id, err)
		}
	}
	return nil
}

// record calls Config.Record; a panic is its error.
func (c *Coordinator) record(ctx context.Context, tx *sql.Tx, e *ordering.Event) (err error) {
	defer contain.Recover(&err)
	return c.cfg.Record(ctx, tx, e)
}

// reread reads a run anew. If the store has lost events of it, the coordinator stops: calls
// may have been made that nobody knows of any more.
func (c *Coordinator) reread(ctx context.Context, a *active) error {
	r, err := c.read(ctx, a.row.id)
	if errors.Is(err, ErrNoRun) {
		r, err = &row{}, nil
	}
	if err != nil {
		return &ordering.StoreError{Op: "read a run", Err: err}
	}
	if r.version < a.row.version {
		stream, _ := lockkeys.New("saga", a.row.id) // which has no NUL byte
		err := &ordering.LostError{Stream: stream, Known: uint64(a.row.version), Has: uint64(r.version)}
		c.stop(err)
		return err
	}
	c.adopt(a, r)
	return nil
}

// tellDropped tells which replies that were kept are not taken any more, since the run has
// turned back. What a step has asked for is undone; but nobody else undoes what a reply
// reports to a step that has not begun.
func (c *Coordinator) tellDropped(before, after *row) {
	for i := range after.rec.Steps {
		was, is := &before.rec.Steps[i], &after.rec.Steps[i]
		if was.Early == nil || is.Replied != nil { // or it was taken
			continue
		}
		c.dropped.Add(1)
		c.cfg.Logger.Warn("saga: a reply that was kept is not taken, since the run has turned back", "saga", after.id, "step", is.Name, "begun", is.Status != Pending)
	}
}

// adopt makes a row that is durable that of the run.
func (c *Coordinator) adopt(a *active, next *row) {
	for i := range next.rec.Steps {
		if was, is := a.row.rec.Steps[i].Status, next.rec.Steps[i].Status; was == Pending && is == Started {
			a.fresh[i] = true
		}
	}
	if next.rec.direction() == Compensating && a.row.rec.direction() != Compensating {
		c.back.Add(1)
		c.tellDropped(a.row, next)
	}
	parked := next.rec.Status == Parked && a.row.rec.Status != Parked
	a.row = next
	if parked {
		for _, s := range next.rec.Steps {
			if s.Parked {
				c.cfg.Logger.Error("saga: a run is parked, with what it keeps, until Resume, Skip or Drop", "saga", next.id, "step", s.Name, "err", s.Error)
			}
		}
	}
	c.goOn(a)
}
