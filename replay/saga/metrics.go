package saga

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering"
)

var _ view.Metered = (*Coordinator)(nil)

// Metrics implements [view.Metered]: what package telemetry collects. They are those of the
// coordinator's dispatcher, whose messages are runs, which are held as long as they last,
// and steps; the runs that turned back; and the runs by status, which it reads from the
// database.
func (c *Coordinator) Metrics(ctx context.Context) ([]view.Metric, error) {
	list, err := c.d.Metrics(ctx)
	if err != nil {
		return list, err
	}
	list = slices.DeleteFunc(list, func(m view.Metric) bool {
		return m.Name == "interlock.stopped" || strings.HasPrefix(m.Name, "interlock.parked.")
	})
	stopped := c.Err()
	list = append(list, view.Stopped(errors.Is(stopped, ordering.ErrFenced), stopped != nil && !errors.Is(stopped, ErrClosed)))
	list = append(list, view.Metric{Name: "interlock.saga.compensations", Unit: "{run}", Help: "Runs that turned back, to be compensated, since the coordinator began.", Grows: true, Points: view.One(c.back.Load())})
	list = append(list,
		view.Metric{Name: "interlock.saga.replies.repeated", Unit: "{reply}", Help: "Replies that their steps had taken before, since the coordinator began.", Grows: true, Points: view.One(c.repeated.Load())},
		view.Metric{Name: "interlock.saga.replies.dropped", Unit: "{reply}", Help: "Replies that were kept for steps, and not taken since the run turned back, since the coordinator began.", Grows: true, Points: view.One(c.dropped.Load())})
	runs, age, err := c.activeRuns(ctx)
	if err != nil {
		return list, err
	}
	metric := view.Metric{Name: "interlock.saga.runs", Unit: "{run}", Help: "Runs that have not ended, by state.", Attribute: "interlock.state"}
	for status := Waiting; status <= Parked; status++ {
		metric.Points = append(metric.Points, view.Point{Of: status.String(), Value: float64(runs[status])})
	}
	return append(list, metric,
		view.Metric{Name: "interlock.parked.messages", Unit: "{message}", Help: "What is parked until an operator decides.", Points: view.One(runs[Parked])},
		view.Metric{Name: "interlock.parked.age", Unit: "s", Help: "How long the oldest has been parked; 0 if nothing is.", Points: view.One(age.Seconds())},
	), nil
}

// activeRuns counts the active runs by their status, and returns how long the oldest parked
// one has been parked.
func (c *Coordinator) activeRuns(ctx context.Context) (runs map[Status]int64, age time.Duration, err error) {
	found, err := c.cfg.Store.DB().QueryContext(ctx, `SELECT status, count(*), coalesce(min(nullif(parked, 0)), 0)
		FROM saga_runs WHERE coordinator = $1 AND ended = 0 AND term >= 0 GROUP BY status`, c.cfg.Name)
	if err != nil {
		return nil, 0, fmt.Errorf("saga: count runs: %w", err)
	}
	defer found.Close()
	runs = map[Status]int64{}
	for found.Next() {
		var status Status
		var n, parked int64
		if err := found.Scan(&status, &n, &parked); err != nil {
			return nil, 0, fmt.Errorf("saga: count runs: %w", err)
		}
		runs[status] = n
		if parked > 0 {
			age = max(age, time.Since(fromMicros(parked)))
		}
	}
	if err := found.Err(); err != nil {
		return nil, 0, fmt.Errorf("saga: count runs: %w", err)
	}
	return runs, age, nil
}
