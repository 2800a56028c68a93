package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Metered = (*Dispatcher[int])(nil)

// Metrics implements [view.Metered]: what package telemetry collects. Under the mutex, its
// cost is linear in the parked messages.
func (d *Dispatcher[M]) Metrics(context.Context) ([]view.Metric, error) {
	stats := d.Stats()
	return []view.Metric{
		{Name: "interlock.dispatcher.messages", Unit: "{message}", Help: "Messages that were accepted and have not ended, by state; behind: those that wait behind a parked one.",
			Attribute: "interlock.state", Points: []view.Point{
				{Of: "queued", Value: float64(stats.Queued)}, {Of: "waiting", Value: float64(stats.Waiting)},
				{Of: "ready", Value: float64(stats.Ready)}, {Of: "running", Value: float64(stats.Running)},
				{Of: "backoff", Value: float64(stats.Backoff)}, {Of: "held", Value: float64(stats.Held)},
				{Of: "parked", Value: float64(stats.Parked)}, {Of: "behind", Value: float64(stats.Behind)},
			}},
		{Name: "interlock.dispatcher.accepted", Unit: "{message}", Help: "Messages accepted.", Grows: true, Points: view.One(stats.Accepted)},
		{Name: "interlock.dispatcher.refused", Unit: "{message}", Help: "Submissions refused because MaxParked was reached.", Grows: true, Points: view.One(stats.Refused)},
		{Name: "interlock.dispatcher.attempts", Unit: "{attempt}", Help: "Attempts begun, also those that were undone with a batch or chain.", Grows: true, Points: view.One(stats.Started)},
		{Name: "interlock.dispatcher.retries", Unit: "{attempt}", Help: "Attempts that failed and were followed by another.", Grows: true, Points: view.One(stats.Retried)},
		{Name: "interlock.dispatcher.finished", Unit: "{message}", Help: "Messages that have ended, by outcome; failed: also those that were skipped or dropped.", Grows: true,
			Attribute: "interlock.outcome", Points: []view.Point{
				{Of: "succeeded", Value: float64(stats.Succeeded)}, {Of: "failed", Value: float64(stats.Failed)},
			}},
		{Name: "interlock.dispatcher.chains", Unit: "{chain}", Help: "Calls of Together, by outcome.", Grows: true,
			Attribute: "interlock.outcome", Points: []view.Point{
				{Of: "succeeded", Value: float64(stats.Chains - stats.Undone)}, {Of: "undone", Value: float64(stats.Undone)},
			}},
		{Name: "interlock.dispatcher.workers", Unit: "{worker}", Help: "Workers, busy or not.", Points: view.One(d.cfg.Workers)},
		{Name: "interlock.dispatcher.window.utilization", Unit: "1", Help: "Share of the look-ahead window that blocked messages use; at 1 nothing further is considered.",
			Points: view.One(min(float64(stats.Waiting)/float64(max(d.window, 1)), 1))},
		view.Stopped(false, errors.Is(d.Err(), ErrStopped)),
		{Name: "interlock.parked.messages", Unit: "{message}", Help: "What is parked until an operator decides.", Points: view.One(stats.Parked)},
		{Name: "interlock.parked.age", Unit: "s", Help: "How long the oldest has been parked; 0 if nothing is.", Points: view.One(d.parkedFor().Seconds())},
	}, nil
}

// parkedFor returns how long the oldest parked message has been parked, or 0 if there is
// none.
func (d *Dispatcher[M]) parkedFor() (age time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range d.mu.parked {
		age = max(age, time.Since(t.extra.since))
	}
	return age
}
