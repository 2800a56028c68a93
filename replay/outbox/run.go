package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/interlock-go/interlock/ordering"
)

// run is what is published one after the other: events that follow each other
// on one stream and are on no other, or one event with several streams.
//
// A goroutine of its own reads it while the run is being sent; at all other
// times it is the leader's.
type run struct {
	streams []string
	events  []stored

	life    context.Context // of the publisher's way to its receivers, when the run was started
	failure *failure        // of the first event, if that has failed before; see failing.go
}

// stored is an event and its row.
type stored struct {
	id    int64
	event *ordering.Event
}

// result is what a run tells the leader: that an event was confirmed, or that
// the run has ended.
type result struct {
	run       *run
	confirmed int64 // the row of the event; 0 if the run has ended
	sent      int   // events confirmed until the end
	err       error // the failure of the next one, if that ended the run
}

// errNoReturn is the error of an attempt that ended its goroutine.
var errNoReturn = errors.New("outbox: the publisher called runtime.Goexit")

// send publishes the events of a run until one fails or stopped ends.
func (l *leader) send(stopped, work context.Context, r *run) {
	end := result{run: r}
	defer func() { l.results <- end }()
	for _, e := range r.events {
		if stopped.Err() != nil {
			return
		}
		end.err = errNoReturn // unless it returns
		if end.err = l.publish(work, e.event); end.err != nil {
			return
		}
		end.sent++
		l.results <- result{run: r, confirmed: e.id}
	}
}

func (l *leader) publish(ctx context.Context, e *ordering.Event) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("outbox: the publisher panicked: %v\n%s", p, debug.Stack())
		}
	}()
	return l.publisher.Publish(ctx, e)
}

// start gives a run a goroutine. Its streams are busy already.
func (l *leader) start(stopped, work context.Context, r *run) {
	r.life = l.away.life
	l.sending++
	if r.failure != nil {
		l.retrying++
	}
	go l.send(stopped, work, r)
}

// settle takes a result and those that have come meanwhile, marks what was
// confirmed and parks what is unfit. It reports whether a run has ended, so that
// another may start.
func (l *leader) settle(ctx context.Context, first result) (ended bool, err error) {
	before := l.sending
	var over []*run
	for r, more := first, true; more; {
		if run := l.take(r); run != nil {
			over = append(over, run)
		}
		select {
		case r = <-l.results:
		default:
			more = false
		}
	}
	if err := l.mark(ctx); err != nil {
		return false, err
	}
	if err := l.park(ctx); err != nil {
		return false, err
	}
	for _, r := range over {
		l.free(r.streams)
	}
	return l.sending < before, nil
}

// take notes a result. It returns the run if that has ended and leaves its
// streams.
func (l *leader) take(r result) (over *run) {
	if r.confirmed != 0 {
		l.stats.confirmed.Add(1)
		l.confirmed = append(l.confirmed, r.confirmed)
		return nil
	}
	l.sending--
	if r.run.failure != nil {
		l.retrying--
		if r.sent > 0 {
			l.recovered(r.run.failure)
			r.run.failure = nil
		}
	}
	if r.err == nil || l.failed(r.run, r.run.events[r.sent], r.err) {
		return r.run
	}
	return nil
}

// occupy makes streams busy, unless one of them is: by a run whose last event
// is marked already, but which has not said yet that it has ended.
func (l *leader) occupy(streams []string) bool {
	for _, stream := range streams {
		if _, busy := l.busy[stream]; busy {
			return false
		}
	}
	for _, stream := range streams {
		l.busy[stream] = struct{}{}
	}
	return true
}

func (l *leader) free(streams []string) {
	for _, stream := range streams {
		delete(l.busy, stream)
	}
}

func (l *leader) count() {
	l.stats.sending.Store(int64(l.sending))
	l.stats.failing.Store(int64(l.failing()))
}
