package dispatcher

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
)

// SubmitOption adds to a submission; see [OnDone] and [ValuesOf].
type SubmitOption[M any] struct {
	done   func(m M, err error)
	values context.Context // nil for those of the submission's own context
}

// OnDone sets the completion callback of a submission. It is called exactly
// once for every message of the submission that was accepted, with the
// message's result: nil, a [*HandlerError], or [ErrClosed] if a shutdown left
// it unfinished. It is called on a worker before the message's keys are
// released, so for conflicting messages in order and one at a time. It must be
// quick, and must not wait for another message of this dispatcher: methods that
// wait are refused there with [ErrNested], as in a handler. For messages that a
// shutdown or an operator gives up, it is called on another goroutine, one by
// one in the order of arrival, also before keys are released. A parked message
// has no result until an operator decides.
//
// If it is given several times, all callbacks are called, in the order given; a
// panic in one is logged, the last if there are several, and the others are called
// all the same. OnDone panics if done is nil.
func OnDone[M any](done func(m M, err error)) SubmitOption[M] {
	if done == nil {
		panic("dispatcher: OnDone: the callback is nil: give one, or leave the option out")
	}
	return SubmitOption[M]{done: done}
}

// ValuesOf gives the handler's context the values of ctx, instead of those of the context
// of the submission. It is for those who submit a message for somebody else, of whom it has
// the trace or the user for example. ctx may have ended. The last one counts; ValuesOf
// panics if ctx is nil.
func ValuesOf[M any](ctx context.Context) SubmitOption[M] {
	if ctx == nil {
		panic("dispatcher: ValuesOf: the context is nil: give context.Background() for no values")
	}
	return SubmitOption[M]{values: ctx}
}

// Submit accepts m. Conflicting messages run in the order in which they are
// accepted. While the queue is full, Submit waits; waiting submissions are
// accepted in the order of their calls.
//
// The handler's context has the values of ctx, such as a trace ID, in every
// attempt, but not its cancellation or deadline: once accepted, a message does
// not depend on ctx. In a handler that runs in a chain, ctx also has values of
// that, see [Together], such as a transaction: the message gets none of these.
//
// If the error is nil, m was accepted and will have a result. Otherwise it was
// not accepted: the error wraps that of ctx, and its cause, if ctx ended while
// waiting; it is [ErrClosed], [ErrTooLarge], [ErrTooManyParked] or [ErrNested];
// or it wraps [ErrStopped] or the [*PanicError] of Config.Size.
func (d *Dispatcher[M]) Submit(ctx context.Context, m M, opts ...SubmitOption[M]) error {
	one := d.newArrival(ctx, m, opts)
	_, err := d.submit(ctx, one[:])
	d.freeArrival(one)
	return err
}

// TrySubmit is [Dispatcher.Submit] without waiting: the error is [ErrFull] if
// Submit would wait.
func (d *Dispatcher[M]) TrySubmit(ctx context.Context, m M, opts ...SubmitOption[M]) error {
	one := d.newArrival(ctx, m, opts)
	defer d.freeArrival(one)
	if err := d.refusal(&one[0]); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return endOf(ctx)
	}
	n, err := d.tryAccept(one[:])
	if err == nil && n == 0 {
		err = ErrFull
	}
	return err
}

// SubmitBatch accepts messages in order, and in one step if there is room for
// all: then no other submission comes between them. It returns how many were
// accepted, from the first on; if not all, the error is that of
// [Dispatcher.Submit] for the next one.
func (d *Dispatcher[M]) SubmitBatch(ctx context.Context, ms []M, opts ...SubmitOption[M]) (accepted int, err error) {
	arrivals := make([]arrival[M], len(ms))
	for i, m := range ms {
		d.fill(ctx, &arrivals[i], m, opts)
	}
	return d.submit(ctx, arrivals)
}

// Do submits m, waits for its result and returns it. If ctx ends first, Do
// returns its error; a message that was accepted by then runs all the same. If
// the message is parked, Do keeps waiting. The other errors are those of
// Submit.
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
	one := d.newArrival(ctx, m, opts)
	defer d.freeArrival(one)
	ticket := &Ticket{within: d.within, done: make(chan struct{})}
	one[0].more().ticket = ticket
	if _, err := d.submit(ctx, one[:]); err != nil {
		return nil, err
	}
	return ticket, nil
}

// Ticket gives access to the result of one accepted message.
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

// Wait waits for the message's result and returns it, or the error of ctx if
// that ends first. With the context of a handler of the same dispatcher it does
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

// newArrival makes the arrival of a single message.
func (d *Dispatcher[M]) newArrival(ctx context.Context, m M, opts []SubmitOption[M]) *[1]arrival[M] {
	one := d.arrivals.Get().(*[1]arrival[M])
	d.fill(ctx, &one[0], m, opts)
	return one
}

func (d *Dispatcher[M]) freeArrival(one *[1]arrival[M]) {
	one[0].reset()
	d.arrivals.Put(one)
}

// fill makes a the arrival of m, with its keys.
func (d *Dispatcher[M]) fill(ctx context.Context, a *arrival[M], m M, opts []SubmitOption[M]) {
	a.msg, a.values = m, valuesOf(ctx)
	if d.cfg.Measure != nil && rand.N(d.cfg.MeasureOneIn) == 0 {
		a.more().timing = &timing{submitted: time.Now()}
	}
	for _, o := range opts {
		a.done = both(a.done, o.done)
		if o.values != nil {
			a.values = valuesOf(o.values)
		}
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
	a.claim.Digest() // here, where no mutex is locked
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
	defer contain.Recover(&err)
	return d.cfg.Keys(a.msg, &a.claim)
}

func (d *Dispatcher[M]) size(a *arrival[M]) (err error) {
	defer contain.Recover(&err)
	a.size = max(d.cfg.Size(a.msg), 0)
	return nil
}

// refusal returns the reason why a can never be accepted, or nil.
func (d *Dispatcher[M]) refusal(a *arrival[M]) error {
	if a.rare != nil && a.rare.refusal != nil {
		return a.rare.refusal
	}
	if d.cfg.MaxPendingBytes > 0 && a.size > d.cfg.MaxPendingBytes {
		return ErrTooLarge
	}
	return d.tooManyParked(&a.claim)
}

// submit accepts arrivals in order, waits for slots if necessary, and returns
// how many it has accepted. Those before a refused one are accepted.
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

// tryAccept accepts arrivals, from the first on, while there are slots,
// including those that have not been returned to the intake yet.
func (d *Dispatcher[M]) tryAccept(arrivals []arrival[M]) (accepted int, err error) {
	accepted, err = d.accept(arrivals, false)
	if err == nil && accepted < len(arrivals) && d.giveBackSlots() {
		var n int
		n, err = d.accept(arrivals[accepted:], false)
		accepted += n
	}
	return accepted, err
}

// giveBackSlots returns the outstanding slots to the intake and reports whether
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

// accept is intake.accept, followed by waking a worker if necessary.
func (d *Dispatcher[M]) accept(arrivals []arrival[M], turn bool) (n int, err error) {
	if d.cfg.Observer != nil {
		// Under the mutex, so that an observer receives messages in the order
		// of their numbers.
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
