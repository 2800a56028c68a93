package dispatcher

import (
	"context"
	"runtime/debug"
)

// SubmitOption adds to a submission; see [OnDone].
type SubmitOption[M any] struct{ done func(m M, err error) }

// OnDone sets the completion callback of a submission. It is called exactly
// once for every message of the submission that was accepted, with the
// message's result: nil, a [*HandlerError], or [ErrClosed] if a shutdown left
// it unfinished. It is called on a worker before the message's keys are
// released, so for conflicting messages in their order and one at a time; it
// must be quick, and must not wait for another message of this dispatcher.
// A message that is parked has no result until an operator decides.
func OnDone[M any](done func(m M, err error)) SubmitOption[M] {
	return SubmitOption[M]{done: done}
}

// Submit accepts m. The order in which messages are accepted is the order in
// which conflicting ones run. While the queue is full it waits, and the
// submissions that wait are accepted in the order in which they came.
//
// The error is nil if m was accepted, and then m will have a result.
// Otherwise it was not: the error is that of ctx if it ended while waiting,
// [ErrClosed], [ErrTooLarge], [ErrNested], or one that wraps [ErrStopped].
func (d *Dispatcher[M]) Submit(ctx context.Context, m M, opts ...SubmitOption[M]) error {
	_, err := d.submit(ctx, d.newTasks(m, opts))
	return err
}

// TrySubmit is [Dispatcher.Submit] without waiting: the error is [ErrFull]
// where that would wait.
func (d *Dispatcher[M]) TrySubmit(m M, opts ...SubmitOption[M]) error {
	l := d.newTasks(m, opts)
	if err := d.tooLarge(l.first); err != nil {
		return err
	}
	n, err := d.tryAccept(&l)
	if err == nil && n == 0 {
		err = ErrFull
	}
	return err
}

// SubmitBatch accepts messages in their order, all at once if there is room
// for them: other submissions then come before or after, not between. It
// returns how many were accepted, from the first on; if that is not all of
// them, the error is that of [Dispatcher.Submit] for the next one.
func (d *Dispatcher[M]) SubmitBatch(ctx context.Context, ms []M, opts ...SubmitOption[M]) (accepted int, err error) {
	var l fifo[M]
	for _, m := range ms {
		l.push(d.newTask(m, opts))
	}
	return d.submit(ctx, l)
}

// Do submits m and waits for its result. If ctx ends first, Do returns its
// error; a message that was accepted by then runs all the same. A message
// that is parked keeps Do waiting. The errors are those of Submit, and the
// result of m.
func (d *Dispatcher[M]) Do(ctx context.Context, m M) error {
	if within(ctx, d) {
		return ErrNested
	}
	ticket, err := d.Go(ctx, m)
	if err != nil {
		return err
	}
	return ticket.Wait(ctx)
}

// Go submits m and returns a ticket to wait for its result. The errors are
// those of Submit.
func (d *Dispatcher[M]) Go(ctx context.Context, m M, opts ...SubmitOption[M]) (*Ticket, error) {
	l := d.newTasks(m, opts)
	ticket := &Ticket{done: make(chan struct{})}
	l.first.more().ticket = ticket
	if _, err := d.submit(ctx, l); err != nil {
		return nil, err
	}
	return ticket, nil
}

// Ticket stands for one accepted message.
type Ticket struct {
	done chan struct{}
	err  error // set before done is closed
}

// Done returns a channel that is closed when the message has its result.
func (t *Ticket) Done() <-chan struct{} { return t.done }

// Err returns the message's result, or nil while it has none.
func (t *Ticket) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

// Wait waits for the message's result, or for the end of ctx, and returns
// either error.
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// newTask makes the task of a message that is not accepted yet, with its keys.
func (d *Dispatcher[M]) newTask(m M, opts []SubmitOption[M]) *task[M] {
	t := d.intake.spareTask()
	t.msg = m
	for _, o := range opts {
		t.done = o.done
	}
	if d.cfg.Size != nil {
		t.size = max(d.cfg.Size(m), 0)
	}
	if err := d.deriveKeys(t); err != nil {
		t.claim.Reset()
		t.more().keyErr = &KeyFuncError{err}
	}
	t.claim.Requests() // normalised here, outside the mutex
	return t
}

// newTasks is newTask for a submission of one.
func (d *Dispatcher[M]) newTasks(m M, opts []SubmitOption[M]) (l fifo[M]) {
	l.push(d.newTask(m, opts))
	return l
}

func (d *Dispatcher[M]) deriveKeys(t *task[M]) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, debug.Stack()}
		}
	}()
	return d.cfg.Keys(t.msg, &t.claim)
}

func (d *Dispatcher[M]) tooLarge(t *task[M]) error {
	if d.cfg.MaxPendingBytes > 0 && t.size > d.cfg.MaxPendingBytes {
		return ErrTooLarge
	}
	return nil
}

// submit accepts the tasks of l in their order, waiting for slots if need be,
// and returns how many it has accepted. What comes before one that is too
// large is accepted.
func (d *Dispatcher[M]) submit(ctx context.Context, l fifo[M]) (accepted int, err error) {
	var large error
	for t := l.first; t != nil && large == nil; t = t.next {
		if large = d.tooLarge(t); large != nil {
			l.cutBefore(t)
		}
	}
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	accepted, err = d.tryAccept(&l)
	if err == nil && l.first != nil {
		var n int
		n, err = d.acceptInTurn(ctx, &l)
		accepted += n
	}
	if err == nil {
		err = large
	}
	return accepted, err
}

// acceptInTurn accepts the tasks of l, waiting for slots in turn with others
// that wait.
func (d *Dispatcher[M]) acceptInTurn(ctx context.Context, l *fifo[M]) (accepted int, err error) {
	if within(ctx, d) {
		return 0, ErrNested
	}
	if err := d.intake.enterTurnstile(ctx); err != nil {
		return 0, err
	}
	defer d.intake.leaveTurnstile()
	d.giveBackSlots()
	for {
		n, err := d.accept(l, true)
		accepted += n
		if err != nil || l.first == nil {
			return accepted, err
		}
		if err := d.intake.awaitFreed(ctx); err != nil {
			return accepted, err
		}
	}
}

// tryAccept accepts tasks from the front of l as long as there are slots, be
// they on their way back.
func (d *Dispatcher[M]) tryAccept(l *fifo[M]) (accepted int, err error) {
	accepted, err = d.accept(l, false)
	if err == nil && l.first != nil && d.giveBackSlots() {
		var n int
		n, err = d.accept(l, false)
		accepted += n
	}
	return accepted, err
}

// giveBackSlots gives back the slots that are on their way and tells whether
// there were any.
func (d *Dispatcher[M]) giveBackSlots() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.left.count == 0 {
		return false
	}
	d.intake.giveBack(&d.mu.left)
	return true
}

// accept puts tasks into the intake, as intake.accept does, and sees to it
// that a worker knows.
func (d *Dispatcher[M]) accept(l *fifo[M], turn bool) (n int, err error) {
	// An observer is told of messages in the order of their numbers.
	observed := d.cfg.Observer != nil
	if observed {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	n, err = d.intake.accept(l, turn)
	switch {
	case n == 0:
	case observed:
		d.takeOverLocked()
		d.signalLocked()
	case d.idle.Load() > 0 && !d.waking.Load():
		d.mu.Lock()
		d.signalLocked()
		d.mu.Unlock()
	}
	return n, err
}

// takeOverLocked moves what the intake has accepted to the queue.
func (d *Dispatcher[M]) takeOverLocked() {
	at := d.mu.queue.last
	d.intake.takeOver(&d.mu.queue)
	if at == nil {
		at = d.mu.queue.first
	} else {
		at = at.next
	}
	for t := at; t != nil; t = t.next {
		t.state, t.holdsSlot, t.place.Owner = StateQueued, true, t
		d.mu.stats.Accepted++
		d.emitLocked(Queued, t, -1, nil)
	}
}
