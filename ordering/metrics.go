package ordering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Metered = (*Sequencer[*Event])(nil)

// Metrics implements [view.Metered]: what package telemetry collects. They are those of the
// sequencer and of its dispatcher. What is parked is read from the store; if that fails,
// the error says so.
func (s *Sequencer[T]) Metrics(ctx context.Context) ([]view.Metric, error) {
	stats := s.Stats()
	list := []view.Metric{
		{Name: "interlock.sequencer.events", Unit: "{event}", Help: "Copies of events by result; held: those that the store keeps behind something parked.", Grows: true,
			Attribute: "interlock.result", Points: []view.Point{
				{Of: "applied", Value: float64(stats.Applied)}, {Of: "duplicate", Value: float64(stats.Duplicates)},
				{Of: "held", Value: float64(stats.Held)}, {Of: "dead_lettered", Value: float64(stats.DeadLettered)},
				{Of: "refused", Value: float64(stats.Refused)}, {Of: "failed", Value: float64(stats.Failed)},
				{Of: "unfinished", Value: float64(stats.Unfinished)},
			}},
		{Name: "interlock.sequencer.conflicts", Unit: "{event}", Help: "Events with a number that belongs to another event: a producer has used it twice.", Grows: true, Points: view.One(stats.Conflicts)},
		{Name: "interlock.sequencer.unconfirmed", Unit: "{event}", Help: "Duplicates that are known by their numbers alone, since what was done with them was pruned.", Grows: true, Points: view.One(stats.Unconfirmed)},
		{Name: "interlock.sequencer.stale", Unit: "{event}", Help: "Events refused since their epoch is over.", Grows: true, Points: view.One(stats.Stale)},
		{Name: "interlock.sequencer.crashes", Unit: "{event}", Help: "Events set aside since the process has ended each time that they ran.", Grows: true, Points: view.One(stats.Crashes)},
		{Name: "interlock.sequencer.open", Unit: "{event}", Help: "Events that were offered and have no outcome.", Points: view.One(stats.Open)},
		{Name: "interlock.sequencer.early", Unit: "{event}", Help: "Of these, the ones that wait for earlier numbers.", Points: view.One(stats.Early)},
		{Name: "interlock.sequencer.early.size", Unit: "By", Help: "Memory of the early events.", Points: view.One(stats.EarlyBytes)},
		{Name: "interlock.sequencer.streams", Unit: "{stream}", Help: "Streams in memory.", Points: view.One(stats.Streams)},
		{Name: "interlock.sequencer.gaps", Unit: "{gap}", Help: "Gaps in the numbers that were noticed.", Grows: true, Points: view.One(stats.Gaps)},
		{Name: "interlock.sequencer.gaps.open", Unit: "{gap}", Help: "Gaps that are open.", Points: view.One(stats.OpenGaps)},
		{Name: "interlock.sequencer.replays", Unit: "{request}", Help: "Replays that were asked for.", Grows: true, Points: view.One(stats.Replays)},
		{Name: "interlock.sequencer.store.errors", Unit: "{error}", Help: "Failed calls of the store that were repeated.", Grows: true, Points: view.One(stats.StoreErrors)},
	}
	stopped := s.Err()
	list = append(list, view.Stopped(errors.Is(stopped, ErrFenced), errors.Is(stopped, ErrStopped)))
	own, err := s.dispatcher.Metrics(ctx)
	if err != nil {
		return list, err
	}
	list = append(list, slices.DeleteFunc(own, func(m view.Metric) bool {
		return m.Name == "interlock.stopped" || strings.HasPrefix(m.Name, "interlock.parked.") // an event is parked with its streams
	})...)
	parked, err := s.Parked(ctx)
	if err != nil {
		return list, fmt.Errorf("ordering: what is parked: %w", err)
	}
	var age time.Duration
	mine := 0
	for _, p := range parked {
		if origin, has := p.Origin(); has {
			if own, err := s.owned(origin.Stream); err == nil && len(own) == 0 {
				continue // another partition tells of it
			}
		}
		mine++
		age = max(age, time.Since(p.Since))
	}
	return append(list,
		view.Metric{Name: "interlock.parked.messages", Unit: "{message}", Help: "What is parked until an operator decides.", Points: view.One(mine)},
		view.Metric{Name: "interlock.parked.age", Unit: "s", Help: "How long the oldest has been parked; 0 if nothing is.", Points: view.One(age.Seconds())},
	), nil
}
