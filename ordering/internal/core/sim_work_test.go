package core

import (
	"errors"
	"slices"
)

// task is an event that the dispatcher has: it waits for its lock keys, runs, and
// has its keys until its end is known.
type task struct {
	h        *host
	e        *Event
	m        *message
	phase    taskPhase
	run      Run
	step     RunStep
	attempts int
	lasting  bool   // what failed will not be better
	away     bool   // the store has not answered at once
	inside   bool   // an attempt is under way
	wants    bool   // to be alone
	since    int    // the moment at which its handler was called last
	next     func() // what the store's answer leads to, which has not come yet
}

type taskPhase uint8

const (
	taskWaiting taskPhase = iota // for its lock keys
	taskBeginning
	taskRunning
	taskEnded // but its lock keys are still taken
)

const maxAttempts = 3

// mayStart reports whether no earlier task has conflicting keys, and a worker is
// free.
func (t *task) mayStart() bool {
	busy := 0
	before := true
	for _, o := range t.h.tasks {
		switch {
		case o == t:
			before = false
			continue
		case o.phase != taskWaiting:
			busy++
		}
		if before && o.m.keys.conflicts(t.m.keys) {
			return false
		}
	}
	return busy < t.h.workers
}

// work goes on with a task.
func (h *host) work() bool {
	h.submit()
	if len(h.tasks) == 0 {
		return false
	}
	t := h.tasks[h.w.rnd.IntN(len(h.tasks))]
	switch t.phase {
	case taskWaiting:
		switch {
		case h.stopped:
			t.take(t.run.Halt(errHalted))
		case !t.mayStart():
			return false
		default:
			h.w.check.starts(t)
			t.phase = taskBeginning
		}
	case taskBeginning:
		if h.stopped {
			t.take(t.run.Halt(errHalted))
			break
		}
		if !t.mayEnter() {
			return false
		}
		t.inside = true
		if t.isSuspect() {
			t.run.Suspect()
		}
		t.take(t.run.Begin(t.m.command != "", t.e.Owner.(*delivery).recall))
	case taskRunning:
		t.goOn()
	case taskEnded:
		h.tasks = slices.Delete(h.tasks, slices.Index(h.tasks, t), slices.Index(h.tasks, t)+1)
	}
	return true
}

var errHalted = errors.New("halted")

// isSuspect reports whether the message may have been running when a process ended.
func (t *task) isSuspect() bool { return t.h.cautious && t.m.firstTerm < t.h.term }

// mayEnter reports whether nothing runs alone, or is about to.
func (t *task) mayEnter() bool {
	return t.h.alone == nil && !slices.ContainsFunc(t.h.tasks, func(o *task) bool { return o.wants })
}

// mayBeAlone reports whether nothing else runs.
func (t *task) mayBeAlone() bool {
	return t.h.alone == nil && !slices.ContainsFunc(t.h.tasks, func(o *task) bool { return o.inside })
}

// leave ends an attempt.
func (t *task) leave() {
	if t.run.Unmark(t.e.Outcome) {
		t.h.w.store.unmark(t.m)
	}
	t.inside, t.wants = false, false
	if t.h.alone == t {
		t.h.alone = nil
	}
}

// unlucky counts the messages of which a run is marked in a process that ends, or is
// taken over, by no fault of any of them.
func (h *host) unlucky() {
	for _, t := range h.tasks {
		if t.run.marked {
			t.m.unlucky++
		}
	}
}

// mark marks the run of a suspect.
func (t *task) mark(alone bool) {
	w := t.h.w
	if alone && t.h.alone != t {
		t.inside, t.wants = false, true
		switch {
		case w.timeouts > 0 && w.kills.IntN(w.timeouts) == 0: // its time is over
			t.leave()
			t.phase = taskBeginning
			return
		case !t.mayBeAlone():
			return
		}
		t.inside, t.wants, t.h.alone = true, false, t
	}
	switch {
	case !alone && w.maxCrashes == 1:
		t.take(t.run.Marked(Before, nil))
	case t.h.term != w.store.term:
		t.fenced()
	case w.happens(w.storeFails):
	case !alone && w.store.mark(t.m, 1) > 1:
		t.take(t.run.Marked(Before, nil))
	case alone && w.store.mark(t.m, w.maxCrashes) > w.maxCrashes:
		w.check.crashed(t.m)
		t.lasting = true
		t.take(t.run.Marked(TooMany, errors.New("the process has ended each time")))
	default:
		t.take(t.run.Marked(Counted, nil))
	}
}

// take notes the next step, and ends the task if there is none.
func (t *task) take(step RunStep) {
	if t.h.w.trace {
		t.h.w.tracef("%s %v: %s", t.h.name, t.m, describe(step))
	}
	t.step, t.phase = step, taskRunning
	switch step.Kind {
	case RunRetry:
		t.leave()
		if !t.lasting && t.attempts < maxAttempts {
			t.phase = taskBeginning
			return
		}
		t.failed(step.Err)
	case RunLook:
		t.away = false
	case RunEnd:
		t.end(step.Result, step.Err)
	}
}

func (t *task) end(r Result, err error) {
	t.e.Outcome, t.e.Cause = r, err
	t.phase = taskEnded
	t.leave()
	t.h.w.check.ends(t)
	t.h.step(Ended{t.e})
}

// failed applies the policy to an event whose attempts are used up.
func (t *task) failed(err error) {
	w := t.h.w
	switch {
	case t.run.InDoubt():
		t.take(t.run.Ask(err))
	case w.happens(w.failureStops):
		t.h.step(Stopped{err})
		t.take(t.run.Halt(err))
	case w.happens(w.failureGivesUp):
		t.take(t.run.GiveUp(err))
	default:
		t.end(Failed, err)
	}
}

// answered goes on with an answer of the store, now or later.
func (t *task) answered(next func()) {
	if t.h.w.happens(t.h.w.late) {
		t.next = next
	} else {
		next()
	}
}

// goOn takes the next step of a task that runs.
func (t *task) goOn() {
	w := t.h.w
	if next := t.next; next != nil {
		t.next = nil
		next()
		return
	}
	switch t.step.Kind {
	case RunHandle:
		t.handle()
	case RunCommit:
		trouble, err := t.commit()
		t.answered(func() { t.take(t.run.Committed(trouble, err)) })
	case RunLook:
		switch {
		case t.h.term != w.store.term:
			t.fenced()
		case w.happens(w.storeFails):
			t.away = true
		default:
			known, err := w.store.known(t.m)
			t.answered(func() { t.take(t.run.Looked(known, t.away, err)) })
		}
	case RunMark, RunMarkAlone:
		if t.h.stopped {
			t.take(t.run.Halt(errHalted))
		} else {
			t.mark(t.step.Kind == RunMarkAlone)
		}
	case RunWait:
		if t.h.stopped {
			t.take(t.run.Halt(errHalted))
		} else {
			t.take(t.run.Waited())
		}
	}
}

func (t *task) fenced() {
	t.h.step(Fenced{errFenced})
	t.take(t.run.Halt(errFenced))
}

// commit tries to commit the task's event; what it reports may not be so.
func (t *task) commit() (Trouble, error) {
	w := t.h.w
	if w.happens(w.storeFails) {
		return StoreAway, errAway
	}
	status := processed
	if t.run.state == runGivingUp {
		status = givenUp
	}
	err := w.store.commit(t.h.term, t.e, status)
	if err == nil && t.run.IsMarked() {
		delete(w.store.marks, t.m)
	}
	if err == nil && status == processed {
		w.check.commits(t)
	}
	switch {
	case errors.Is(err, errFenced):
		t.h.step(Fenced{err})
		return FencedOff, err
	case errors.Is(err, errLost):
		t.h.step(Stopped{err})
		return FencedOff, err
	case w.happens(w.storeFailsAfter):
		return StoreAway, errAway
	case err != nil:
		return Failing, err
	}
	return None, nil
}

// handle calls the handler, which may do everything.
func (t *task) handle() {
	w := t.h.w
	w.check.handles(t)
	t.since = w.check.ledger.now()
	if t.m.kills && w.kills.IntN(5) > 0 {
		w.dies(t)
		return
	}
	t.attempts++
	committed, trouble, err := false, None, error(nil)
	fails := w.happens(w.handlerFails)
	panics := w.happens(w.handlerPanics)
	if w.happens(w.widens) {
		trouble, err = WantsMore, errors.New("more lock keys")
		if w.happens(w.inTx) {
			t.run.Tries()
		}
		t.attempts--
	} else if w.happens(w.inTx) && !(fails && w.rnd.IntN(2) == 0) {
		t.run.Tries()
		trouble, err = t.commit()
		committed = trouble == None
	} else if fails {
		trouble, err = Failing, errors.New("the handler failed")
		t.lasting = w.rnd.IntN(4) == 0
	}
	switch {
	case panics && t.attempts < maxAttempts:
		t.leave()
		t.phase = taskBeginning
		w.tracef("%s %v: panics", t.h.name, t.m)
	case panics:
		w.tracef("%s %v: panics for good", t.h.name, t.m)
		if !t.run.InDoubt() {
			t.leave()
		}
		t.failed(errors.New("the handler panicked"))
	default:
		t.answered(func() { t.take(t.run.Handled(committed, trouble, err)) })
	}
}
