package bench

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/bench/rabbit"
	"github.com/interlock-go/interlock/internal/rabbittest"
)

// Rabbit is what publishing and consuming cost.
type Rabbit struct {
	Publish, Consume rabbit.Rows
	Prefetch         int
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
	r.Prefetch = 256
	if r.Publish, err = rabbit.MeasurePublish(ctx, node.URL(), e.TableRounds, 10*e.TableMsgs); err != nil {
		return r, err
	}
	if r.Consume, err = rabbit.MeasureConsume(ctx, node.URL(), e.TableRounds, 10*e.TableMsgs, r.Prefetch); err != nil {
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
	return []Target{
		atLeast("publishing with confirms, to amqp091-go", r.Publish.Of(rabbit.Interlock).Times(r.Publish.Of(rabbit.Bare)), 0.95, "×"),
		atLeast("consuming in order, to amqp091-go", r.Consume.Of(rabbit.Interlock).Times(r.Consume.Of(rabbit.Bare)), 0.9, "×"),
	}
}
