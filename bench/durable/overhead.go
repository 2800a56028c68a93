package durable

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Overhead is what a sequencer adds to its dispatcher for an event that comes
// in its turn. Its store does nothing.
type Overhead struct {
	Positions             int     // of an event
	Dispatcher, Sequencer float64 // ns per event, in the median round
	Added                 float64 // ns per event, in the same round; the median of those
	Allocs                float64 // objects per event
}

// MeasureOverhead gives n events, of many streams in turn, to a dispatcher
// alone and to a sequencer, round by round, both with eight workers and an
// empty handler. Events are made before the clock starts.
func MeasureOverhead(rounds, n, positions int) (o Overhead, err error) {
	const streams = 1000
	ctx := context.Background()
	d, err := dispatcher.New(dispatcher.Config[*ordering.Event]{
		Keys: func(e *ordering.Event, claim *lockkeys.Claim) error {
			for _, p := range e.Positions {
				claim.Exclusive(p.Stream)
			}
			return nil
		},
		Handler: func(context.Context, *ordering.Event) error { return nil },
		Workers: workers, MaxPending: queued,
	})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: nullStore{}, Handler: func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: workers, MaxPending: queued},
	})
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, seq.Close()) }()

	contenders := []func(events []*ordering.Event) error{
		func(events []*ordering.Event) error {
			for _, e := range events {
				if err := d.Submit(ctx, e); err != nil {
					return err
				}
			}
			return d.Drain(ctx)
		},
		func(events []*ordering.Event) error {
			for _, e := range events {
				if err := seq.Offer(ctx, e, nil); err != nil {
					return err
				}
			}
			return seq.Drain(ctx)
		},
	}
	o.Positions = positions
	var alone, sequenced, added []float64
	produce := newProducer(streams, positions)
	for round := range rounds + 1 {
		events := produce.events(n)
		var costs [2]cost
		for i := range costs {
			which := (i + round) % 2
			runtime.GC() // so that each pays for its own garbage
			if costs[which], err = measure(contenders[which], events); err != nil {
				return o, err
			}
		}
		if round > 0 { // the first one warms up
			alone = append(alone, costs[0].ns)
			sequenced = append(sequenced, costs[1].ns)
			added = append(added, costs[1].ns-costs[0].ns)
		}
	}
	o.Dispatcher, o.Sequencer, o.Added = stat.Median(alone), stat.Median(sequenced), stat.Median(added)

	// Pools are empty after a collection, so this needs a longer run.
	events := produce.events(10 * n)
	if _, err := measure(contenders[1], events[:n]); err != nil {
		return o, err
	}
	c, err := measure(contenders[1], events[n:])
	o.Allocs = c.objects
	return o, err
}

// workers run handlers, and queued events wait for them at most, everywhere in
// this package.
const (
	workers = 8
	queued  = 1024
)

// cost is that of one event.
type cost struct{ ns, objects float64 }

func measure(run func([]*ordering.Event) error, events []*ordering.Event) (cost, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	err := run(events)
	elapsed := time.Since(start)
	runtime.ReadMemStats(&after)
	n := float64(len(events))
	return cost{float64(elapsed) / n, float64(after.Mallocs-before.Mallocs) / n}, err
}

// producer numbers events on its streams, which get them in turn.
type producer struct {
	streams   []lockkeys.Key
	numbers   []uint64
	positions int
	next      int
}

func newProducer(streams, positions int) *producer {
	p := &producer{numbers: make([]uint64, streams), positions: positions}
	for i := range streams {
		p.streams = append(p.streams, lockkeys.Must("client", strconv.Itoa(i/4), "account", strconv.Itoa(i)))
	}
	return p
}

func (p *producer) events(n int) []*ordering.Event {
	events := make([]*ordering.Event, n)
	for i := range events {
		e := &ordering.Event{ID: strconv.Itoa(p.next)}
		for k := range p.positions {
			at := (p.next*p.positions + k) % len(p.streams)
			p.numbers[at]++
			e.Positions = append(e.Positions, ordering.Position{Stream: p.streams[at], Number: p.numbers[at]})
		}
		events[i] = e
		p.next++
	}
	return events
}
