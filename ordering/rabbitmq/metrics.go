package rabbitmq

import (
	"context"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var (
	_ view.Metered = (*Consumer)(nil)
	_ view.Metered = (*Publisher)(nil)
)

// Metrics implements [view.Metered]: what package telemetry collects.
func (c *Consumer) Metrics(context.Context) ([]view.Metric, error) {
	stats := c.Stats()
	return []view.Metric{
		{Name: "messaging.client.consumed.messages", Unit: "{message}", Help: "Messages received, redelivered ones included.", Grows: true, Points: view.One(stats.Received)},
		{Name: "interlock.consumer.settled", Unit: "{message}", Help: "Messages by what became of them; late: without effect, since their channel was lost.", Grows: true,
			Attribute: "interlock.outcome", Points: []view.Point{
				{Of: "acknowledged", Value: float64(stats.Acked - stats.DeadLettered)}, {Of: "dead_lettered", Value: float64(stats.DeadLettered)},
				{Of: "requeued", Value: float64(stats.Requeued)}, {Of: "late", Value: float64(stats.Late)},
			}},
		{Name: "interlock.consumer.open", Unit: "{message}", Help: "Messages received and not settled.", Points: view.One(stats.Open)},
		{Name: "interlock.consumer.connected", Unit: "{state}", Help: "1 while it consumes, else 0.", Points: view.One(number(stats.Connected))},
	}, nil
}

// Metrics implements [view.Metered]: what package telemetry collects.
func (p *Publisher) Metrics(context.Context) ([]view.Metric, error) {
	stats := p.Stats()
	return []view.Metric{
		{Name: "messaging.client.sent.messages", Unit: "{message}", Help: "Messages that the broker has confirmed.", Grows: true, Points: view.One(stats.Confirmed)},
		{Name: "interlock.publisher.failed", Unit: "{message}", Help: "Messages that ended with an error.", Grows: true, Points: view.One(stats.Failed)},
		{Name: "interlock.publisher.resent", Unit: "{message}", Help: "How often a message was sent again.", Grows: true, Points: view.One(stats.Resent)},
		{Name: "interlock.publisher.pending", Unit: "{message}", Help: "Messages that wait to be sent or confirmed.", Points: view.One(stats.Pending)},
		{Name: "interlock.publisher.connected", Unit: "{state}", Help: "1 while there is a connection that takes messages, else 0.", Points: view.One(number(stats.Connected && !stats.Blocked))},
	}, nil
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}
