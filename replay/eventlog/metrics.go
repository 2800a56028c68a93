package eventlog

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Metered = (*Subscription)(nil)

// Metrics implements [view.Metered]: what package telemetry collects. They are those of the
// subscription's sequencer, and how far each partition is behind the log, which is read.
func (s *Subscription) Metrics(ctx context.Context) ([]view.Metric, error) {
	list, err := s.sequencer.Metrics(ctx)
	if err != nil {
		return list, err
	}
	progress, err := s.Progress(ctx)
	if err != nil {
		return list, fmt.Errorf("eventlog: %w", err)
	}
	lag := view.Metric{Name: "interlock.projection.lag", Unit: "{entry}", Help: "Entries of the log that are not handled yet.", Attribute: "messaging.destination.partition.id"}
	for i, p := range progress {
		lag.Points = append(lag.Points, view.Point{Of: fmt.Sprint(s.feeds[i].partition), Value: float64(p.behind())})
	}
	return append(list, lag), nil
}

// behind returns how many entries are not handled yet, at least.
func (p Progress) behind() int64 {
	lag := int64(p.Head.Number) - int64(p.Done.Number)
	if p.Head.Epoch != p.Done.Epoch {
		lag = int64(p.Head.Number) // and what is left of earlier epochs
	}
	return max(lag, 0)
}
