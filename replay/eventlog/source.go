package eventlog

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Operated = (*Subscription)(nil)

// View implements [view.Source]: what package inspect shows of the subscription: that of
// its sequencer, and how far it has come in each partition.
func (s *Subscription) View(ctx context.Context, q view.Query) (view.View, error) {
	v, err := s.sequencer.View(ctx, q)
	if err != nil {
		return v, err
	}
	v.Kind = "subscription"
	if err := s.Err(); err != nil && s.sequencer.Err() == nil {
		v.Problems = append([]string{err.Error()}, v.Problems...)
	}
	list, err := s.Progress(ctx)
	if err != nil {
		v.Problems = append(v.Problems, fmt.Sprintf("the log cannot be read: %v", err))
		return v, nil
	}
	t := view.Table{Name: "Progress", Columns: []string{"Partition", "Done", "Head", "Behind", "State"}}
	behind := int64(0)
	for i, p := range list {
		lag := p.behind()
		behind += lag
		state := "follows"
		switch {
		case p.Parked:
			state = "parked: an operator must decide"
		case p.Err != nil:
			state = p.Err.Error()
		}
		t.Rows = append(t.Rows, view.Row{Cells: []string{Partition(s.feeds[i].partition).String(), p.Done.String(), p.Head.String(), fmt.Sprint(lag), state}})
	}
	v.Waits = max(v.Waits, behind)
	v.Counts = append([]view.Count{{Name: "entries behind", Value: behind}}, v.Counts...)
	v.Tables = append([]view.Table{t}, v.Tables...)
	return v, nil
}

// Act implements [view.Operated] as that of the subscription's sequencer.
func (s *Subscription) Act(ctx context.Context, a view.Action) error { return s.sequencer.Act(ctx, a) }
