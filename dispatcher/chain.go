package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/interlock-go/interlock/internal/contain"
)

// Why a chain is undone, apart from errors of handlers and of Together.
var (
	errUnheld   = errors.New("dispatcher: Holds has failed in a handler of the chain")
	errNotRun   = errors.New("dispatcher: Together has not called run")
	errRunTwice = errors.New("dispatcher: Together has called run twice")
	errRunLate  = errors.New("dispatcher: Together has not waited for run to return")
)

// isChain reports whether the batch of w runs in Together.
func (w *worker[M]) isChain() bool { return w.d.cfg.Together != nil && len(w.batch) > 1 }

// callChain runs the handlers of the batch in one call of Together. Its messages
// have succeeded, up to the last that it got to, or else nothing was done.
func (w *worker[M]) callChain() {
	failed := errNotRun // of run
	err := w.together(func(ctx context.Context) error {
		if w.chain > 0 {
			failed = errRunTwice
		} else {
			failed = w.runChain(ctx)
		}
		return failed
	})
	if err == nil && failed == nil {
		w.results = make([]error, w.chain)
		return
	}
	if err == nil {
		err = failed
	}
	if failed == nil || failed == errNotRun || failed == errRunTwice { // no handler will report it
		w.d.logUndone(w.batch[0], len(w.batch), err)
	}
	w.undone(err)
}

func (d *Dispatcher[M]) logUndone(head *task[M], n int, err error) {
	if ok, withheld := d.undoneLog.Take(); ok {
		d.cfg.Logger.Warn("chain undone; its messages run again, those that ran by themselves",
			append(d.about(head.id, head.msg, head.claim.Requests()), "messages", n, "not_logged", withheld, "err", err)...)
	}
}

// together calls Together. A panic is its error. If Together returns while run is under
// way on another goroutine, run is waited for, since the handlers use the batch and its
// keys, and the chain is undone. After that, run does nothing.
func (w *worker[M]) together(run func(context.Context) error) (err error) {
	busy := make(chan struct{}, 1) // has an element while run is under way, and in the end
	defer func() {
		select {
		case busy <- struct{}{}:
		default:
			busy <- struct{}{}
			err = cmp.Or(err, errRunLate)
		}
	}()
	defer contain.Recover(&err)
	return w.d.cfg.Together(w.d.work, func(ctx context.Context) error {
		select {
		case busy <- struct{}{}:
		default:
			return errRunLate
		}
		defer func() { <-busy }()
		return run(ctx)
	})
}

// runChain calls the handlers of the batch, as long as they succeed, Config.ChainTime
// has not passed, and messages may start.
func (w *worker[M]) runChain(ctx context.Context) error {
	h := w.host
	h.base, h.chain = ctx, ctx
	begun := time.Now()
	for i, t := range w.batch {
		if i > 0 {
			if time.Since(begun) >= w.d.cfg.ChainTime || w.d.Err() != nil {
				break
			}
			w.scope.phase.Store(attemptOver)
		}
		w.chain = i + 1
		if err := w.call(&h, t); err != nil {
			if i > 0 && errors.Is(err, ErrAlone) {
				w.chain, t.alone = i, true
				break
			}
			return err
		}
		if t.takeNotHeld() != nil { // Config.Strict: the attempt fails, and is made alone
			return errUnheld
		}
	}
	return nil
}

// undone gives all messages of the batch back. Those whose handlers were called run
// alone the next time.
func (w *worker[M]) undone(cause error) {
	for _, t := range w.batch[:max(w.chain, 1)] {
		t.alone = true
		t.takeNotHeld()
	}
	w.cause = cause
	w.results = []error{}
}
