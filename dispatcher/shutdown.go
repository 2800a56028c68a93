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
	// Running are the messages whose handlers had not returned at the
	// deadline, in order of arrival. Each keeps its goroutine until it does,
	// and then completes as usual.
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
// and parks nothing. Shutdown returns at the deadline at the latest, with all
// that is left by then.
//
// If handlers still run, the error wraps [ErrUnfinished] and the error of ctx
// and names the messages; if there is an observer and it has not seen all
// events, the error wraps that of ctx; otherwise it is nil. A second call
// waits likewise, but its report has only what still runs. In a handler the
// error is [ErrNested], and nothing is stopped.
func (d *Dispatcher[M]) Shutdown(ctx context.Context) (Report[M], error) {
	if within(ctx, d) {
		return Report[M]{}, ErrNested
	}
	d.refuse()
	stopCancel := d.cancelBefore(ctx)
	err := wait(ctx, d.workersGone)
	stopCancel()
	d.cancelWork()
	d.mu.Lock()
	d.mu.reported = true
	report, left := d.reportLocked()
	d.mu.Unlock()
	d.abandon(left)
	if len(report.Running) > 0 {
		return report, fmt.Errorf("%w: %w: the handlers of %s still run", ErrUnfinished, err, names(report.Running))
	}
	// The workers end by themselves now, if they have not yet.
	if err := wait(ctx, d.observerGone); err != nil {
		return report, fmt.Errorf("dispatcher: the observer has not seen all events: %w", err)
	}
	return report, nil
}

// Close is [Dispatcher.Shutdown] without a deadline. The error wraps
// [ErrUnfinished] if any message was left; call Drain first to run them all.
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
		return context.Cause(ctx)
	}
}

// refuse ends acceptance and starting.
func (d *Dispatcher[M]) refuse() {
	d.intake.refuse(ErrClosed)
	d.stopAccepts(ErrClosed)
	d.mu.Lock()
	defer d.mu.Unlock()
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
	d.quietLocked()
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

// abandon completes messages that will not run.
func (d *Dispatcher[M]) abandon(left []*task[M]) {
	for _, t := range left {
		d.completeAside(t, ErrClosed)
	}
}

// abandonLate does so for what a handler that outlived Shutdown leaves.
func (d *Dispatcher[M]) abandonLate() {
	d.mu.Lock()
	var left []*task[M]
	if d.mu.reported {
		left = d.takeLeftLocked()
	}
	d.mu.Unlock()
	d.abandon(left)
}

// takeLeftLocked takes over what has not ended and does not run, in order of
// arrival.
func (d *Dispatcher[M]) takeLeftLocked() (left []*task[M]) {
	for t := d.mu.waiting.first; t != nil; {
		next := t.next
		if t.state == StateWaiting { // not the running rest of a batch
			d.mu.waiting.remove(t)
			left = append(left, t)
			if t.stalled {
				d.closedNoMoreLocked(t)
			} else {
				d.mu.looking--
			}
		}
		t = next
	}
	left = append(left, d.mu.ready...)
	d.mu.ready = nil
	for t := range d.mu.backoff {
		left = append(left, t)
	}
	clear(d.mu.backoff)
	for _, t := range d.mu.parked {
		left = append(left, t)
		d.closedNoMoreLocked(t)
	}
	clear(d.mu.parked)
	slices.SortFunc(left, func(a, b *task[M]) int { return cmp.Compare(a.id, b.id) })
	for t := d.nextLocked(); t != nil; t = d.nextLocked() {
		t.state = StateQueued
		left = append(left, t)
	}
	return left
}

func (d *Dispatcher[M]) reportLocked() (r Report[M], left []*task[M]) {
	left = d.takeLeftLocked()
	for _, t := range left {
		r.Unfinished = append(r.Unfinished, leftOf(t))
	}
	for _, w := range d.mu.workers {
		for _, t := range w.batch {
			r.Running = append(r.Running, leftOf(t))
		}
	}
	slices.SortFunc(r.Running, func(a, b Left[M]) int { return cmp.Compare(a.ID, b.ID) })
	return r, left
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
// down or stopped with messages left; in a handler it is [ErrNested]. Messages
// beyond Config.MaxParked that wait behind parked ones are waited for.
func (d *Dispatcher[M]) Drain(ctx context.Context) error {
	if within(ctx, d) {
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
	if d.mu.looking > 0 || len(d.mu.ready) > 0 || !d.intake.empty() || len(d.mu.backoff) > 0 || d.mu.leaving > 0 {
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
