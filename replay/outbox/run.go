package outbox

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cenkalti/backoff/v5"

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

	attempts int // that failed, for the first of the events
	pause    *backoff.ExponentialBackOff
	due      time.Time // of the next attempt
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
	l.sending++
	go l.send(stopped, work, r)
}

// retry starts the runs whose next attempt is due, as far as there is room.
func (l *leader) retry(stopped, work context.Context) {
	now := time.Now()
	rest := l.waiting[:0]
	for _, r := range l.waiting {
		if l.sending < l.config.Window && !r.due.After(now) {
			l.start(stopped, work, r)
		} else {
			rest = append(rest, r)
		}
	}
	clear(l.waiting[len(rest):])
	l.waiting = rest
}

// settle takes a result and those that have come meanwhile, marks what was
// confirmed and parks what is unfit. It tells whether a run has ended, so that
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
		for _, stream := range r.streams {
			delete(l.busy, stream)
		}
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
	if r.err == nil || l.failed(r.run, r.sent, r.err) {
		return r.run
	}
	return nil
}

// failed makes a run wait for its next attempt. Of its events it keeps the one
// that failed: those behind it can be loaded again. If there is to be no other
// attempt the run is over, and its event to be parked.
func (l *leader) failed(r *run, sent int, err error) (over bool) {
	l.stats.failures.Add(1)
	if sent > 0 || r.pause == nil {
		r.attempts, r.pause = 0, l.newBackoff()
	}
	r.events = r.events[sent : sent+1 : sent+1]
	r.attempts++
	if l.config.hopeless(r.attempts, err) {
		s := r.events[0]
		l.unfit = append(l.unfit, unfit{s.id, s.event.ID, positionText(s.event), r.attempts, err})
		return true
	}
	wait := r.pause.NextBackOff()
	r.due = time.Now().Add(wait)
	l.waiting = append(l.waiting, r)
	l.attemptFailed(r, err, wait)
	return false
}

// nextLook returns when to look for work that nobody tells of.
func (l *leader) nextLook() time.Duration {
	wait := l.config.Poll
	if l.sending < l.config.Window {
		for _, r := range l.waiting {
			wait = min(wait, time.Until(r.due))
		}
	}
	return wait
}

func (l *leader) count() {
	l.stats.sending.Store(int64(l.sending))
	l.stats.failing.Store(int64(len(l.waiting)))
}
