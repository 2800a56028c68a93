package dispatcher

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/internal/contain"
)

// Hold lets a message outlive its handler: after the handler has returned nil,
// the message keeps its keys, without occupying a worker, until finish is
// called. It is for work that continues in another process, or until an answer
// arrives. ctx must be the context of a running [Handler], or derived from it,
// else the error wraps [ErrNoHandler]. This is also the error in a
// [BatchHandler], since the messages of a batch succeed or fail together. It wraps
// [ErrStrictLocking] with Config.StrictLocking, as in the Sequencer of package
// ordering: whoever commits when the handler has returned does not wait for finish.
//
// finish may be called at any time and from any goroutine, and does not wait.
// Only its first call has an effect. finish(nil) completes the message as if
// the handler returned nil at that moment; finish(err) as if it returned err,
// so that the message is tried again, widened, dead-lettered or parked as
// usual. The next free worker does that, and calls completion callbacks and
// Config.DeadLetter. If finish is called before the handler has returned, it
// takes effect on return.
//
// A handler that returns an error, panics or calls runtime.Goexit after Hold has
// ended the attempt itself, and finish does nothing. A second Hold of an attempt
// returns the same finish; the next attempt has to call Hold again.
//
// No message is held for longer than [Config.HoldTimeout] after its handler has
// returned: then it is finished with an error that wraps [ErrHoldTimeout],
// which is also logged. The work elsewhere must have ended by then, since the
// next attempt, or another message with the same keys, may start.
//
// The context of the attempt ends when the message has been finished and the
// handler has returned, with the cause [ErrHoldTimeout] if the time limit has
// passed. Like that of a running handler it also ends after Config.Timeout,
// which counts from the beginning of the attempt, and near the deadline of a
// shutdown; neither finishes the message. Only contexts that are derived after
// Hold end with the message.
//
// While held, the message is in [StateHeld]. It counts as pending, and Drain
// waits for it. So does Shutdown, which at its deadline reports it as running;
// finish still works after that. Close waits for it without a deadline of its
// own, so at most for HoldTimeout.
func Hold(ctx context.Context) (finish func(error), err error) {
	s, ok := ctx.Value(scopeKey{}).(*scope)
	if !ok || s.host.attempts == nil {
		return nil, ErrNoHandler
	}
	return s.host.attempts.hold(s)
}

// hold is an attempt that has called Hold. state, err and late are guarded by
// Dispatcher.mu; the other fields do not change.
//
//	state         what happens                                 next state
//	holdOpen      finish is called, or the time limit passes   holdFinished
//	holdOpen      the handler gives an error                   holdOver
//	holdFinished  the handler gives an error                   holdOver, its error counts
//	holdFinished  a worker judges err as the attempt's result  holdOver
//
// The state of the message tells whether the handler still runs: it becomes
// StateHeld when its worker settles it. A hold that is over is not used again;
// t may then belong to another message.
type hold[M any] struct {
	d     *Dispatcher[M]
	t     *task[M]
	scope *scope
	// cancel ends the contexts derived from the scope since Hold; cancelLimit,
	// that of the time limit, if there is one.
	cancel      context.CancelCauseFunc
	cancelLimit context.CancelFunc

	state holdState
	err   error // of finish
	late  bool  // it was the time limit that finished it
}

type holdState uint8

const (
	holdOpen holdState = iota
	holdFinished
	holdOver
)

// hold is Hold for the message that w runs under s.
func (w *worker[M]) hold(s *scope) (finish func(error), err error) {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if !s.beginUse() {
		return nil, ErrNoHandler
	}
	defer s.endUse()
	if d.cfg.BatchHandler != nil {
		return nil, fmt.Errorf("%w: a BatchHandler cannot hold messages", ErrNoHandler)
	}
	if d.cfg.StrictLocking {
		return nil, fmt.Errorf("a message cannot be held: %w", ErrStrictLocking)
	}
	if w.isChain() {
		return nil, fmt.Errorf("%w: the message runs in a chain, see Together; return this error, and it runs alone", ErrNoHandler)
	}
	t := w.batch[0]
	h := t.hold()
	if h == nil {
		h = &hold[M]{d: d, t: t, scope: s, cancelLimit: w.cancel}
		w.cancel = nil
		own := *s.host
		own.base, h.cancel = context.WithCancelCause(own.base)
		own.claim = h
		s.own.Store(&own)
		t.more().hold = h
	}
	return h.finish, nil
}

func (h *hold[M]) finish(err error) { h.finishWith(contain.Readable(err), false) }

// finishWith ends the hold; only the first call has an effect.
func (h *hold[M]) finishWith(err error, late bool) {
	if h.tryFinish(err, late) {
		h.end()
	}
}

// tryFinish finishes the hold if it is open, and reports whether the handler
// has returned, so that the attempt has ended with it.
func (h *hold[M]) tryFinish(err error, late bool) bool {
	d := h.d
	d.mu.Lock()
	defer d.letGo()
	if h.state != holdOpen {
		return false
	}
	h.state, h.err, h.late = holdFinished, err, late
	if h.t.state != StateHeld {
		return false
	}
	d.finishHeldLocked(h)
	return true
}

// end ends the contexts of the attempt. It may be called several times.
func (h *hold[M]) end() {
	if h.late {
		h.cancel(ErrHoldTimeout)
	} else {
		h.cancel(nil)
	}
	if h.cancelLimit != nil {
		h.cancelLimit()
	}
}

// returned takes the result of the handler. It returns that of the attempt, or
// reports that the message is to be held.
func (h *hold[M]) returned(err error) (result error, held bool) {
	d := h.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && h.state == holdOpen {
		return nil, true
	}
	if err == nil {
		err = h.err
	}
	h.overLocked()
	return err, false
}

func (h *hold[M]) overLocked() {
	h.state = holdOver
	h.t.extra.hold = nil
}

// holdLocked keeps t, whose handler has returned, until it is finished.
func (d *Dispatcher[M]) holdLocked(t *task[M], worker int) {
	d.keepLocked(t, StateHeld)
	d.emitLocked(Held, t, worker, nil)
	h, limit := t.hold(), d.cfg.HoldTimeout
	if h.state == holdFinished { // it was finished after the worker called returned
		d.finishHeldLocked(h)
		return
	}
	t.startTimer(limit, func() { h.finishWith(fmt.Errorf("%w (%v)", ErrHoldTimeout, limit), true) })
}

// finishHeldLocked gives a message that is held to the next free worker.
func (d *Dispatcher[M]) finishHeldLocked(h *hold[M]) {
	d.unkeepLocked(h.t)
	d.endHoldLocked(h.t)
	d.mu.finished.push(h.t)
	d.emitLocked(HoldEnded, h.t, -1, h.err)
}

// resumeLocked gives w the attempt of t, which was held and is finished, as if
// the handler had run on w.
func (w *worker[M]) resumeLocked(t *task[M]) {
	d, h := w.d, t.hold()
	w.batch, w.scope, w.resumed = append(w.batch, t), h.scope, h
	t.state = StateRunning
	h.overLocked()
	if d.mu.held--; d.mu.held == 0 && d.mu.closing {
		d.mu.work.Broadcast() // workers that stayed for what was held end now
	}
}

// heldResult returns the result of an attempt whose message was held.
func (w *worker[M]) heldResult() error {
	h := w.resumed
	w.resumed = nil
	h.end() // if nobody has yet
	err := w.timeout(h.scope, h.err)
	if h.late {
		t := w.batch[0]
		w.d.cfg.Logger.Warn("message was held for longer than HoldTimeout; the attempt has failed",
			append(w.d.about(t.id, t.msg, t.claim.Requests()), "err", err)...)
	}
	return err
}
