package replay

import (
	"context"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/ordering"
)

// flight is a range that is being asked for, by the call that leads it. Other
// calls for numbers of the range follow: the leader hands each of them a copy
// of every answer.
type flight struct {
	asked     ordering.Range
	followers []*follower // guarded by Replayer.mu

	landed chan struct{} // closed when the leader has ended
	failed blocks        // what it gave up, and the errors of the sources;
	errs   []error       // readable once landed, nil if it was cut short
}

type follower struct {
	answers chan Answer
	left    chan struct{} // closed when it follows no more
}

// board returns the flight that asks for numbers that w misses already, with a
// place as its follower; or a new one, for w to lead.
func (r *Replayer) board(w *want) (*flight, *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.mu.flights[w.stream] {
		if len(w.missing.within(f.asked.From, f.asked.To)) > 0 {
			follower := &follower{make(chan Answer), make(chan struct{})}
			f.followers = append(f.followers, follower)
			r.mu.stats.Joined++
			return f, follower
		}
	}
	first, last := w.missing[0], w.missing[len(w.missing)-1]
	f := &flight{
		asked:  ordering.Range{Stream: w.stream, From: first.from, To: last.to},
		landed: make(chan struct{}),
	}
	r.mu.flights[w.stream] = append(r.mu.flights[w.stream], f)
	r.mu.stats.Open++
	return f, nil
}

// land ends a flight.
func (r *Replayer) land(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := slices.DeleteFunc(r.mu.flights[f.asked.Stream], func(x *flight) bool { return x == f })
	if len(rest) == 0 {
		delete(r.mu.flights, f.asked.Stream)
	} else {
		r.mu.flights[f.asked.Stream] = rest
	}
	r.mu.stats.Open--
	close(f.landed)
}

// share hands an answer to those who follow.
func (r *Replayer) share(ctx context.Context, f *flight, a Answer) {
	r.mu.Lock()
	followers := slices.Clone(f.followers)
	r.mu.Unlock()
	for _, x := range followers {
		select {
		case x.answers <- a.clone():
		case <-x.left:
		case <-ctx.Done():
			return
		}
	}
}

// follow takes what the leader of a flight gets, and its result.
func (r *Replayer) follow(ctx context.Context, f *flight, x *follower, w *want) error {
	defer r.unfollow(f, x)
	for len(w.missing) > 0 {
		select {
		case a := <-x.answers:
			if err := w.take(ctx, a); err != nil {
				return err
			}
		case <-f.landed:
			w.giveUp(f.failed, f.errs)
			return nil
		case <-ctx.Done():
			return ended(ctx, w.missing[0].on(w.stream))
		}
	}
	return nil
}

func (r *Replayer) unfollow(f *flight, x *follower) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.followers = slices.DeleteFunc(f.followers, func(y *follower) bool { return y == x })
	close(x.left)
}

// clone copies what whoever handles an event may change.
func (a Answer) clone() Answer {
	events := make([]*ordering.Event, len(a.Events))
	for i, e := range a.Events {
		c := *e
		c.Payload, c.Headers = slices.Clone(e.Payload), maps.Clone(e.Headers)
		events[i] = &c
	}
	return Answer{Events: events, NoSuch: a.NoSuch}
}
