package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/bench/durable"
	"github.com/interlock-go/interlock/bench/model"
	"github.com/interlock-go/interlock/bench/parking"
	"github.com/interlock-go/interlock/bench/recovery"
)

// Durable is what ordering and durability cost.
type Durable struct {
	Overheads []durable.Overhead // by positions of an event
	Idle      durable.Idle
	SQLite    []durable.Throughput // by load and workers
	Postgres  []durable.Throughput // by load and distance
	Chain     recovery.Chain
	Late      parking.Late
}

// MeasureDurable measures all that packages durable and recovery do, and what package
// parking does with late events.
func MeasureDurable(ctx context.Context, e Effort) (d Durable, err error) {
	for positions := range 2 {
		o, err := durable.MeasureOverhead(e.Rounds, e.Messages, positions+1)
		if err != nil {
			return d, err
		}
		d.Overheads = append(d.Overheads, o)
	}
	if d.Idle, err = durable.MeasureIdle(1_000_000, 10_000); err != nil {
		return d, err
	}
	if d.Chain, err = recovery.MeasureChain(ctx, 6000); err != nil {
		return d, err
	}
	if d.Late, err = parking.MeasureLate(ctx, 10_000); err != nil {
		return d, err
	}
	for _, load := range []durable.Load{durable.Spread, durable.Hot} {
		for _, workers := range []int{8, 64} {
			t, err := durable.MeasureSQLite(ctx, load, workers, e.TableRounds, e.TableMsgs)
			if err != nil {
				return d, err
			}
			d.SQLite = append(d.SQLite, t)
		}
		for _, distance := range []time.Duration{0, time.Millisecond} {
			t, err := durable.MeasurePostgres(ctx, load, 8, e.TableRounds, e.TableMsgs, distance)
			if err != nil {
				return d, err
			}
			d.Postgres = append(d.Postgres, t)
		}
	}
	return d, nil
}

// Targets returns what is wanted of the sequencer and its stores, of what was
// measured.
func (d Durable) Targets() (targets []Target) {
	for _, o := range d.Overheads {
		targets = append(targets, atMost(fmt.Sprintf("sequencer, added to the dispatcher, positions=%d", o.Positions), o.Added, 300, "ns"))
		t := atMost(fmt.Sprintf("allocations, sequencer, positions=%d", o.Positions), o.Allocs, 0, "per event")
		t.Met = o.Allocs < 0.02 // buffers are made anew now and then
		targets = append(targets, t)
	}
	if c := d.Chain; c.Events > 0 {
		targets = append(targets, atMost(fmt.Sprintf("a chain of %d events, from an outbox to a fresh database", c.Events), c.Elapsed.Seconds(), 5, "s"))
	}
	if l := d.Late; l.Streams > 0 {
		parked := atMost(fmt.Sprintf("%d gaps that nobody fills, until all are parked on SQLite", l.Streams), l.Parked.Seconds(), 5, "s")
		parked.Measured += fmt.Sprintf(" (resumed after %.2f s, once the events come)", l.Resumed.Seconds())
		targets = append(targets, parked)
	}
	if d.Idle.After > 0 {
		targets = append(targets, atMost(fmt.Sprintf("heap left of %d streams, %d active", d.Idle.Streams, d.Idle.MaxActive), d.Idle.After-d.Idle.Before, 10, "MB"))
	}
	for _, t := range d.SQLite {
		least := map[durable.Load]float64{durable.Spread: 0.85, durable.Hot: 0.7}[t.Load]
		ours := t.Row(durable.Interlock)
		grouped := atLeast(fmt.Sprintf("SQLite, %s, %d workers, to a loop grouped by hand", t.Load, t.Workers), ours.Times(t.Row(durable.ByHand)), least, "×")
		grouped.Measured += fmt.Sprintf(" (groups of %.1f)", t.Group)
		single := atLeast(fmt.Sprintf("SQLite, %s, %d workers, to one by one", t.Load, t.Workers), ours.Times(t.Row(durable.OneByOne)), 5, "×")
		targets = append(targets, grouped, single)
	}
	for _, t := range d.Postgres {
		least, where := map[durable.Load]float64{durable.Spread: 4, durable.Hot: 5}[t.Load], ""
		if t.Distance > 0 {
			least, where = map[durable.Load]float64{durable.Spread: 4, durable.Hot: 20}[t.Load], fmt.Sprintf(", %v away", t.Distance)
		}
		targets = append(targets, atLeast(fmt.Sprintf("PostgreSQL%s, %s, to one by one", where, t.Load), t.Row(durable.Interlock).Times(t.Row(durable.OneByOne)), least, "×"))
	}
	return targets
}

// modelTargets: how far off the analytical model is, in its own regime.
func modelTargets(t model.Table) []Target {
	if t.Lines == nil {
		return nil
	}
	return []Target{atMost("model, worst prediction where it is meant to hold", 100*t.Worst, 100*model.Limit, "%")}
}
