package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering"
)

var (
	_ view.Operated = (*Outbox)(nil)
	_ view.Opener   = (*Outbox)(nil)
)

// View implements [view.Source]: what package inspect shows of the outbox. It reads the
// database, as Stats, Parked and Decisions do.
func (o *Outbox) View(ctx context.Context, q view.Query) (view.View, error) {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	stats, err := o.Stats(ctx)
	if err != nil {
		return view.View{}, err
	}
	v := view.View{Kind: "outbox", Waits: stats.Unsent - stats.Parked, Counts: []view.Count{
		{Name: "unsent", Value: stats.Unsent}, {Name: "parked", Value: stats.Parked}, {Name: "age of the oldest, seconds", Value: int64(stats.Oldest.Seconds())},
	}}
	if err := o.db.QueryRowContext(ctx, `SELECT coalesce(max(sent), 0) FROM outbox_events WHERE NOT kept AND sent IS NOT NULL`).Scan(&v.Moved); err != nil {
		return view.View{}, fmt.Errorf("outbox: %w", err)
	}
	if stats.Parked > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d events are parked: an operator must decide", stats.Parked))
	}
	if q.Brief {
		return v, nil
	}
	parked := view.Table{Name: "Parked events", Columns: []string{"Event", "Numbers", "Attempts", "Error", "Since (UTC)"}}
	list, err := o.Parked(ctx)
	if err != nil {
		return view.View{}, err
	}
	for _, p := range list {
		if len(parked.Rows) == q.Limit {
			parked.Hidden++
			continue
		}
		parked.Rows = append(parked.Rows, view.Row{
			Cells:  []string{p.Event, ordering.FormatSequenceID(p.Positions), fmt.Sprint(p.Attempts), p.Error, p.Since.UTC().Format(time.DateTime)},
			Target: p.Event, Actions: []string{view.Resume, view.Skip, view.Drop}, Opens: true,
		})
	}
	decided := view.Table{Name: "Decided by operators", Columns: []string{"Event", "Number", "Who", "Why", "Error", "When (UTC)"}}
	decisions, err := o.Decisions(ctx, time.Now().Add(time.Hour), fewDecisions)
	if err != nil {
		return view.View{}, err
	}
	for _, d := range decisions {
		decided.Rows = append(decided.Rows, view.Row{Cells: []string{d.Event, d.Position.String(), d.Operator, d.Why, d.Error, d.At.UTC().Format(time.DateTime)}})
	}
	v.Tables = []view.Table{parked, decided}
	return v, nil
}

// fewDecisions bounds the decisions that are shown.
const fewDecisions = 20

// Payloads implements [view.Opener]; the target is the ID of an event. The error wraps
// [ErrNotParked] if it is not parked any more.
func (o *Outbox) Payloads(ctx context.Context, target string) ([]view.Payload, error) {
	var id int64
	var kind string
	var body []byte
	err := o.db.QueryRowContext(ctx, `SELECT e.id, `+typeOf+`, e.body FROM outbox_parked k JOIN outbox_events e ON e.id = k.event AND e.sent IS NULL
		WHERE e.name = $1`, target).Scan(&id, &kind, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("outbox: event %.80q: %w", target, ErrNotParked)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: read event %.80q: %w", target, err)
	}
	e, err := decode(id, target, kind, body)
	if err != nil {
		return nil, err
	}
	return []view.Payload{{Name: target, Message: e}}, nil
}

// Act implements [view.Operated] with Resume, Skip and Drop; the target is the ID of an
// event.
func (o *Outbox) Act(ctx context.Context, a view.Action) error {
	switch a.Name {
	case view.Resume:
		return o.Resume(ctx, a.Target)
	case view.Skip:
		return o.Skip(ctx, a.Target)
	case view.Drop:
		return o.Drop(ctx, a.Target)
	}
	return fmt.Errorf("%w: %.80q: use resume, skip or drop", view.ErrAction, a.Name)
}
