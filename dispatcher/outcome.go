package dispatcher

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/internal/contain"
)

// outcome is the decision about a message after an attempt.
type outcome struct {
	kind outcomeKind
	err  error
}

type outcomeKind uint8

const (
	ended       outcomeKind = iota // with err as its result, which has been told
	failed                         // to be tried again
	widened                        // to run again with more keys
	held                           // to be kept until it is finished
	parked                         // to be parked
	stopped                        // to stop the dispatcher
	interrupted                    // by a shutdown; not an attempt
	untouched                      // of a batch: the handler did not get to it
)

// finish judges the results of a batch and completes the messages that ended.
// Results count up to the first error, and the messages behind it go back
// unchanged, except if the handler's results are senseless: then each of them
// fails, so that none runs again. If a callback has ended the goroutine, the
// next call of finish continues with the next message.
func (w *worker[M]) finish() {
	w.stopTiming()
	for i := len(w.outcomes); i < len(w.batch); i++ {
		o := outcome{kind: untouched}
		if i >= len(w.results) {
			// the handler did not get to it
		} else if i == 0 && w.results[i] == nil && w.batch[i].extra == nil {
			o.kind = ended // nothing to judge, as is usual
		} else if i == 0 && w.asksToHold() {
			o.kind = held
		} else if i == 0 || w.outcomes[i-1].kind == ended && (w.results[i-1] == nil || w.senseless) {
			o = w.d.judge(w.batch[i], w.index, w.results[i])
		}
		w.outcomes = append(w.outcomes, o)
		if o.kind == ended {
			w.d.complete(w.batch[i], o.err)
		}
		if w.d.cfg.Measure != nil && (o.kind == ended || o.kind == parked) {
			w.d.measure(w.batch[i], w.index, o)
		}
	}
}

// asksToHold reports whether the message of w is to be held. If it was finished
// before its handler returned, its result is that of the attempt.
func (w *worker[M]) asksToHold() (yes bool) {
	h := w.batch[0].hold()
	if h == nil {
		return false
	}
	if w.results[0], yes = h.returned(w.results[0]); !yes {
		h.end()
	}
	return yes
}

// judge decides the outcome of an attempt of t that returned err. It calls
// methods of err; if one panics, that panic is the error of the attempt.
func (d *Dispatcher[M]) judge(t *task[M], worker int, err error) (o outcome) {
	var panicked error
	defer func() {
		if panicked != nil {
			o = d.fail(t, worker, d.handlerError(t, panicked))
		}
	}()
	defer contain.Recover(&panicked)
	widen, widens := errors.AsType[*WidenError](err)
	if notHeld := t.takeNotHeld(); notHeld != nil && !widens {
		err = Permanent(errors.Join(notHeld, err))
	}
	if err == nil {
		return outcome{kind: ended}
	}
	if d.work.Err() != nil && t.keyErr() == nil {
		return outcome{kind: interrupted, err: err}
	}
	if widens {
		if d.wider(t, widen.Requests) {
			return outcome{kind: widened, err: widen}
		}
		err = Permanent(fmt.Errorf("handler asked by Widen for keys that its message already has: %w", err))
	}
	if t.keyErr() == nil && t.tries() < d.cfg.MaxAttempts && !IsPermanent(err) {
		return outcome{kind: failed, err: err}
	}
	return d.fail(t, worker, d.handlerError(t, err))
}

func (d *Dispatcher[M]) handlerError(t *task[M], err error) error {
	return &HandlerError{ID: t.id, Name: d.name(t.msg), Claim: slices.Clone(t.claim.Requests()), Attempts: int(t.attempts), Err: err}
}

// fail applies the failure policy to a message that failed for good.
func (d *Dispatcher[M]) fail(t *task[M], worker int, err error) outcome {
	log := d.cfg.Logger.With(d.about(t.id, t.msg, t.claim.Requests())...).With("attempts", t.attempts)
	policy := d.cfg.Failure
	if d.cfg.FailureFor != nil {
		if asked, caught := d.askPolicy(t, err); caught == nil {
			policy = asked
		} else {
			log.Error("FailureFor failed; using Failure", "policy", policy, "err", caught)
		}
	}
	switch policy {
	case Park:
		log.Error("message parked; its keys stay closed until Resume, Skip or Drop", "err", err)
		return outcome{kind: parked, err: err}
	case Stop:
		log.Error("message failed; the dispatcher stops", "err", err)
		return outcome{kind: stopped, err: err}
	}
	if d.cfg.DeadLetter == nil {
		if t.done == nil && (t.extra == nil || t.extra.ticket == nil) {
			log.Error("message failed and is dropped: set DeadLetter, or OnDone, to be told", "err", err)
		}
		return outcome{kind: ended, err: err}
	}
	if deadErr := d.deadLetter(t, worker, err); deadErr != nil {
		err = errors.Join(err, fmt.Errorf("dispatcher: dead-lettering: %w", deadErr))
		log.Error("message could not be dead-lettered and is parked", "err", err)
		return outcome{kind: parked, err: err}
	}
	log.Warn("message dead-lettered", "err", err)
	return outcome{kind: ended, err: err}
}

func (d *Dispatcher[M]) askPolicy(t *task[M], err error) (policy FailurePolicy, caught error) {
	caught = d.apart(func() error {
		policy = cmp.Or(d.cfg.FailureFor(t.msg, err), d.cfg.Failure)
		if policy > Stop {
			return fmt.Errorf("%v is no policy: use DeadLetter, Park or Stop", policy)
		}
		return nil
	})
	return policy, caught
}

func (d *Dispatcher[M]) deadLetter(t *task[M], worker int, err error) error {
	return d.apart(func() error {
		ctx := &scope{host: &host{base: d.work, owner: d, worker: worker}, values: t.values, id: t.id, attempt: t.attempts}
		defer ctx.phase.Store(attemptOver)
		return d.cfg.DeadLetter(ctx, t.msg, err)
	})
}

// complete passes the result of t to its callback and its ticket. It is called
// once for each task, before its keys are released.
func (d *Dispatcher[M]) complete(t *task[M], err error) {
	if t.extra != nil && t.extra.ticket != nil {
		t.extra.ticket.err = err
		defer close(t.extra.ticket.done) // whatever the callback does
	}
	if t.done != nil {
		if caught := d.callDone(t, err); caught != nil {
			d.cfg.Logger.Error("completion callback panicked", append(d.about(t.id, t.msg, t.claim.Requests()), "err", caught)...)
		}
	}
}

// completeAside is complete for callers other than workers: a callback that
// calls runtime.Goexit must not end the caller.
func (d *Dispatcher[M]) completeAside(t *task[M], err error) {
	if t.done == nil {
		d.complete(t, err) // calls no callback
		return
	}
	caught := d.apart(func() error {
		d.complete(t, err)
		return nil
	})
	if caught != nil {
		d.cfg.Logger.Error("completion callback failed", append(d.about(t.id, t.msg, t.claim.Requests()), "err", caught)...)
	}
}

func (d *Dispatcher[M]) callDone(t *task[M], err error) (caught error) {
	defer contain.Recover(&caught)
	t.done(t.msg, err)
	return nil
}
