package saga

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// active is a run that the coordinator has taken up.
type active struct {
	c    *Coordinator
	def  *definition
	held holder // of the message that has what the run keeps

	// has is the lock of what follows: who has sent into it has it. It is had while the
	// run is changed, a transaction of a step included, but not during remote calls.
	has      chan struct{}
	row      *row
	live     map[int]*live // by step
	fresh    map[int]bool  // steps that this process has started, and not attempted
	timer    *time.Timer   // of the deadline
	suspects map[int]bool  // steps that may have ended the process, and have no message yet
}

// live is a step that is under way, as long as it has its message. Its fields are under
// the lock of the run, but those of the holder.
type live struct {
	held holder
	run  *active
	step int

	keyErr    error // its keys could not be derived
	keyless   bool  // and an attempt has failed for that; a further one has another message
	unsure    bool  // it may have been done
	ask       bool  // and nobody has asked Find since
	suspect   bool  // its attempts may end the process: each is marked before
	marked    bool  // the one under way, or one whose end could not be recorded, is
	alone     bool  // it has the turn of those that are attempted alone
	undoes    bool  // the attempts that notBefore is about are those to undo it
	notBefore time.Time
	cancel    context.CancelCauseFunc // of the call that does it, if one is under way
}

// holder is a message of the dispatcher that is held, or else runs.
//
// Who changes what the message waits for does so under the lock of the run, and then
// wakes it. The handler looks under that lock what there is to do, and holds the message
// before it unlocks. So either it sees the change, or the message is held by then, and
// is woken. A wake-up while it runs is kept, for the bulkhead, which has no such lock.
type holder struct {
	message *message
	mu      struct {
		sync.Mutex
		finish func(error) // nil while it is not held
		again  bool        // it was woken meanwhile
		timer  *time.Timer
	}
}

// hold keeps the message after the handler with the context has returned, until it is
// woken, or for a time unless that is 0.
func (h *holder) hold(ctx context.Context, atMost time.Duration) error {
	finish, err := dispatcher.Hold(ctx)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.mu.finish = finish
	if atMost > 0 {
		h.mu.timer = time.AfterFunc(atMost, h.wake)
	}
	again := h.mu.again
	h.mu.again = false
	h.mu.Unlock()
	if again {
		h.wake()
	}
	return nil
}

// wake has the handler called again.
func (h *holder) wake() {
	h.mu.Lock()
	finish := h.mu.finish
	h.mu.finish = nil
	h.mu.again = finish == nil
	if h.mu.timer != nil {
		h.mu.timer.Stop()
		h.mu.timer = nil
	}
	h.mu.Unlock()
	if finish != nil {
		finish(errAgain)
	}
}

func newActive(c *Coordinator, d *definition, r *row) *active {
	a := &active{c: c, def: d, has: make(chan struct{}, 1), row: r, live: map[int]*live{}, fresh: map[int]bool{}}
	a.held.message = &message{name: "saga " + r.id, claim: r.keep, serve: func(ctx context.Context) error { return c.keep(ctx, a) }}
	return a
}

// lock waits for the lock of the run, until ctx ends.
func (a *active) lock(ctx context.Context) error {
	select {
	case a.has <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *active) unlock() { <-a.has }

// watchDeadline has the run compensated when its time is over.
func (a *active) watchDeadline() {
	if a.row.deadline.IsZero() {
		return
	}
	a.timer = time.AfterFunc(time.Until(a.row.deadline), func() {
		select {
		case a.c.expired <- a:
		case <-a.c.open.Done():
		}
	})
}

// call returns the call of the next attempt at a step.
func (a *active) call(i int) Call {
	call := Call{Saga: a.row.id, Step: a.def.steps[i].name, Attempt: a.row.rec.Steps[i].Failed + 1}
	if a.c.cfg.Name != defaultName {
		call.By = a.c.cfg.Name
	}
	return call
}

// isLate reports whether the time of the run is over, which nobody may have seen yet.
func (a *active) isLate() bool { return !a.row.deadline.IsZero() && !time.Now().Before(a.row.deadline) }

// overdue is the cause for which a run turns back whose time is over.
func (a *active) overdue() string { return fmt.Sprintf("not completed within %v", a.def.timeout) }

// wakeAll wakes everything of the run that is held; it does not need the lock.
func (a *active) wakeAll() {
	a.held.wake()
	a.c.mu.Lock()
	list := make([]*live, 0, len(a.live))
	for _, l := range a.live {
		list = append(list, l)
	}
	a.c.mu.Unlock()
	for _, l := range list {
		l.held.wake()
	}
}

// add and remove change live, which wakeAll reads without the lock of the run.
func (a *active) add(l *live) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.live[l.step] = l
}

func (a *active) remove(l *live) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	delete(a.live, l.step)
}

func (l *live) wake() { l.held.wake() }

// submit gives a message to the dispatcher. It fails only once that is closed; then
// the run goes on in the next term.
func (c *Coordinator) submit(m *message) { _ = c.d.Submit(c.open, m) }

// keep is the handler of the message that has what a run keeps: it has it now.
func (c *Coordinator) keep(ctx context.Context, a *active) error {
	if a.lock(c.open) != nil {
		return nil
	}
	defer a.unlock()
	for c.open.Err() == nil && !a.row.rec.Status.Ended() {
		if a.row.rec.Status != Waiting {
			c.goOn(a)
			return a.held.hold(ctx, 0)
		}
		if err := c.commit(ctx, a, commitment{in: input{kind: granted}, patient: true}); err != nil && err != errChanged {
			c.cfg.Logger.Error("saga: a run cannot begin", "saga", a.row.id, "err", err)
			return a.held.hold(ctx, c.cfg.StoreBackoff.Wait(1))
		}
	}
	return nil
}

// goOn makes everything that is due of a run under way, after a change. The run is
// locked.
func (c *Coordinator) goOn(a *active) {
	if a.row.rec.Status.Ended() {
		if a.timer != nil {
			a.timer.Stop()
		}
		for _, l := range a.live { // calls beside the step for which it was dropped
			if l.cancel != nil {
				l.cancel(fmt.Errorf("saga: the run is %v", a.row.rec.Status))
			}
		}
		c.mu.Lock()
		more := c.mu.more
		delete(c.mu.runs, a.row.id)
		c.tellEnd(a.row.id, a.row.rec.Status)
		c.mu.Unlock()
		a.wakeAll()
		if more {
			c.Notify() // there is room for another one
		}
		return
	}
	for i := range a.def.steps {
		l := a.live[i]
		if l == nil {
			if a.def.plan.due(&a.row.rec, i) != nothing {
				c.beginStep(a, i)
			}
			continue
		}
		if l.cancel != nil && a.row.rec.direction() == Compensating {
			l.cancel(fmt.Errorf("saga: the run is compensated: %s", a.row.rec.Cause))
		}
		l.wake()
	}
}

// beginStep submits the message of a step.
func (c *Coordinator) beginStep(a *active, i int) {
	s := a.def.steps[i]
	l := &live{run: a, step: i}
	l.unsure = !a.fresh[i] && !s.inTx || a.row.rec.Steps[i].Asked
	l.ask = l.unsure
	l.suspect = a.suspects[i]
	delete(a.fresh, i)
	delete(a.suspects, i)
	var claim []lockkeys.Request
	claim, l.keyErr = s.keys(a.row.state)
	if l.keyErr == nil {
		l.keyErr = c.roots.checkStep("step "+s.name, s.under, claim)
	}
	if l.keyErr != nil {
		claim = nil
	}
	l.held.message = &message{name: "saga " + a.row.id + ", step " + s.name, claim: claim, serve: func(ctx context.Context) error { return c.serve(ctx, l) }}
	a.add(l)
	c.submit(l.held.message)
}
