package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// post is the events of a request on their way through the sink. Outcomes that
// come after the request has ended are of use to nobody, and do no harm: the
// events are the sink's.
type post struct {
	known chan struct{} // closed when open is 0

	mu struct {
		sync.Mutex
		results []result // "" for an event without an outcome
		open    int      // how many of those there are
	}
}

func newPost(n int) *post {
	p := &post{known: make(chan struct{})}
	p.mu.results, p.mu.open = make([]result, n), n
	return p
}

// offer offers the events in their order, until the sink takes no more. Events
// that it cannot take for their own fault count as taken. The error is that of
// the event at which it stopped.
func (p *post) offer(ctx context.Context, sink Sink, events []*ordering.Event) (offered int, err error) {
	for i, e := range events {
		err := sink.Offer(ctx, e, func(_ *ordering.Event, o ordering.Outcome) { p.settle(i, resultOf(o)) })
		switch {
		case err == nil:
		case isItsOwnFault(err):
			p.settle(i, result{ordering.Refused.String(), message(err)})
		default:
			for ; i < len(events); i++ {
				p.settle(i, result{ordering.Unfinished.String(), "it was not taken"})
			}
			return offered, err
		}
		offered++
	}
	return offered, nil
}

// isItsOwnFault tells whether an offer fails again whenever it is made. A
// sequencer that has stopped says why, which was another event's fault.
func isItsOwnFault(err error) bool {
	if errors.Is(err, ordering.ErrStopped) {
		return false
	}
	_, invalid := errors.AsType[*ordering.EventError](err)
	return invalid || errors.Is(err, dispatcher.ErrTooLarge) || dispatcher.IsPermanent(err)
}

func (p *post) settle(i int, r result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.results[i] = r
	if p.mu.open--; p.mu.open == 0 {
		close(p.known)
	}
}

// wait returns the results once all are known or ctx has ended. Those that are
// not known are pending.
func (p *post) wait(ctx context.Context) []result {
	select {
	case <-p.known:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	results := slices.Clone(p.mu.results)
	for i, r := range results {
		if r.Result == "" {
			results[i] = result{pending, "it was taken, and what becomes of it is not known yet"}
		}
	}
	return results
}

// resultOf says what became of an event. Why a handler failed and what is the
// matter with a store is not for the sender.
func resultOf(o ordering.Outcome) result {
	r := result{Result: o.Result.String()}
	switch {
	case o.Ack():
	case o.Result == ordering.Refused && o.Err != nil:
		r.Message = message(o.Err)
	default:
		r.Message = "the receiver ended first, or another one took over"
	}
	return r
}

// message is what a sender is told of an error, cut: it may quote what the sender
// wrote.
func message(err error) string { return fmt.Sprintf("%.1000s", err.Error()) }

// isDurable tells whether the receiver has the event, or its effect, for good.
func (r result) isDurable() bool {
	for acked := ordering.Applied; (ordering.Outcome{Result: acked}).Ack(); acked++ {
		if r.Result == acked.String() {
			return true
		}
	}
	return false
}
