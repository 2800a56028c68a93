package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// missing returns an error if active runs have a definition that is not registered, and
// cannot be upgraded.
func (c *Coordinator) missing(ctx context.Context) error {
	found, err := c.cfg.Store.DB().QueryContext(ctx, `SELECT definition, def_version, count(*) FROM saga_runs
		WHERE coordinator = $1 AND ended = 0 GROUP BY definition, def_version ORDER BY definition, def_version`, c.cfg.Name)
	if err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	defer found.Close()
	var list []Missing
	for found.Next() {
		var m Missing
		if err := found.Scan(&m.Definition, &m.Version, &m.Runs); err != nil {
			return fmt.Errorf("saga: %w", err)
		}
		if c.definitions[pin{m.Definition, m.Version}] == nil && !c.upgrades(m.Definition, m.Version) {
			list = append(list, m)
		}
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("saga: %w", err)
	}
	if list != nil {
		return &MissingError{list}
	}
	return nil
}

// upgrades reports whether runs of a version can be upgraded.
func (c *Coordinator) upgrades(name string, version int) bool {
	d := c.newest[name]
	return d != nil && d.upgrade != nil && version < d.version
}

// started reports whether there are runs that were not taken up. It only reads.
func (c *Coordinator) started(ctx context.Context) (yes bool, err error) {
	if c.doubt.Load() {
		return true, nil
	}
	err = c.cfg.Store.DB().QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM saga_runs WHERE coordinator = $1 AND ended = 0 AND term < $2)`,
		c.cfg.Name, c.term.Info().Number).Scan(&yes)
	return yes, err
}

// takenBefore, as the most runs of takeUp, is for those that were taken up in earlier terms.
const takenBefore = -1 // which no MaxRuns is

// takeUp takes up runs that no coordinator has in this term: that with an ID, if it is not
// ""; or, when the term begins, all that were taken up before it; or as many that nobody
// has ever taken up as there is room for below most. It does not replay anything: the rows
// say what the runs are.
//
// Those that have begun held what they keep at the same time, so none of them waits for
// another, and they are submitted before any that has not: so they have it again before
// anybody else.
func (c *Coordinator) takeUp(ctx context.Context, most int, id string) error {
	select {
	case c.taking <- struct{}{}:
		defer func() { <-c.taking }()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	room := max(most-len(c.mu.runs), 0)
	c.mu.more = true // until fewer are found than there is room for, each run that ends asks again
	c.mu.Unlock()
	// There may be many that nobody has taken up, and this comes again with each run that
	// ends: so the index must have them in order.
	first := `seq IN (SELECT seq FROM saga_runs WHERE coordinator = $1 AND ended = 0 AND term = 0 ORDER BY seq LIMIT $3)`
	which, last := `term = 0 AND `+first, any(room)
	switch {
	case id != "":
		which, last = `term <= $2 AND id = $3`, id
	case most == takenBefore:
		which, last = `term > 0 AND term < $2 AND seq <= $3`, int64(math.MaxInt64)
	case c.doubt.Load():
		which = `term <= $2 AND (term > 0 OR ` + first + `)`
	}
	var found []*row
	err := c.cfg.Store.WriteIn(ctx, c.term, func(ctx context.Context, tx *sql.Tx) (err error) {
		found, err = rows(ctx, tx, `UPDATE saga_runs SET term = $2 WHERE coordinator = $1 AND ended = 0 AND `+which+` RETURNING `+rowColumns,
			c.cfg.Name, c.term.Info().Number, last)
		return err
	})
	if id == "" || err != nil {
		c.doubt.Store(err != nil)
	}
	c.noteFenced(err)
	if err != nil {
		return fmt.Errorf("saga: take up runs: %w", err)
	}
	if id == "" && most != takenBefore && len(found) < room {
		c.mu.Lock()
		c.mu.more = false // what is started from now on is notified
		c.mu.Unlock()
	}
	found = slices.DeleteFunc(found, func(r *row) bool { return c.get(r.id) != nil })
	slices.SortFunc(found, func(a, b *row) int {
		begun := func(r *row) int { return cmp.Compare(boolean(r.rec.Status == Waiting), 0) }
		return cmp.Or(begun(a)-begun(b), cmp.Compare(a.seq, b.seq), cmp.Compare(a.id, b.id))
	})
	var problems []error
	runs := make([]*active, 0, len(found))
	for _, r := range found {
		a, err := c.activate(ctx, r)
		c.noteLeft(r.id, err)
		if err != nil {
			problems = append(problems, fmt.Errorf("saga: run %.80q: %w", r.id, err))
			continue
		}
		runs = append(runs, a)
	}
	for _, a := range runs {
		c.submit(a.held.message)
	}
	for _, a := range runs { // steps that are under way have their keys before others too
		if a.lock(c.open) != nil {
			break
		}
		if a.row.rec.Status != Waiting {
			c.goOn(a)
		}
		a.unlock()
	}
	return errors.Join(problems...)
}

// noteLeft keeps the ID of a run that this term has taken up, and that could not be made
// active: no other statement finds it again.
func (c *Coordinator) noteLeft(id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		delete(c.mu.left, id)
	} else {
		c.mu.left[id] = true
	}
}

// leftAtATime bounds the runs that are tried again at a time.
const leftAtATime = 16

// takeUpLeft tries again to make runs active that could not be.
func (c *Coordinator) takeUpLeft() {
	c.mu.Lock()
	some := slices.Collect(maps.Keys(c.mu.left))
	c.mu.Unlock()
	for _, id := range some[:min(len(some), leftAtATime)] {
		if err := c.takeUp(c.open, 0, id); err != nil && c.open.Err() == nil {
			c.warn("saga: a run cannot be taken up yet", "saga", id, "err", err)
		}
	}
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// activate makes a row that was taken up an active run.
func (c *Coordinator) activate(ctx context.Context, r *row) (*active, error) {
	d := c.definitions[pin{r.definition, r.defVersion}]
	if d == nil {
		var err error
		if d, err = c.upgrade(ctx, r); err != nil {
			return nil, err
		}
	}
	if !slices.EqualFunc(r.rec.Steps, d.steps, func(has stepRecord, s *step) bool { return has.Name == s.name }) {
		return nil, fmt.Errorf("its steps are not those of %v: a released version must not be changed, make a new one", d)
	}
	suspects, err := c.suspect(ctx, r)
	if err != nil {
		return nil, err
	}
	a := newActive(c, d, r)
	a.suspects = suspects
	c.mu.Lock()
	c.mu.runs[r.id] = a
	c.mu.Unlock()
	a.watchDeadline()
	return a, nil
}

// upgrade converts a run to the newest version of its definition.
func (c *Coordinator) upgrade(ctx context.Context, r *row) (*definition, error) {
	if !c.upgrades(r.definition, r.defVersion) {
		return nil, &MissingError{[]Missing{{r.definition, r.defVersion, 1}}}
	}
	d := c.newest[r.definition]
	next := r.clone()
	var err error
	if next.state, err = d.upgrade(r.defVersion, r.state); err != nil {
		return nil, fmt.Errorf("upgrade to %v: %w", d, err)
	}
	next.rec.Steps = newRecord(d).Steps
	for _, s := range r.rec.Steps {
		i := d.find(s.Name)
		switch {
		case i >= 0:
			s.Failed = 0 // the new version has attempts of its own
			next.rec.Steps[i] = s
		case s.Status != Pending:
			return nil, fmt.Errorf("upgrade to %v: it has no step %q, which the run has begun", d, s.Name)
		}
	}
	next.defVersion = d.version
	entries := next.happened([]change{{kind: SagaUpgraded, step: -1, err: fmt.Sprintf("from version %d", r.defVersion)}}, "", "", now())
	err = c.cfg.Store.WriteIn(ctx, c.term, func(ctx context.Context, tx *sql.Tx) error { return c.write(ctx, tx, next, r.version, entries) })
	if err != nil {
		return nil, fmt.Errorf("upgrade to %v: %w", d, err)
	}
	*r = *next
	return d, nil
}

// get returns a run that was taken up, or nil.
func (c *Coordinator) get(id string) *active {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.runs[id]
}

// find returns the active run with an ID, and takes it up if that has not happened yet.
func (c *Coordinator) find(ctx context.Context, id string) (*active, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	for range 2 {
		if a := c.get(id); a != nil {
			return a, nil
		}
		if err := c.takeUp(ctx, 0, id); err != nil {
			return nil, err
		}
	}
	r, err := c.read(ctx, id)
	if err != nil {
		return nil, err
	}
	if r.rec.Status.Ended() {
		return nil, &EndedError{r.rec.Status}
	}
	return nil, fmt.Errorf("saga: run %.80q was not taken up: the log says why", id)
}
