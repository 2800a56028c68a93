package dispatcher

import (
	"context"
	"fmt"
)

// SubmitOption adds to a submission; see [OnDone].
type SubmitOption[M any] struct{ done func(m M, err error) }

// OnDone sets the completion callback of a submission. It is called exactly
// once for every message of the submission that was accepted, with the
// message's result: nil, a [*HandlerError], or [ErrClosed] if a shutdown left
// it unfinished. It is called on a worker before the message's keys are
// released, so for conflicting messages in their order and one at a time; it
// must be quick, and must not wait for another message of this dispatcher:
// what waits for the dispatcher is refused there with [ErrNested], as in a
// handler. What a shutdown or an operator gives up is told by another
// goroutine, one by one in the order of arrival, likewise before keys are
// released. A message that is parked has no result until an operator decides.
//
// Given several times, all callbacks are called, in the order given; a panic
// of one is logged and keeps none of the others from being called.
func OnDone[M any](done func(m M, err error)) SubmitOption[M] {
	return SubmitOption[M]{done: done}
}

// Submit accepts m. The order in which messages are accepted is the order in
// which conflicting ones run. While the queue is full it waits, and the
// submissions that wait are accepted in the order in which they came.
//
// The error is nil if m was accepted, and then m will have a result.
// Otherwise it was not: the error wraps that of ctx, and its cause, if it ended
// while waiting; it is [ErrClosed], [ErrTooLarge],
// [ErrTooManyParked] or [ErrNested], or wraps
// [ErrStopped], or the [*PanicError] of Config.Size.
func (d *Dispatcher[M]) Submit(ctx context.Context, m M, opts ...SubmitOption[M]) error {
	one := d.newArrival(m, opts)
	_, err := d.submit(ctx, one[:])
	d.freeArrival(one)
	return err
}

// TrySubmit is [Dispatcher.Submit] without waiting: the error is [ErrFull]
// where that would wait.
func (d *Dispatcher[M]) TrySubmit(m M, opts ...SubmitOption[M]) error {
	one := d.newArrival(m, opts)
	defer d.freeArrival(one)
	if err := d.refusal(&one[0]); err != nil {
		return err
	}
	n, err := d.tryAccept(one[:])
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
	arrivals := make([]arrival[M], len(ms))
	for i, m := range ms {
		d.fill(&arrivals[i], m, opts)
	}
	return d.submit(ctx, arrivals)
}

// Do submits m and waits for its result. If ctx ends first, Do returns its
// error; a message that was accepted by then runs all the same. A message
// that is parked keeps Do waiting. The errors are those of Submit, and the
// result of m.
func (d *Dispatcher[M]) Do(ctx context.Context, m M) error {
	if d.within(ctx) {
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
	one := d.newArrival(m, opts)
	defer d.freeArrival(one)
	ticket := &Ticket{within: d.within, done: make(chan struct{})}
	one[0].more().ticket = ticket
	if _, err := d.submit(ctx, one[:]); err != nil {
		return nil, err
	}
	return ticket, nil
}

// Ticket stands for one accepted message.
type Ticket struct {
	within func(context.Context) bool // of the dispatcher
	done   chan struct{}
	err    error // set before done is closed
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
// either error. With the context of a handler of the same dispatcher it does
// not wait: if there is no result yet, the error is [ErrNested].
func (t *Ticket) Wait(ctx context.Context) error {
	select {
	case <-t.done:
		return t.err
	default:
	}
	if t.within(ctx) {
		return ErrNested
	}
	if err := wait(ctx, t.done); err != nil {
		return err
	}
	return t.err
}

// newArrival makes the arrival of a submission of one.
func (d *Dispatcher[M]) newArrival(m M, opts []SubmitOption[M]) *[1]arrival[M] {
	one := d.arrivals.Get().(*[1]arrival[M])
	d.fill(&one[0], m, opts)
	return one
}

func (d *Dispatcher[M]) freeArrival(one *[1]arrival[M]) {
	one[0].reset()
	d.arrivals.Put(one)
}

// fill makes a the arrival of m, with its keys.
func (d *Dispatcher[M]) fill(a *arrival[M], m M, opts []SubmitOption[M]) {
	a.msg = m
	for _, o := range opts {
		a.done = both(a.done, o.done)
	}
	if d.cfg.Size != nil {
		if err := d.size(a); err != nil {
			a.more().refusal = fmt.Errorf("dispatcher: Size: %w", err)
			return
		}
	}
	if err := d.deriveKeys(a); err != nil {
		a.claim.Reset()
		a.more().keyErr = &KeyFuncError{err}
	}
}

// both returns a callback that calls first and then second, whatever first
// does. Either may be nil.
func both[M any](first, second func(M, error)) func(M, error) {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(m M, err error) {
		defer second(m, err)
		first(m, err)
	}
}

func (a *arrival[M]) more() *rare {
	if a.rare == nil {
		a.rare = new(rare)
	}
	return a.rare
}

func (d *Dispatcher[M]) deriveKeys(a *arrival[M]) (err error) {
	defer recoverAs(&err)
	return d.cfg.Keys(a.msg, &a.claim)
}

func (d *Dispatcher[M]) size(a *arrival[M]) (err error) {
	defer recoverAs(&err)
	a.size = max(d.cfg.Size(a.msg), 0)
	return nil
}

// refusal returns why a cannot be accepted, however long one waits, or nil.
func (d *Dispatcher[M]) refusal(a *arrival[M]) error {
	if a.rare != nil && a.rare.refusal != nil {
		return a.rare.refusal
	}
	if d.cfg.MaxPendingBytes > 0 && a.size > d.cfg.MaxPendingBytes {
		return ErrTooLarge
	}
	return d.tooManyParked(&a.claim)
}

// submit accepts arrivals in their order, waiting for slots if need be, and
// returns how many it has accepted. What comes before one that is refused is
// accepted.
func (d *Dispatcher[M]) submit(ctx context.Context, arrivals []arrival[M]) (accepted int, err error) {
	var refusal error
	for i := range arrivals {
		if refusal = d.refusal(&arrivals[i]); refusal != nil {
			arrivals = arrivals[:i]
			break
		}
	}
	if ctx.Err() != nil {
		return 0, endOf(ctx)
	}
	accepted, err = d.tryAccept(arrivals)
	if err == nil && accepted < len(arrivals) {
		var n int
		n, err = d.acceptInTurn(ctx, arrivals[accepted:])
		accepted += n
	}
	if err == nil {
		err = refusal
	}
	return accepted, err
}

// acceptInTurn accepts arrivals, waiting for slots in turn with others that
// wait.
func (d *Dispatcher[M]) acceptInTurn(ctx context.Context, arrivals []arrival[M]) (accepted int, err error) {
	if d.Nested(ctx) {
		return 0, ErrNested
	}
	if err := d.intake.enterTurnstile(ctx); err != nil {
		return 0, err
	}
	defer d.intake.leaveTurnstile()
	d.giveBackSlots()
	for {
		n, err := d.accept(arrivals[accepted:], true)
		accepted += n
		if err != nil || accepted == len(arrivals) {
			return accepted, err
		}
		if err := d.intake.awaitFreed(ctx); err != nil {
			return accepted, err
		}
	}
}

// tryAccept accepts arrivals, from the first on, as long as there are slots,
// be they on their way back.
func (d *Dispatcher[M]) tryAccept(arrivals []arrival[M]) (accepted int, err error) {
	accepted, err = d.accept(arrivals, false)
	if err == nil && accepted < len(arrivals) && d.giveBackSlots() {
		var n int
		n, err = d.accept(arrivals[accepted:], false)
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

// accept puts arrivals into the intake, as intake.accept does, and sees to it
// that a worker knows.
func (d *Dispatcher[M]) accept(arrivals []arrival[M], turn bool) (n int, err error) {
	if d.cfg.Observer != nil {
		// An observer is told of messages in the order of their numbers.
		d.mu.Lock()
		defer d.letGo()
		n, last, err := d.intake.accept(arrivals, turn)
		for i := range n {
			d.emitQueuedLocked(&arrivals[i], last-uint64(n-1-i))
		}
		return n, err
	}
	n, _, err = d.intake.accept(arrivals, turn)
	if n > 0 && d.idle.Load() > 0 && !d.waking.Load() {
		d.mu.Lock()
		d.letGo()
	}
	return n, err
}
