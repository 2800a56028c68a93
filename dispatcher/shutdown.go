package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// ErrUnfinished is wrapped by the error of Close when messages were left, and
// by that of Shutdown when handlers were still running at its deadline.
var ErrUnfinished = errors.New("dispatcher: unfinished messages")

// Report is what a shutdown left.
type Report[M any] struct {
	// Unfinished are the messages that did not end and do not run, in order
	// of arrival. Their result is [ErrClosed]. They are the caller's now, to
	// hand back to where they came from.
	Unfinished []Left[M]
	// Running are the messages whose handlers, or the callbacks called behind
	// them, had not returned at the deadline, in order of arrival. Each keeps
	// its goroutine until they have, and completes as usual.
	Running []Left[M]
}

// Left is a message that a shutdown left.
type Left[M any] struct {
	ID       uint64
	Message  M
	State    State // where it stood
	Claim    []lockkeys.Request
	Attempts int   // ended without success; one cut off by the shutdown is none
	Err      error // of the last attempt
}

// Shutdown stops the dispatcher: from now on submissions are refused and no
// handler starts, be it for the first time or again. It waits for the handlers
// that run, which finish and complete as usual. Shortly before the deadline
// of ctx (see Config.CancelGrace), or when ctx is cancelled, their contexts
// end; an error that a handler gives after that is not counted as an attempt
// and parks nothing. Then all that is left is told [ErrClosed], in the order of
// arrival. Shutdown returns at the deadline at the latest, however slow
// handlers and callbacks are.
//
// If handlers still run, or completion callbacks have not returned, the error
// wraps [ErrUnfinished] and the error of ctx and names them; if there is an
// observer and it has not seen all events, the error wraps that of ctx;
// otherwise it is nil, and no goroutine of the dispatcher is left. A second call
// waits likewise, but its report has only what still runs.
//
// In a handler or a callback, where it would wait for itself, the error is
// [ErrNested], and nothing is stopped; see there.
func (d *Dispatcher[M]) Shutdown(ctx context.Context) (Report[M], error) {
	if d.Nested(ctx) {
		return Report[M]{}, ErrNested
	}
	d.refuse()
	stopCancel := d.cancelBefore(ctx)
	err := wait(ctx, d.workersGone)
	stopCancel()
	d.cancelWork()
	report := d.report()
	if len(report.Running) > 0 {
		return report, fmt.Errorf("%w: %w: the handlers of %s still run", ErrUnfinished, err, names(report.Running))
	}
	// The workers end by themselves now, if they have not yet.
	if err := wait(ctx, d.over); err != nil {
		if n := d.untold(); n > 0 {
			return report, fmt.Errorf("%w: %w: completion callbacks of %d messages have not returned", ErrUnfinished, err, n)
		}
	}
	if err := wait(ctx, d.observerGone); err != nil {
		return report, fmt.Errorf("dispatcher: the observer has not seen all events: %w", err)
	}
	return report, nil
}

// Close is [Dispatcher.Shutdown] without a deadline. The error wraps
// [ErrUnfinished] if any message was left; call Drain first to run them all.
// In a handler or a callback it is [ErrNested], and nothing is closed.
func (d *Dispatcher[M]) Close() error {
	report, err := d.Shutdown(context.Background())
	if err == nil && len(report.Unfinished) > 0 {
		err = fmt.Errorf("%w: %s", ErrUnfinished, names(report.Unfinished))
	}
	return err
}

func wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return endOf(ctx)
	}
}

// endOf returns the error of ctx, which has ended, together with its cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// refuse ends acceptance and starting.
func (d *Dispatcher[M]) refuse() {
	d.intake.refuse(ErrClosed)
	d.stopAccepts(ErrClosed)
	d.mu.Lock()
	defer d.letGo()
	if d.mu.closing {
		return
	}
	d.mu.closing = true
	for t := range d.mu.backoff {
		if t.extra != nil && t.extra.timer != nil {
			t.extra.timer.Stop()
		}
	}
	d.mu.work.Broadcast()
}

// cancelBefore ends the contexts of handlers shortly before ctx ends.
func (d *Dispatcher[M]) cancelBefore(ctx context.Context) (stop func()) {
	stopCtx := context.AfterFunc(ctx, d.cancelWork)
	deadline, ok := ctx.Deadline()
	if !ok {
		return func() { stopCtx() }
	}
	left := time.Until(deadline)
	timer := time.AfterFunc(left-min(d.cfg.CancelGrace, left/2), d.cancelWork)
	return func() { stopCtx(); timer.Stop() }
}

// end is how far a shutdown has come. It is part of Dispatcher.mu.
type end[M any] struct {
	gone     int        // workers that have ended
	reported bool       // what was left has been taken over
	untold   []*task[M] // of that, what has no result yet, in order of arrival
	telling  bool       // a goroutine completes them
	over     bool
}

// endWorkerLocked notes that a worker ends; the last one says so. What its
// handler leaves, if that outlived Shutdown, is taken over now.
func (d *Dispatcher[M]) endWorkerLocked() {
	e := &d.mu.end
	e.gone++
	if e.gone == len(d.mu.workers) {
		close(d.workersGone)
		d.mu.events.closeLocked()
	}
	if e.reported {
		d.abandonLocked(d.takeLeftLocked())
	}
}

// abandonLocked has messages that will not run told so, and notes the end of
// all if nothing is to come.
func (d *Dispatcher[M]) abandonLocked(left []*task[M]) {
	e := &d.mu.end
	for _, t := range left {
		if t.done == nil {
			d.complete(t, ErrClosed) // which calls nobody
		} else {
			e.untold = append(e.untold, t)
		}
	}
	switch {
	case e.telling || e.over:
	case len(e.untold) > 0:
		e.telling = true
		go d.tellAll()
	case e.reported && e.gone == len(d.mu.workers) && d.mu.leaving == 0:
		e.over = true
		close(d.over)
	}
}

// tellAll completes the messages that a shutdown left, one after the other. The
// callbacks may take their time: nobody but a Shutdown with time left waits.
func (d *Dispatcher[M]) tellAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := &d.mu.end
	for len(e.untold) > 0 {
		t := e.untold[0]
		d.mu.Unlock()
		d.completeAside(t, ErrClosed)
		d.mu.Lock()
		e.untold[0] = nil
		e.untold = e.untold[1:]
	}
	e.telling = false
	d.abandonLocked(nil)
}

// untold returns how many messages have no result yet though they do not run.
func (d *Dispatcher[M]) untold() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.end.untold) + d.mu.leaving
}

// takeLeftLocked takes over what has not ended and does not run, in order of
// arrival.
func (d *Dispatcher[M]) takeLeftLocked() (left []*task[M]) {
	left = append(left, d.mu.waiting.all()...)
	left = append(left, d.mu.aside.all()...)
	left = append(left, d.mu.beyond.all()...)
	d.mu.waiting, d.mu.aside, d.mu.beyond = taskList[M]{}, taskList[M]{}, taskList[M]{}
	clear(d.mu.parked)
	left = append(left, d.mu.ready...)
	d.mu.ready = nil
	for t := range d.mu.backoff {
		left = append(left, t)
	}
	clear(d.mu.backoff)
	slices.SortFunc(left, byArrival)
	for t := d.nextLocked(); t != nil; t = d.nextLocked() {
		t.state = StateQueued
		left = append(left, t)
	}
	return left
}

// report takes over what is left, has it told so, and tells what it is.
func (d *Dispatcher[M]) report() (r Report[M]) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.end.reported = true
	left := d.takeLeftLocked()
	for _, t := range left {
		r.Unfinished = append(r.Unfinished, leftOf(t))
	}
	for _, w := range d.mu.workers {
		for _, t := range w.batch {
			r.Running = append(r.Running, leftOf(t))
		}
	}
	slices.SortFunc(r.Running, func(a, b Left[M]) int { return cmp.Compare(a.ID, b.ID) })
	d.abandonLocked(left)
	return r
}

func leftOf[M any](t *task[M]) Left[M] {
	attempts := t.attempts
	if t.state == StateRunning {
		attempts = max(attempts-1, 0) // none without keys
	}
	return Left[M]{t.id, t.msg, t.state, slices.Clone(t.claim.Requests()), attempts, t.err}
}

// names lists messages for an error.
func names[M any](left []Left[M]) string {
	const most = 10
	text := fmt.Sprintf("%d messages:", len(left))
	for i, l := range left {
		if i == most {
			return text + " ..."
		}
		text += fmt.Sprintf(" %d %v", l.ID, l.Claim)
	}
	return text
}

// Drain waits until every accepted message has ended, other than those that
// are parked or queued behind a parked one. It does not stop submissions; with
// others still submitting it waits for a moment without work. The error is
// that of ctx, or what [Dispatcher.Err] returns if the dispatcher was shut
// down or stopped with messages left; in a handler or a callback it is
// [ErrNested].
func (d *Dispatcher[M]) Drain(ctx context.Context) error {
	if d.Nested(ctx) {
		return ErrNested
	}
	quiet := make(chan struct{})
	d.mu.Lock()
	d.mu.drainers = append(d.mu.drainers, quiet)
	d.quietLocked()
	d.mu.Unlock()
	if err := wait(ctx, quiet); err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.mu.drainers = slices.DeleteFunc(d.mu.drainers, func(c chan struct{}) bool { return c == quiet })
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isQuietLocked() {
		return d.Err()
	}
	return nil
}

// isQuietLocked tells whether nothing is left but what is parked, or behind
// that.
func (d *Dispatcher[M]) isQuietLocked() bool {
	if d.mu.waiting.len > 0 || len(d.mu.ready) > 0 || !d.intake.empty() || len(d.mu.backoff) > 0 || d.mu.leaving > 0 {
		return false
	}
	return d.runningLocked() == 0
}

// quietLocked lets those who drain go if there is nothing to wait for, or no
// hope of it.
func (d *Dispatcher[M]) quietLocked() {
	if len(d.mu.drainers) == 0 {
		return
	}
	if d.mu.closing || d.mu.stopped != nil || d.isQuietLocked() {
		for _, c := range d.mu.drainers {
			close(c)
		}
		d.mu.drainers = nil
	}
}
