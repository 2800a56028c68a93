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

// ErrUnfinished is wrapped by the error of Close if messages were left, and by
// that of Shutdown if at its deadline handlers were still running, messages
// were held, or completion callbacks had not returned.
var ErrUnfinished = errors.New("dispatcher: unfinished messages")

// Report lists the messages that a shutdown left.
type Report[M any] struct {
	// Unfinished are the messages that have not ended and do not run, in order
	// of arrival. Their result is [ErrClosed]. They belong to the caller now,
	// for example to return them to their source.
	Unfinished []Left[M]
	// Running are the messages whose handlers, or completion callbacks, had not
	// returned at the deadline, and those that are held (see State and [Hold]),
	// in order of arrival. Each completes as usual when its handler has
	// returned or it is finished. Until then a running one keeps its goroutine,
	// and while any is held the idle workers stay.
	Running []Left[M]
}

// Left is a message that a shutdown left.
type Left[M any] struct {
	ID       uint64
	Name     string // that Config.Name gives it
	Message  M
	State    State // where it stood
	Claim    []lockkeys.Request
	Attempts int   // failed ones; an attempt cut off by the shutdown does not count
	Err      error // of the last attempt
}

// Shutdown stops the dispatcher: from now on submissions are refused and no
// handler starts, neither first attempts nor retries. It waits for the running
// handlers and for held messages (see [Hold]), which complete as usual. Shortly
// before the deadline of ctx (see Config.CancelGrace), or when ctx is
// cancelled, the contexts of handlers end; an error that a handler returns
// after that does not count as an attempt and parks nothing. Then all remaining
// messages get the result [ErrClosed], in the order of arrival. Shutdown
// returns at the deadline at the latest, however slow handlers and callbacks
// are.
//
// If handlers still run, messages are held, or completion callbacks have not
// returned, the error wraps [ErrUnfinished] and the error of ctx, and names the
// messages or counts the callbacks. If only an observer has not received all
// events, it wraps the error of ctx. Otherwise it is nil, and no goroutine of
// the dispatcher is left. A second call waits likewise, but its report has only
// what still runs.
//
// In a handler or a callback, where it would wait for itself, the error is
// [ErrNested], and nothing is stopped.
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
	for _, left := range [][]Left[M]{report.Unfinished, report.Running} {
		for i := range left {
			left[i].Name = d.name(left[i].Message)
		}
	}
	if len(report.Running) > 0 {
		return report, fmt.Errorf("%w: %w: still running or held are %s", ErrUnfinished, err, names(report.Running))
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

// refuse ends acceptance and starts.
func (d *Dispatcher[M]) refuse() {
	d.intake.refuse(ErrClosed)
	d.stopAccepts(ErrClosed)
	d.mu.Lock()
	defer d.letGo()
	if d.mu.closing {
		return
	}
	d.mu.closing = true
	for t := range d.mu.kept {
		if t.state == StateBackoff {
			t.stopTimer()
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

// end is the progress of a shutdown. It is part of Dispatcher.mu.
type end[M any] struct {
	gone     int        // workers that have ended
	reported bool       // the remaining messages have been taken over
	untold   []*task[M] // those of them that have no result yet, in order of arrival
	telling  bool       // a goroutine completes them
	over     bool
}

// endWorkerLocked records that a worker ends, and closes workersGone with the
// last one. If its handler outlived Shutdown, messages that this has left are
// taken over now.
func (d *Dispatcher[M]) endWorkerLocked() {
	e := &d.mu.end
	e.gone++
	if e.gone == len(d.mu.workers) {
		close(d.workersGone)
		d.endEventsLocked()
	}
	if e.reported {
		d.abandonLocked(d.takeLeftLocked())
	}
}

// endEventsLocked ends the events once none can follow: a message that an operator is giving
// up has its last one after that of the last worker, perhaps.
func (d *Dispatcher[M]) endEventsLocked() {
	if d.mu.end.gone == len(d.mu.workers) && d.mu.leaving == 0 {
		d.mu.events.closeLocked()
	}
}

// abandonLocked gives ErrClosed to messages that will not run, and closes over
// when nothing is left to do.
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
// callbacks may be slow: only a Shutdown before its deadline waits for them.
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

// untold returns how many messages do not run and have no result yet.
func (d *Dispatcher[M]) untold() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.mu.end.untold) + d.mu.leaving
}

// takeLeftLocked removes and returns the messages that have not ended and do
// not run, in order of arrival.
func (d *Dispatcher[M]) takeLeftLocked() (left []*task[M]) {
	left = append(left, d.mu.waiting.all()...)
	left = append(left, d.mu.aside.all()...)
	left = append(left, d.mu.beyond.all()...)
	d.mu.waiting, d.mu.aside, d.mu.beyond = taskList[M]{}, taskList[M]{}, taskList[M]{}
	clear(d.mu.parked)
	left = append(left, d.mu.ready...)
	d.mu.ready = nil
	for t := range d.mu.kept {
		if t.state != StateHeld {
			left = append(left, t)
			d.unkeepLocked(t)
		}
	}
	slices.SortFunc(left, byArrival)
	for t := d.nextLocked(); t != nil; t = d.nextLocked() {
		t.state = StateQueued
		left = append(left, t)
	}
	return left
}

// report takes over the remaining messages, starts to complete them with
// ErrClosed, and lists them and what still runs.
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
	for _, t := range d.heldLocked() {
		r.Running = append(r.Running, leftOf(t))
	}
	slices.SortFunc(r.Running, func(a, b Left[M]) int { return cmp.Compare(a.ID, b.ID) })
	d.abandonLocked(left)
	return r
}

func leftOf[M any](t *task[M]) Left[M] {
	attempts := int(t.attempts)
	if t.state == StateRunning || t.state == StateHeld {
		attempts = max(attempts-1, 0) // 0 if its keys could not be derived
	}
	return Left[M]{ID: t.id, Message: t.msg, State: t.state, Claim: slices.Clone(t.claim.Requests()), Attempts: attempts, Err: t.err}
}

// names lists messages for an error.
func names[M any](left []Left[M]) string {
	const most = 10
	text := fmt.Sprintf("%d messages:", len(left))
	for i, l := range left {
		if i == most {
			return text + " ..."
		}
		if i > 0 {
			text += ","
		}
		text += " " + describe(l.Name, l.Claim)
	}
	return text
}

// Drain waits until every accepted message has ended, except those that are
// parked or queued behind a parked one. It does not stop submissions: while
// others submit, it waits for a moment without work. The error is that of ctx,
// or that of [Dispatcher.Err] if the dispatcher was shut down or stopped with
// messages left; in a handler or a callback it is [ErrNested].
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

// isQuietLocked reports whether all messages have ended, except parked ones and
// those behind them.
func (d *Dispatcher[M]) isQuietLocked() bool {
	if d.mu.waiting.len > 0 || len(d.mu.ready) > 0 || !d.intake.empty() || len(d.mu.kept) > 0 || d.mu.held > 0 || d.mu.leaving > 0 {
		return false
	}
	return d.runningLocked() == 0
}

// quietLocked releases the waiting Drain calls if all is quiet, or never will
// be.
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
