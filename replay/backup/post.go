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

// post collects the outcomes of a request's events. Outcomes that come after the
// request has ended are ignored: the events belong to the sink.
type post struct {
	known chan struct{} // closed when open is 0

	mu struct {
		sync.Mutex
		results []result // "" for an event without an outcome
		open    int      // number of events without an outcome
	}
}

func newPost(n int) *post {
	p := &post{known: make(chan struct{})}
	p.mu.results, p.mu.open = make([]result, n), n
	return p
}

// offer offers the events in their order, until the sink fails. Events refused
// because of what they are count as offered. The error is that of the event at
// which it stopped.
func (p *post) offer(ctx context.Context, sink Sink, events []*ordering.Event) (offered int, err error) {
	for i, e := range events {
		err := sink.Offer(ctx, e, func(_ *ordering.Event, o ordering.Outcome) { p.settle(i, resultOf(o)) })
		switch {
		case err == nil:
		case isItsOwnFault(err):
			p.settle(i, result{ordering.Refused.String(), message(err)})
		default:
			for ; i < len(events); i++ {
				p.settle(i, result{ordering.Unfinished.String(), "it was not accepted"})
			}
			return offered, err
		}
		offered++
	}
	return offered, nil
}

// isItsOwnFault reports whether an offer of the event would always fail. The error
// of a sequencer that has stopped wraps the reason, which was another event's
// fault.
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
			results[i] = result{pending, "it was accepted and has no outcome yet"}
		}
	}
	return results
}

// resultOf returns the result for an outcome, without the errors of handlers and
// the store, which are not for the sender.
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

// message returns the text of an error for the sender, cut, since it may quote the
// sender's data.
func message(err error) string { return fmt.Sprintf("%.1000s", err.Error()) }

// isDurable reports whether the receiver has the event, or its effect, durably.
func (r result) isDurable() bool {
	for acked := ordering.Applied; (ordering.Outcome{Result: acked}).Ack(); acked++ {
		if r.Result == acked.String() {
			return true
		}
	}
	return false
}
