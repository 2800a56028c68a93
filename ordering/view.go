package ordering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// View implements [view.Source]: what package inspect shows of the sequencer. Its messages
// are the events that are submitted; tables list parkings, streams with a gap, the term,
// and what operators have decided. It reads the store; if that fails, it says so and shows
// the rest. Otherwise it costs what Snapshot and the View of the dispatcher cost.
func (s *Sequencer[T]) View(ctx context.Context, q view.Query) (view.View, error) {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	stats := s.Stats()
	v, err := s.dispatcher.View(ctx, q)
	if err != nil {
		return v, err
	}
	for i, m := range v.Messages {
		if job, ok := m.Payload.(Job[T]); ok {
			v.Messages[i].Payload = job.Event
		}
		v.Messages[i].Actions = nil // an event is parked with its streams
	}
	events := stats.Applied + stats.Duplicates + stats.Held + stats.DeadLettered + stats.Refused + stats.Failed
	v.Kind, v.Moved, v.Problems = "sequencer", v.Moved+events, nil
	v.Counts = append([]view.Count{
		{Name: "applied", Value: int64(stats.Applied)}, {Name: "duplicates", Value: int64(stats.Duplicates)},
		{Name: "held behind parked", Value: int64(stats.Held)}, {Name: "dead letters", Value: int64(stats.DeadLettered)},
		{Name: "refused", Value: int64(stats.Refused)}, {Name: "failed", Value: int64(stats.Failed)},
		{Name: "conflicts", Value: int64(stats.Conflicts)}, {Name: "unconfirmed duplicates", Value: int64(stats.Unconfirmed)},
		{Name: "early", Value: int64(stats.Early)},
		{Name: "open gaps", Value: int64(stats.OpenGaps)}, {Name: "replays", Value: int64(stats.Replays)},
		{Name: "streams in memory", Value: int64(stats.Streams)}, {Name: "store errors", Value: int64(stats.StoreErrors)},
	}, v.Counts...)
	if err := s.Err(); err != nil {
		v.Stopped, v.Problems = true, append(v.Problems, err.Error())
	}
	if stats.OpenGaps > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d streams wait for numbers that have not come", stats.OpenGaps))
	}
	if q.Brief {
		return v, nil
	}
	stored := viewStored(ctx, s.term, q, func(stream lockkeys.Key) bool {
		mine, err := s.owned(stream)
		return err != nil || len(mine) > 0
	})
	v.Problems = append(v.Problems, stored.Problems...)
	v.Tables = append(v.Tables, stored.Tables[0], s.gapTable(q), s.termTable())
	v.Tables = append(v.Tables, stored.Tables[1:]...)
	return v, nil
}

// ViewStored returns a view of what a store keeps for a consumer: parkings, and what
// operators have decided. It is what can be known without a sequencer, also when none works
// on the store. What cannot be read is among the problems.
func ViewStored(ctx context.Context, r Reader, q view.Query) view.View {
	return viewStored(ctx, r, q, func(lockkeys.Key) bool { return true })
}

func viewStored(ctx context.Context, r Reader, q view.Query, mine func(stream lockkeys.Key) bool) view.View {
	if q.Limit <= 0 {
		q.Limit = view.DefaultLimit
	}
	v := view.View{Kind: "consumer"}
	parked, err := parkedTable(ctx, r, q, mine)
	if err != nil {
		v.Problems = append(v.Problems, fmt.Sprintf("the store cannot be read: %v", err))
	} else if n := len(parked.Rows) + parked.Hidden; n > 0 {
		v.Problems = append(v.Problems, fmt.Sprintf("%d parkings: an operator must decide", n))
	}
	v.Tables = append(v.Tables, parked)
	if decided, err := decisionTable(ctx, r); err == nil {
		v.Tables = append(v.Tables, decided)
	}
	return v
}

// Act implements [view.Operated] with Resume, Skip and Drop. The target is that of a row of
// the View, see [Parking.Target]: the position from which on a stream is closed, and the
// parking. If it is not closed there and by that any more, nothing is done, and the error wraps [ErrNotParked]:
// another event is not given up in place of the one that an operator has seen, nor one that
// came in place of a number that was missing.
func (s *Sequencer[T]) Act(ctx context.Context, a view.Action) error {
	kinds := map[string]core.DecisionKind{view.Resume: core.Resume, view.Skip: core.SkipHead, view.Drop: core.Drop}
	kind, known := kinds[a.Name]
	if !known {
		return fmt.Errorf("%w: %.80q: use resume, skip or drop", view.ErrAction, a.Name)
	}
	at, parking, err := ParseTarget(a.Target)
	if err != nil {
		return err
	}
	return s.operate(ctx, &core.Decision{Kind: kind, Key: at.Stream, At: at.Place(), ID: parking})
}

// beforeID separates the position and the parking's ID in a target.
const beforeID = " @"

// Target names a parking as it was seen, for [Sequencer.Act]: its ID, and what its Origin is
// closed at. It is "" for a parking without streams.
func (p *Parking) Target() string {
	origin, ok := p.Origin()
	if !ok {
		return ""
	}
	return origin.Position().String() + beforeID + p.ID
}

// ParseTarget parses the target of an action on a parked stream, as [Sequencer.View] gives
// it: the position from which on the stream is closed, and the ID of the parking. The error
// wraps [view.ErrAction].
func ParseTarget(text string) (at Position, parking string, err error) {
	i := strings.LastIndex(text, beforeID)
	if i < 0 || i+len(beforeID) == len(text) {
		return at, "", fmt.Errorf("%w: %.200q names no parking: take the target from a list, as in \"client/42=7 @ID\"", view.ErrAction, text)
	}
	list, err := ParseSequenceID(text[:i], lockkeys.Root())
	if err == nil && len(list) != 1 {
		err = errors.New("it must be one")
	}
	if err != nil {
		return at, "", fmt.Errorf("%w: %.200q is no position: %w", view.ErrAction, text[:i], err)
	}
	return list[0], text[i+len(beforeID):], nil
}

// parkedTable lists the parkings of streams that conflict with the query's key, and are mine.
func parkedTable(ctx context.Context, r Reader, q view.Query, mine func(stream lockkeys.Key) bool) (view.Table, error) {
	t := view.Table{Name: "Parked streams", Columns: []string{"Streams, each closed from a number on", "Why", "Error", "Since (UTC)", "Wait behind"}}
	list, err := r.Parked(ctx)
	for _, p := range list {
		origin, has := p.Origin()
		if !p.touches(q.Key) || has && !mine(origin.Stream) {
			continue
		}
		if len(t.Rows) == q.Limit {
			t.Hidden++
			continue
		}
		var streams []string
		waiting := int64(0)
		for _, st := range p.Streams {
			text := st.String()
			if st.Bound != "" {
				text += " (bound by " + st.Bound + ")"
			}
			waiting += st.Waiting
			if st == origin { // what the actions are about comes first
				streams = slices.Insert(streams, 0, text)
			} else {
				streams = append(streams, text)
			}
		}
		why := p.Reason.String()
		for _, e := range p.Events {
			why += fmt.Sprintf(", %s after %d attempts", e.Name(), e.Attempts)
		}
		if p.Reason == Gap {
			why += fmt.Sprintf(", %v is missing", p.Gap)
		}
		row := view.Row{
			Cells:   []string{strings.Join(streams, ", "), why, p.Error, p.Since.UTC().Format(time.DateTime), fmt.Sprint(waiting)},
			Actions: []string{view.Resume, view.Skip, view.Drop},
		}
		if has {
			row.Target, row.Opens = p.Target(), len(p.Events) > 0
		}
		t.Rows = append(t.Rows, row)
	}
	return t, err
}

// touches reports whether a stream of the parking equals, contains or lies under a key.
func (p *Parking) touches(k lockkeys.Key) bool {
	for _, st := range p.Streams {
		if k.Contains(st.Stream) || st.Stream.Contains(k) {
			return true
		}
	}
	return len(p.Streams) == 0
}

// gapTable lists the streams that wait for a number.
func (s *Sequencer[T]) gapTable(q view.Query) view.Table {
	t := view.Table{Name: "Gaps", Columns: []string{"Next, which is missing", "Wait for it", "Since (UTC)"}}
	for _, st := range s.Snapshot(view.DefaultLimit * 100) {
		switch {
		case !st.Missing || st.Parking != "":
		case len(t.Rows) == q.Limit:
			t.Hidden++
		default:
			t.Rows = append(t.Rows, view.Row{Cells: []string{st.Next.String(), fmt.Sprint(st.Early), st.Since.UTC().Format(time.DateTime)}})
		}
	}
	return t
}

func (s *Sequencer[T]) termTable() view.Table {
	t := s.Term()
	return view.Table{
		Name: "Owner", Columns: []string{"Consumer", "Partition", "Holder", "Term", "Since (UTC)"},
		Rows: []view.Row{{Cells: []string{t.Name, fmt.Sprint(t.Partition), t.Holder, fmt.Sprint(t.Number), t.Since.UTC().Format(time.DateTime)}}},
	}
}

// fewDecisions bounds the decisions that are shown.
const fewDecisions = 20

func decisionTable(ctx context.Context, r Reader) (view.Table, error) {
	t := view.Table{Name: "Decided by operators", Columns: []string{"Event", "Numbers", "Status", "Who", "Why", "Error", "When (UTC)"}}
	list, err := r.Decisions(ctx, time.Now().Add(time.Hour), fewDecisions)
	for _, j := range list {
		t.Rows = append(t.Rows, view.Row{Cells: []string{
			j.Event, FormatSequenceID(j.Positions), j.Status.String(), j.By, j.Reason, j.Error, j.Ended.UTC().Format(time.DateTime)}})
	}
	return t, err
}
