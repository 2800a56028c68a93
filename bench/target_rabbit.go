package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/bench/rabbit"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// backlogMsgs is how many messages a queue has that is consumed after a long outage.
const backlogMsgs = 500_000

// Rabbit is what publishing and consuming cost.
type Rabbit struct {
	Publish, Consume rabbit.Rows
	Backlog          rabbit.Rows // of one long queue
	Shapes           []rabbit.Shape
}

// MeasureRabbit measures all that package rabbit does, with a broker of its
// own.
func MeasureRabbit(ctx context.Context, e Effort) (r Rabbit, err error) {
	node, err := rabbittest.New()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	if r.Publish, err = rabbit.MeasurePublish(ctx, node.URL(), e.TableRounds, 10*e.TableMsgs); err != nil {
		return r, err
	}
	if r.Consume, err = rabbit.MeasureConsume(ctx, node.URL(), e.TableRounds, 10*e.TableMsgs); err != nil {
		return r, err
	}
	if r.Backlog, err = rabbit.MeasureBacklog(ctx, node.URL(), backlogMsgs); err != nil {
		return r, err
	}
	r.Shapes, err = rabbit.MeasureShapes(ctx, node.URL(), 10*e.TableMsgs)
	return r, err
}

// Targets returns what is wanted of consumer and publisher, of what was
// measured.
func (r Rabbit) Targets() []Target {
	if len(r.Shapes) == 0 {
		return nil
	}
	many := r.Consume.Of(rabbit.BareMany)
	backlogTarget := atMost(fmt.Sprintf("time for a backlog of %d messages, to that", backlogMsgs),
		r.Backlog.Of(rabbit.BareMany).Times(r.Backlog.Of(rabbit.Interlock)), 1.2, "×")
	backlogTarget.Measured += fmt.Sprintf(" (with effects on SQLite %.2f)", r.Backlog.Of(rabbit.BareMany).Times(r.Backlog.Of(rabbit.InterlockSQLite)))
	return []Target{
		atLeast("publishing with confirms, to amqp091-go", r.Publish.Of(rabbit.Interlock).Times(r.Publish.Of(rabbit.Bare)), 0.95, "×"),
		atLeast("consuming in order, to amqp091-go", r.Consume.Of(rabbit.Interlock).Times(r.Consume.Of(rabbit.Bare)), 0.9, "×"),
		atLeast("consuming in order, to amqp091-go that acknowledges 128 in one step", r.Consume.Of(rabbit.Interlock).Times(many), 0.9, "×"),
		atLeast("consuming in order with effects on SQLite, to the same that writes 128 in one transaction",
			r.Consume.Of(rabbit.InterlockSQLite).Times(r.Consume.Of(rabbit.BareSQLite)), 0.6, "×"),
		backlogTarget,
	}
}
