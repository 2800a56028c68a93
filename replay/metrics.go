package replay

import (
	"context"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Metered = (*Replayer)(nil)

// Metrics implements [view.Metered]: what package telemetry collects.
func (r *Replayer) Metrics(context.Context) ([]view.Metric, error) {
	stats := r.Stats()
	requests := view.Metric{Name: "interlock.replay.requests", Unit: "{request}", Help: "Requests to sources for missing events.", Grows: true, Attribute: "interlock.source"}
	errors := view.Metric{Name: "interlock.replay.errors", Unit: "{request}", Help: "Requests to sources that gave an error or a bad answer.", Grows: true, Attribute: "interlock.source"}
	events := view.Metric{Name: "interlock.replay.events", Unit: "{event}", Help: "Events that sources gave, repeated ones included.", Grows: true, Attribute: "interlock.source"}
	for _, s := range stats.Sources {
		requests.Points = append(requests.Points, view.Point{Of: s.Name, Value: float64(s.Requests)})
		errors.Points = append(errors.Points, view.Point{Of: s.Name, Value: float64(s.Errors)})
		events.Points = append(events.Points, view.Point{Of: s.Name, Value: float64(s.Events)})
	}
	return []view.Metric{
		{Name: "interlock.replay.calls", Unit: "{replay}", Help: "Replays that have ended; unanswered: no source had all events.", Grows: true,
			Attribute: "interlock.outcome", Points: []view.Point{
				{Of: "answered", Value: float64(stats.Replays - stats.Unanswered)}, {Of: "unanswered", Value: float64(stats.Unanswered)},
			}},
		{Name: "interlock.replay.open", Unit: "{replay}", Help: "Replays that have not ended.", Points: view.One(stats.Open)},
		requests, errors, events,
	}, nil
}
