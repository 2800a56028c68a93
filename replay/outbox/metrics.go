package outbox

import (
	"context"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var (
	_ view.Metered = (*Outbox)(nil)
	_ view.Metered = (*Relay)(nil)
)

// Metrics implements [view.Metered]: what package telemetry collects. It reads the
// database, as Stats does.
func (o *Outbox) Metrics(ctx context.Context) ([]view.Metric, error) {
	stats, err := o.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return []view.Metric{
		{Name: "interlock.outbox.unsent", Unit: "{event}", Help: "Committed events that are not marked as sent.", Points: view.One(stats.Unsent)},
		{Name: "interlock.outbox.age", Unit: "s", Help: "Age of the oldest unsent event; 0 if there is none.", Points: view.One(stats.Oldest.Seconds())},
		{Name: "interlock.parked.messages", Unit: "{message}", Help: "What is parked until an operator decides.", Points: view.One(stats.Parked)},
	}, nil
}

// Metrics implements [view.Metered]: what package telemetry collects.
func (r *Relay) Metrics(context.Context) ([]view.Metric, error) {
	stats := r.Stats()
	active := 0
	if stats.Active {
		active = 1
	}
	return []view.Metric{
		{Name: "interlock.relay.active", Unit: "{state}", Help: "1 while it is the relay that sends, else 0.", Points: view.One(active)},
		{Name: "interlock.relay.confirmed", Unit: "{event}", Help: "Events confirmed by the publisher.", Grows: true, Points: view.One(stats.Confirmed)},
		{Name: "interlock.relay.failures", Unit: "{attempt}", Help: "Failed attempts to publish.", Grows: true, Points: view.One(stats.Failures)},
		{Name: "interlock.relay.failing", Unit: "{event}", Help: "Events that have failed and are not confirmed yet.", Points: view.One(stats.Failing)},
	}, nil
}
