package saga

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// besides is how many attempts of a step may end with the process, of those that are
// counted, until it is attempted alone. The last one is always alone.
const besides = 2

// suspect finds the steps of a run that may have ended the process: they were under way,
// and the term before did not end in good order. If it did, what was counted before does
// not matter any more.
func (c *Coordinator) suspect(ctx context.Context, r *row) (suspects map[int]bool, err error) {
	suspects = map[int]bool{}
	counted := false
	for i := range r.rec.Steps {
		s := &r.rec.Steps[i]
		suspects[i] = c.unclean && (s.Status == Started || s.Status == Undoing)
		if !c.unclean && s.Crashes > 0 {
			s.Crashes, counted = 0, true
		}
	}
	if !counted {
		return suspects, nil
	}
	return suspects, c.cfg.Store.WriteIn(ctx, c.term, func(ctx context.Context, tx *sql.Tx) error { return c.write(ctx, tx, r, r.version, nil) })
}

// mark counts an attempt at a step that may end the process, durably, before it begins:
// what is left of the count are attempts that the process has not survived. It reports
// whether the attempt may begin; then unmark ends it. If not, it returns what to wait for:
// there were too many, and the run is parked; or the attempt is to be alone among those of
// its kind, and it is not its turn.
func (c *Coordinator) mark(ctx context.Context, l *live) (wait time.Duration, may bool) {
	if !l.suspect {
		return 0, true
	}
	a, s := l.run, &l.run.row.rec.Steps[l.step]
	crashes := s.Crashes
	if l.marked { // by an attempt that has ended, which could not be recorded
		crashes--
	}
	if crashes >= c.cfg.MaxCrashes {
		in := input{kind: killed, step: l.step, err: fmt.Sprintf("the process has ended, without a word, in each of the last %d attempts that were counted: "+
			"look at what the step does to it; Resume has it attempted again", crashes)}
		return c.note(ctx, l, in), false
	}
	if crashes >= min(besides, c.cfg.MaxCrashes-1) {
		if !c.alone.enter(l) {
			return 0, false
		}
		l.alone = true
	}
	if !l.marked {
		wait := c.note(ctx, l, input{kind: begins, step: l.step})
		if !l.marked {
			c.unmark(l)
			return wait, false
		}
		c.warn("saga: a step may have ended the process; it is attempted again", "saga", a.row.id, "step", s.Name, "ended", crashes, "most", c.cfg.MaxCrashes)
	}
	return 0, true
}

// note makes it durable that a step is suspected.
func (c *Coordinator) note(ctx context.Context, l *live, in input) (wait time.Duration) {
	err := c.commit(ctx, l.run, commitment{in: in, patient: true})
	switch {
	case err == nil:
		l.marked = in.kind == begins
	case err != errChanged && c.open.Err() == nil:
		c.cfg.Logger.Error("saga: it cannot be recorded that a step may have ended the process", "saga", l.run.row.id, "step", l.run.def.steps[l.step].name, "err", err)
		return c.later(l, 1)
	}
	return goesOn
}

// unmark gives the turn of an attempt to the next one.
func (c *Coordinator) unmark(l *live) {
	if l.alone {
		l.alone = false
		c.alone.leave(l, true)
	}
}
