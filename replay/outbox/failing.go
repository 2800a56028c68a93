package outbox

import (
	"container/heap"
	"context"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
)

// failure is kept for a failed event between attempts. The event itself is loaded
// again, so that very many can fail. Its streams stay busy.
type failure struct {
	head    head
	streams []string

	attempts int       // number of failed ones
	due      time.Time // time of the next attempt
	since    time.Time // time of the first failure
	told     bool      // the failure was logged, so its end will be
}

// failures is a heap ordered by due.
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

// failing returns the number of failed events that are not sent yet.
func (l *leader) failing() int { return len(l.failures) + l.retrying }

// full reports whether MaxFailing is reached, so that no other failure is kept.
func (l *leader) full() bool { return l.failing() >= l.config.MaxFailing }

// retry loads the events whose next attempt is due, as far as there is room, and
// starts them. It frees the streams of events that were sent by another relay or
// given up by an operator.
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
		r.failure = due[r.events[0].at.event]
		delete(due, r.events[0].at.event)
		l.start(stopped, work, r)
	}
	for _, f := range due {
		if l.cutAt != 0 { // MaxBytes may have left it out
			heap.Push(&l.failures, f)
		} else {
			l.free(f.streams)
		}
	}
	return nil
}

// failed makes an event, the first unconfirmed one of its run, wait for its next
// attempt; those behind it will be loaded again. It reports whether the run is
// over instead, so that its streams become free: because the event is to be
// parked, or its failure is not kept.
func (l *leader) failed(r *run, s stored, err error) (over bool) {
	l.stats.failures.Add(1)
	f := r.failure
	cut := r.life.Err() != nil && !dispatcher.IsPermanent(err)
	if f == nil && (cut || l.full()) && !l.config.hopeless(1, err) {
		l.config.Logger.Debug("outbox: event was not confirmed", "event", s.event.ID, "err", err)
		return true
	}
	now := time.Now()
	if f == nil {
		f = &failure{head: s.at, streams: r.streams, since: now}
	}
	if cut { // it does not count as an attempt
		f.due = now
		heap.Push(&l.failures, f)
		return false
	}
	f.attempts++
	if l.config.hopeless(f.attempts, err) {
		l.unfit = append(l.unfit, unfit{s.at.event, s.event.ID, positionText(s.event), f.attempts, err})
		return true
	}
	wait := l.config.Backoff.Wait(f.attempts)
	f.due = now.Add(wait)
	heap.Push(&l.failures, f)
	l.tellFailure(f, s, err, wait)
	return false
}

// Limits of log lines about failing events: an unavailable receiver may have very
// many.
const (
	tellFailures = 10
	tellEvery    = time.Minute
)

// tellFailure logs a failed attempt that will be repeated: as a warning the first
// time only, since an event goes on failing for as long as its receiver is
// unavailable.
func (l *leader) tellFailure(f *failure, s stored, err error, wait time.Duration) {
	tell := l.config.Logger.Debug
	if f.attempts == 1 {
		if f.told, _ = l.tell.Take(); f.told {
			tell = l.config.Logger.Warn
		}
		l.lastError = err
	}
	tell("outbox: event was not confirmed, and its streams wait", "event", s.event.ID, "position", positionText(s.event),
		"attempt", f.attempts, "again_in", wait, "failing", l.failing(), "err", err)
}

// recovered logs the confirmation of an event that had failed.
func (l *leader) recovered(f *failure) {
	tell := l.config.Logger.Debug
	if f.told {
		tell = l.config.Logger.Info
	}
	tell("outbox: event was confirmed, and its streams go on", "position", f.head.position(),
		"failed_attempts", f.attempts, "after", time.Since(f.since), "failing", l.failing())
}

// tellMore logs the number of failures withheld by tellFailure, and that MaxFailing
// is reached.
func (l *leader) tellMore() {
	if n := l.tell.Withheld(); n > 0 {
		l.config.Logger.Warn("outbox: more events were not confirmed, and their streams wait",
			"events", n, "failing", l.failing(), "err", l.lastError)
	}
	switch {
	case l.full() && !l.toldFull:
		l.toldFull = true
		l.config.Logger.Error("outbox: MaxFailing events fail: further ones have no back-off of their own, and new events are sent slowly",
			"failing", l.failing(), "err", l.lastError)
	case l.failing() < l.config.MaxFailing/2:
		l.toldFull = false
	}
}

// nextLook returns the time until the leader should look for work without being
// notified.
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
