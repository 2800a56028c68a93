package dispatcher

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// outcome is what becomes of a message after its handler returned.
type outcome struct {
	kind outcomeKind
	err  error
}

type outcomeKind uint8

const (
	ended       outcomeKind = iota // with err as its result, which has been told
	failed                         // to be tried again
	widened                        // to run again with more keys
	parked                         // to be parked
	stopped                        // to stop the dispatcher
	interrupted                    // by a shutdown; not an attempt
	untouched                      // of a batch: the handler did not get to it
)

// finish judges the results of a batch and completes what ended. Results count
// up to the first error, and what follows it goes back as it was; unless the
// handler's results make no sense, when none of its messages may run again.
// Called again, finish goes on behind the message that it was at.
func (w *worker[M]) finish() {
	for i := len(w.outcomes); i < len(w.batch); i++ {
		o := outcome{kind: untouched}
		if i == 0 || w.outcomes[i-1].kind == ended && (w.results[i-1] == nil || w.senseless) {
			o = w.d.judge(w.batch[i], w.index, w.results[i])
		}
		w.outcomes = append(w.outcomes, o)
		if o.kind == ended {
			w.d.complete(w.batch[i], o.err)
		}
	}
}

// judge decides what becomes of t after an attempt that gave err. It asks err
// what it is, so a panic of a method of err is the attempt's error then.
func (d *Dispatcher[M]) judge(t *task[M], worker int, err error) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = d.fail(t, worker, &HandlerError{ID: t.id, Attempts: t.attempts, Err: &PanicError{v, debug.Stack()}})
		}
	}()
	if err == nil {
		return outcome{kind: ended}
	}
	if d.work.Err() != nil && t.keyErr() == nil {
		return outcome{kind: interrupted, err: err}
	}
	if widen, ok := errors.AsType[*WidenError](err); ok {
		if d.wider(t, widen.Requests) {
			return outcome{kind: widened, err: widen}
		}
		err = Permanent(fmt.Errorf("handler asked to widen for keys that its message has: %w", err))
	}
	if t.keyErr() == nil && t.tries() < d.cfg.MaxAttempts && !IsPermanent(err) {
		return outcome{kind: failed, err: err}
	}
	return d.fail(t, worker, &HandlerError{ID: t.id, Attempts: t.attempts, Err: err})
}

// fail applies the failure policy to a message that failed for good.
func (d *Dispatcher[M]) fail(t *task[M], worker int, err error) outcome {
	log := d.cfg.Logger.With("message", t.id, "attempts", t.attempts)
	policy := d.cfg.Failure
	if d.cfg.FailureFor != nil {
		if asked, caught := d.askPolicy(t, err); caught == nil {
			policy = asked
		} else {
			log.Error("FailureFor panicked; using Failure", "policy", policy, "error", caught)
		}
	}
	switch policy {
	case Park:
		log.Error("message parked; its keys stay closed until Resume, Skip or Drop", "error", err)
		return outcome{kind: parked, err: err}
	case Stop:
		log.Error("message failed; the dispatcher stops", "error", err)
		return outcome{kind: stopped, err: err}
	}
	if d.cfg.DeadLetter == nil {
		if t.done == nil && (t.extra == nil || t.extra.ticket == nil) {
			log.Error("message failed and is dropped: set DeadLetter, or OnDone, to be told", "error", err)
		}
		return outcome{kind: ended, err: err}
	}
	if deadErr := d.deadLetter(t, worker, err); deadErr != nil {
		err = errors.Join(err, fmt.Errorf("dispatcher: dead-lettering: %w", deadErr))
		log.Error("message could not be dead-lettered and is parked", "error", err)
		return outcome{kind: parked, err: err}
	}
	log.Warn("message dead-lettered", "error", err)
	return outcome{kind: ended, err: err}
}

func (d *Dispatcher[M]) askPolicy(t *task[M], err error) (policy FailurePolicy, caught error) {
	caught = d.contain(func() error {
		policy = d.cfg.FailureFor(t.msg, err)
		return nil
	})
	return policy, caught
}

func (d *Dispatcher[M]) deadLetter(t *task[M], worker int, err error) error {
	return d.contain(func() error {
		ctx := &scope{host: &host{base: d.work, owner: d, worker: worker}, id: t.id, attempt: int32(t.attempts)}
		defer ctx.phase.Store(attemptOver)
		return d.cfg.DeadLetter(ctx, t.msg, err)
	})
}

// complete tells whoever waits for the result of t. It is called once for
// each task, before its keys are released.
func (d *Dispatcher[M]) complete(t *task[M], err error) {
	if t.extra != nil && t.extra.ticket != nil {
		t.extra.ticket.err = err
		defer close(t.extra.ticket.done) // whatever the callback does
	}
	if t.done != nil {
		if caught := d.callDone(t, err); caught != nil {
			d.cfg.Logger.Error("completion callback panicked", "message", t.id, "error", caught)
		}
	}
}

// completeAside is complete where no worker is at hand: a callback that calls
// runtime.Goexit must not end the caller.
func (d *Dispatcher[M]) completeAside(t *task[M], err error) {
	if t.done == nil {
		d.complete(t, err) // which calls nobody
		return
	}
	caught := d.contain(func() error {
		d.complete(t, err)
		return nil
	})
	if caught != nil {
		d.cfg.Logger.Error("completion callback failed", "message", t.id, "error", caught)
	}
}

func (d *Dispatcher[M]) callDone(t *task[M], err error) (caught error) {
	defer recoverAs(&caught)
	t.done(t.msg, err)
	return nil
}

// recoverAs, deferred, turns a panic into an error.
func recoverAs(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{v, debug.Stack()}
	}
}
