package saga

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var (
	_ view.Operated = (*Coordinator)(nil)
	_ view.Source   = Reader{}
)

// Actions for a run that does not come on, besides those of package view.
const (
	actRetry = "retry" // at once, instead of after the back-off
	actUndo  = "undo"  // what was done
)

// quiet is for how long nothing has to happen to a run, for it to be listed.
const quiet = 5 * time.Minute

// View implements [view.Source]: what package inspect shows of the coordinator. Its
// messages are runs, which are held as long as they last, and steps. Tables list the runs
// that do not come on, and what operators have decided. It reads the database.
func (c *Coordinator) View(ctx context.Context, q view.Query) (view.View, error) {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	v, err := c.d.View(ctx, q)
	if err != nil {
		return v, err
	}
	for i := range v.Messages {
		v.Messages[i].Payload, v.Messages[i].Most = nil, 0
	}
	v.Kind, v.Problems = "saga", nil
	if err := c.Err(); err != nil {
		v.Stopped, v.Problems = true, append(v.Problems, err.Error())
	}
	if q.Brief {
		return v, nil
	}
	stored, err := c.Reader.View(ctx, q)
	if err != nil {
		v.Problems = append(v.Problems, fmt.Sprintf("the database cannot be read: %v", err))
		return v, nil
	}
	v.Problems = append(v.Problems, stored.Problems...)
	v.Tables = append(v.Tables, stored.Tables...)
	return v, nil
}

// View implements [view.Source]: tables list the runs that do not come on, and what operators
// have decided.
func (c Reader) View(ctx context.Context, q view.Query) (v view.View, err error) {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	v.Kind = "saga"
	stuck, err := c.Stuck(ctx, quiet)
	if err != nil {
		return v, err
	}
	table, parked := view.Table{Name: "Runs that do not come on", Columns: []string{"Run", "Saga", "Status", "Step", "Error", "Keeps", "Last change (UTC)"}}, 0
	for _, r := range stuck {
		if r.Status == Parked {
			parked++
		}
		if len(table.Rows) == q.Limit {
			table.Hidden++
			continue
		}
		table.Rows = append(table.Rows, rowOf(r))
	}
	if parked > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d runs are parked: an operator must decide", parked))
	}
	if n := len(stuck) - parked; n > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d runs fail, or nothing has happened to them for %v", n, quiet))
	}
	v.Tables = append(v.Tables, table)
	decided := view.Table{Name: "Decided by operators", Columns: []string{"Run", "What", "Who", "Why", "When (UTC)"}}
	decisions, err := c.Decisions(ctx, time.Now().Add(time.Hour), fewDecisions)
	if err != nil {
		return v, err
	}
	for _, d := range decisions {
		decided.Rows = append(decided.Rows, view.Row{Cells: []string{d.Saga, d.Type, d.Operator, d.Why, d.Time.UTC().Format(time.DateTime)}})
	}
	v.Tables = append(v.Tables, decided)
	return v, nil
}

// fewDecisions bounds the decisions that are shown.
const fewDecisions = 20

func rowOf(r Run) view.Row {
	step, failed := "", ""
	for _, s := range r.Steps {
		if s.Failed > 0 || s.Parked {
			step, failed = fmt.Sprintf("%s (%s, %d failed)", s.Name, s.Status, s.Failed), s.Error
		}
	}
	kept := make([]string, len(r.Kept))
	for i, k := range r.Kept {
		kept[i] = k.String()
	}
	row := view.Row{
		Cells: []string{r.ID, fmt.Sprintf("%s v%d", r.Definition, r.Version), r.Status.String(), step, failed,
			strings.Join(kept, ", "), r.Changed.UTC().Format(time.DateTime)},
		Target: r.Target(), Actions: []string{actRetry, actUndo},
	}
	if r.Status == Parked {
		row.Actions = []string{view.Resume, view.Skip, view.Drop, actUndo}
	}
	return row
}

// Target names the run as it was when it was read, by its ID and the time of its last change,
// for [Coordinator.Act].
func (r Run) Target() string { return fmt.Sprintf("%s @%d", r.ID, toMicros(r.Changed)) }

// Act implements [view.Operated] with Resume, Skip, Drop, "retry" and "undo". The target is
// that of a row of the View, see [Run.Target]. If something has happened to the run since, nothing is done,
// and the error wraps [ErrNotParked]: another step is not skipped in place of the one that an
// operator has seen. Only "retry" is about the run as it is by then.
func (c *Coordinator) Act(ctx context.Context, a view.Action) error {
	at := strings.LastIndex(a.Target, " @")
	if at < 0 {
		return fmt.Errorf("%w: %.80q is no run as it was seen", view.ErrAction, a.Target)
	}
	changed, err := strconv.ParseInt(a.Target[at+2:], 10, 64)
	if err != nil {
		return fmt.Errorf("%w: %.80q is no run as it was seen", view.ErrAction, a.Target)
	}
	id, seen := a.Target[:at], fromMicros(changed)
	switch a.Name {
	case view.Resume:
		return c.operate(ctx, "resumed", id, input{kind: resume}, seen)
	case view.Skip:
		return c.operate(ctx, "skipped", id, input{kind: skip}, seen)
	case view.Drop:
		return c.operate(ctx, "dropped", id, input{kind: drop}, seen)
	case actUndo:
		return c.operate(ctx, "turned back", id, input{kind: undo, err: "turned back by an operator"}, seen)
	case actRetry:
		return c.Retry(ctx, id) // which repeats what is going to be done anyway
	}
	return fmt.Errorf("%w: %.80q: use resume, skip, drop, retry or undo", view.ErrAction, a.Name)
}
