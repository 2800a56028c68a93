package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/examples/failover/internal/feed"
	"github.com/interlock-go/interlock/examples/failover/internal/measure"
)

// inTurn gives the keys their turns: the event before one of a key is done long
// before it comes. So nothing has to wait for the sake of order.
func (x *experiment) inTurn(i int) int { return i % x.Keys }

// atRandom draws a key: now and then an event has to wait for the one before
// it, if its way keeps the order.
func (x *experiment) atRandom(int) int { return x.random.IntN(x.Keys) }

// compare measures latencies without outages: the ways take turns with the same
// events. A round for warming up comes first.
func (x *experiment) compare(ctx context.Context, key func(i int) int) (_ measure.Rounds, err error) {
	var rounds measure.Rounds
	for range x.Rounds + 1 {
		orders := make([]feed.Order, x.Round)
		for i := range orders {
			orders[i] = x.next(key(i))
		}
		round := make([]time.Duration, len(x.ways))
		for _, i := range rand.Perm(len(x.ways)) {
			if round[i], err = x.latency(ctx, x.ways[i], orders); err != nil {
				return nil, err
			}
		}
		rounds = append(rounds, round)
	}
	return rounds[1:], nil
}

// latency gives a way some events and returns their mean latency.
func (x *experiment) latency(ctx context.Context, w *way, orders []feed.Order) (time.Duration, error) {
	before := w.mark()
	pace := pace{due: time.Now()}
	for _, o := range orders {
		if err := pace.wait(ctx, x.Every); err != nil {
			return 0, err
		}
		o.Due = time.Now()
		if err := w.send(o); err != nil {
			return 0, err
		}
	}
	last, since := before.different, time.Now()
	for last < before.different+len(orders) {
		if err := errors.Join(w.failed(), pause(ctx, look)); err != nil {
			return 0, err
		}
		if n := w.mark().different; n > last {
			last, since = n, time.Now()
		}
		if time.Since(since) > stuck {
			return 0, fmt.Errorf("%s: nothing was applied for %v, with events missing and no outage", w.name, stuck)
		}
	}
	return time.Duration(measure.Mean(measure.Of(w.since(before)).Latencies)), nil
}
