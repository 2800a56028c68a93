package outbox

import (
	"container/heap"
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/interlock-go/interlock/dispatcher"
)

// failure is what is kept of an event between two attempts to send it: not the
// event, which is loaded again, so that very many can fail. Its streams are busy
// all the time.
type failure struct {
	head    head
	streams []string

	attempts int // that failed
	pause    *backoff.ExponentialBackOff
	due      time.Time // of the next attempt
	since    time.Time // the first attempt failed
	told     bool      // it is in the log, where its end belongs then too
}

// failures are a heap by when they are due.
type failures []*failure

func (f failures) Len() int           { return len(f) }
func (f failures) Less(i, j int) bool { return f[i].due.Before(f[j].due) }
func (f failures) Swap(i, j int)      { f[i], f[j] = f[j], f[i] }
func (f *failures) Push(x any)        { *f = append(*f, x.(*failure)) }
func (f *failures) Pop() any {
	last := len(*f) - 1
	x := (*f)[last]
	(*f)[last] = nil
	*f = (*f)[:last]
	return x
}

// failing is how many events have failed and are not sent yet.
func (l *leader) failing() int { return len(l.failures) + l.retrying }

// full reports whether so many events fail that no other failure is kept.
func (l *leader) full() bool { return l.failing() >= l.config.MaxFailing }

// retry loads the events whose next attempt is due, as far as there is room, and
// starts them. What is not to be sent any more, since an operator or another
// relay has seen to it, gives its streams free.
func (l *leader) retry(stopped, work context.Context) error {
	room := l.room().retries
	var heads []head
	due := map[int64]*failure{}
	for now := time.Now(); len(heads) < room && len(l.failures) > 0 && !l.failures[0].due.After(now); {
		f := heap.Pop(&l.failures).(*failure)
		heads, due[f.head.event] = append(heads, f.head), f
	}
	runs, err := l.load(work, heads)
	if err != nil {
		return err
	}
	for _, r := range runs {
		r.failure = due[r.events[0].id]
		delete(due, r.events[0].id)
		l.start(stopped, work, r)
	}
	for _, f := range due {
		if l.cutAt != "" { // it may be one that had no room
			heap.Push(&l.failures, f)
		} else {
			l.free(f.streams)
		}
	}
	return nil
}

// failed makes an event, the first of its run that was not confirmed, wait for
// its next attempt; those behind it are loaded again. It reports whether the run
// is over, and gives its streams free: since the event is to be parked, or is
// not kept in mind.
func (l *leader) failed(r *run, s stored, err error) (over bool) {
	l.stats.failures.Add(1)
	f := r.failure
	cut := r.life.Err() != nil && !dispatcher.IsPermanent(err)
	if f == nil && (cut || l.full()) && !l.config.hopeless(1, err) {
		l.config.Logger.Debug("outbox: event was not confirmed", "event", s.event.ID, "error", err)
		return true
	}
	now := time.Now()
	if f == nil {
		f = &failure{streams: r.streams, pause: l.newBackoff(), since: now}
		p := s.event.Positions[0]
		f.head = head{p.Stream.String(), int64(p.Number), s.id}
	}
	if cut { // which says nothing about the event
		f.due = now
		heap.Push(&l.failures, f)
		return false
	}
	f.attempts++
	if l.config.hopeless(f.attempts, err) {
		l.unfit = append(l.unfit, unfit{s.id, s.event.ID, positionText(s.event), f.attempts, err})
		return true
	}
	wait := f.pause.NextBackOff()
	f.due = now.Add(wait)
	heap.Push(&l.failures, f)
	l.tellFailure(f, s, err, wait)
	return false
}

// What is told of failing events in a minute: a receiver that is away can be
// that of very many.
const (
	tellFailures = 10
	tellEvery    = time.Minute
)

// tellFailure tells of a failed attempt that another one will follow: loudly the
// first time, since an event that fails goes on failing for as long as its
// receiver is away.
func (l *leader) tellFailure(f *failure, s stored, err error, wait time.Duration) {
	tell := l.config.Logger.Debug
	if f.attempts == 1 {
		if f.told, _ = l.tell.Take(); f.told {
			tell = l.config.Logger.Warn
		}
		l.lastError = err
	}
	tell("outbox: event was not confirmed, and its streams wait", "event", s.event.ID, "position", positionText(s.event),
		"attempt", f.attempts, "again_in", wait, "failing", l.failing(), "error", err)
}

// recovered tells of an event that was confirmed after it had failed.
func (l *leader) recovered(f *failure) {
	tell := l.config.Logger.Debug
	if f.told {
		tell = l.config.Logger.Info
	}
	tell("outbox: event was confirmed, and its streams go on", "stream", f.head.stream, "number", f.head.number,
		"failed_attempts", f.attempts, "after", time.Since(f.since), "failing", l.failing())
}

// tellMore tells of the events that tellFailure was silent about, and of too
// many.
func (l *leader) tellMore() {
	if n := l.tell.Withheld(); n > 0 {
		l.config.Logger.Warn("outbox: more events were not confirmed, and their streams wait",
			"events", n, "failing", l.failing(), "last_error", l.lastError)
	}
	switch {
	case l.full() && !l.toldFull:
		l.toldFull = true
		l.config.Logger.Error("outbox: MaxFailing events fail: others that fail have no back-off of their own, and what is new is sent slowly",
			"failing", l.failing(), "last_error", l.lastError)
	case l.failing() < l.config.MaxFailing/2:
		l.toldFull = false
	}
}

// nextLook returns when to look for work that nobody tells of.
func (l *leader) nextLook() time.Duration {
	wait, room := l.config.Poll, l.room()
	if l.away.since.IsZero() && len(l.failures) > 0 && room.retries > 0 {
		wait = min(wait, time.Until(l.failures[0].due))
	}
	switch {
	case room.any <= 0:
		wait = min(wait, room.next)
	case l.news && !l.full():
		wait = min(wait, time.Until(l.rest))
	}
	return wait
}
