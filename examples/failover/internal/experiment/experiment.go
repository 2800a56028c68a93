package experiment

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/measure"
)

const (
	// rush is how long after the broker's death events still come as often as
	// before. After that less of them come, until all is as before.
	rush = 100 * time.Millisecond
	// calm is the fewest events before the next kill then.
	calm = 20
	// patience is how long it may take a way to use the broker again that is
	// back; after that it is not waited for any more.
	patience = 10 * time.Second
	// quiet is how long nothing must have come, for a run to be over.
	quiet = 5 * time.Second
	// stuck is the same while a way that loses nothing has events missing, and for
	// a round without outages to have failed.
	stuck = time.Minute
	look  = 10 * time.Millisecond
)

// experiment is a broker, and the ways that are tried on it.
type experiment struct {
	Config
	broker *broker
	dir    string
	random *rand.Rand
	out    io.Writer // for progress

	ways []*way
	n    int // of the last event
}

// next makes the next event, of a key.
func (x *experiment) next(key int) feed.Order {
	x.n++
	work := max(0, float64(x.Work)+x.random.NormFloat64()*float64(x.Spread))
	return feed.Order{N: x.n, Key: key, Work: time.Duration(work)}
}

// start starts all ways.
func (x *experiment) start(ctx context.Context) (err error) {
	if x.ways, err = startWays(ctx, x.Config, x.broker.node.URL(), x.dir); err != nil {
		return err
	}
	return x.broker.node.Sync()
}

// outages is one run: all ways at once are given the same events, and the
// broker that they share is killed again and again. It returns the run of each.
func (x *experiment) outages(ctx context.Context) ([]measure.Run, error) {
	before := make([]mark, len(x.ways))
	for i, w := range x.ways {
		before[i] = w.mark()
	}
	if err := x.sendThroughOutages(ctx); err != nil {
		return nil, err
	}
	if err := x.finish(ctx, before); err != nil {
		return nil, err
	}
	outages := x.broker.takeOutages()
	runs := make([]measure.Run, len(x.ways))
	for i, w := range x.ways {
		runs[i] = w.since(before[i])
		runs[i].Outages = outages
	}
	return runs, nil
}

func (x *experiment) sendThroughOutages(ctx context.Context) error {
	killAfter := x.untilKill()
	sinceKill, calmFor := 0, 0
	pace := pace{due: time.Now()}
	for i := range x.Events {
		phase := x.phase()
		if err := pace.wait(ctx, x.gap(phase)); err != nil {
			return err
		}
		o := x.next(x.random.IntN(x.Keys))
		o.Due = time.Now()
		if err := x.sendAll(o); err != nil {
			return err
		}
		if err := x.broker.failed(); err != nil {
			return err
		}
		sinceKill++
		calmFor++
		if phase != normal {
			calmFor = 0
		}
		last := i+1 == x.Events // after which there would be nothing to recover with
		if !last && sinceKill >= killAfter && calmFor >= min(calm, killAfter) {
			if x.Verbose {
				fmt.Fprintf(x.out, "kill after %d events\n", sinceKill)
			}
			x.broker.kill()
			killAfter, sinceKill = x.untilKill(), 0
		}
	}
	return nil
}

// phase is where the experiment is between two kills.
type phase int

const (
	normal     phase = iota
	dead             // the broker was killed just now
	recovering       // it boots, or is not used by all ways yet
)

func (x *experiment) phase() phase {
	o := x.broker.last()
	switch {
	case o.Died.IsZero():
		return normal
	case o.Back.IsZero() && time.Since(o.Died) <= rush:
		return dead
	case o.Back.IsZero():
		return recovering
	case time.Since(o.Back) > patience:
		return normal
	}
	for _, w := range x.ways {
		if !w.usedBroker(o.Back) {
			return recovering
		}
	}
	return normal
}

// gap is the time from event to event.
func (x *experiment) gap(p phase) time.Duration {
	if p == recovering {
		return x.Slow
	}
	return x.Every
}

func (x *experiment) untilKill() int { return x.KillMin + x.random.IntN(x.KillMax-x.KillMin+1) }

func (x *experiment) sendAll(o feed.Order) error {
	for _, w := range x.ways {
		if err := w.send(o); err != nil {
			return err
		}
	}
	return nil
}

// finish waits until the broker is up and nothing more comes of a run that began
// at the given marks: for a while if the ways that lose nothing have all events,
// and otherwise for longer, on a slow machine for example.
func (x *experiment) finish(ctx context.Context, before []mark) error {
	if err := x.broker.awaitUp(ctx); err != nil {
		return err
	}
	last, since, wait := -1, time.Now(), stuck
	for time.Since(since) < wait {
		if err := pause(ctx, look); err != nil {
			return err
		}
		total := 0
		wait = quiet
		for i, w := range x.ways {
			if err := w.failed(); err != nil {
				return err
			}
			now := w.mark()
			total += now.applied
			if w.lossless() && now.different-before[i].different < x.Events {
				wait = stuck
			}
		}
		if total != last {
			last, since = total, time.Now()
		}
	}
	return nil
}

// pace says when the next event is due.
type pace struct{ due time.Time }

// wait waits for the next event's time, which is a gap after the last one's.
// Late events do not make those after them come sooner.
func (p *pace) wait(ctx context.Context, gap time.Duration) error {
	p.due = p.due.Add(gap)
	if now := time.Now(); p.due.Before(now) {
		p.due = now
	}
	return pause(ctx, time.Until(p.due))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
