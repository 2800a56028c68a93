package outbox

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
)

// run is published sequentially: successive events of one stream that are on no
// other, or one event with several streams.
//
// A goroutine of its own reads streams and events while the run is being sent;
// everything else is only for the leader.
type run struct {
	streams []string
	events  []stored
	bytes   int64 // of the events, as stored

	began   time.Time       // start of the current attempt
	life    context.Context // from Alive, when the run was started
	failure *failure        // of the first event, if that has failed before; see failing.go
}

// stored is an event, and where it was found.
type stored struct {
	at    head
	event *ordering.Event
}

// result tells the leader that an event of a run was confirmed, or that the run
// has ended.
type result struct {
	run       *run
	confirmed int64 // the row of the event; 0 if the run has ended
	sent      int   // events confirmed until the end
	err       error // the failure of the next one, if that ended the run
}

// send publishes the events of a run until one fails or stopped ends.
func (l *leader) send(stopped, work context.Context, r *run) {
	end := result{run: r}
	defer func() { l.results <- end }()
	for _, e := range r.events {
		if stopped.Err() != nil {
			return
		}
		end.err = contain.ErrGoexit // unless it returns
		if end.err = l.publish(work, e.event); end.err != nil {
			return
		}
		end.sent++
		l.results <- result{run: r, confirmed: e.at.event}
	}
}

func (l *leader) publish(ctx context.Context, e *ordering.Event) (err error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	defer contain.Recover(&err)
	return l.publisher.Publish(ctx, e)
}

// start starts the goroutine of a run. Its streams are busy already.
func (l *leader) start(stopped, work context.Context, r *run) {
	r.life, r.began = l.away.life, time.Now()
	l.sending[r] = struct{}{}
	l.bytes += r.bytes
	if r.failure != nil {
		l.retrying++
	}
	go l.send(stopped, work, r)
}

// slowAfter is how long an attempt occupies a place in the window.
const slowAfter = time.Second

// places counts the free places for runs.
type places struct {
	any     int           // for any run
	retries int           // of those, for runs that have failed before
	next    time.Duration // until another run may become slow
}

// room returns the free places. Slow runs leave the window to others, as far as
// MaxSlow allows: a receiver that is slow, or never answers, should not hold up
// others.
func (l *leader) room() places {
	if l.bytes >= l.config.MaxBytes {
		return places{next: l.config.Poll}
	}
	fast, fastRetries, next := 0, 0, slowAfter
	now := time.Now()
	for r := range l.sending {
		if left := slowAfter - now.Sub(r.began); left > 0 {
			next = min(next, left)
			fast++
			if r.failure != nil {
				fastRetries++
			}
		}
	}
	p := places{any: min(l.config.Window-fast, l.config.Window+l.config.MaxSlow-len(l.sending)), next: next}
	p.retries = min(p.any, max(1, l.config.Window/2)-fastRetries)
	return p
}

// settle takes a result and those that have come meanwhile, marks confirmed events
// and parks unfit ones. It reports whether a run has ended, so that another may
// start.
func (l *leader) settle(ctx context.Context, first result) (ended bool, err error) {
	before := len(l.sending)
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
	l.count() // before parking, so that a parked event is not counted as sending
	if err := l.mark(ctx); err != nil {
		return false, err
	}
	if err := l.park(ctx); err != nil {
		return false, err
	}
	for _, r := range over {
		l.free(r.streams)
	}
	return len(l.sending) < before, nil
}

// take records a result. It returns the run if that has ended and its streams
// become free.
func (l *leader) take(r result) (over *run) {
	if r.confirmed != 0 {
		l.stats.confirmed.Add(1)
		l.confirmed = append(l.confirmed, r.confirmed)
		r.run.began = time.Now()
		return nil
	}
	delete(l.sending, r.run)
	l.bytes -= r.run.bytes
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

// occupy makes streams busy, and reports whether it did: not if one of them is
// busy, with a run whose last event is marked already, but whose end is not
// reported yet.
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

// free frees streams. They may have more events.
func (l *leader) free(streams []string) {
	l.news = true
	for _, stream := range streams {
		delete(l.busy, stream)
	}
}

func (l *leader) count() {
	l.stats.sending.Store(int64(len(l.sending)))
	l.stats.failing.Store(int64(l.failing()))
}
