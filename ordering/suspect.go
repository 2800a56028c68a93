package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// CrashError says that an event is not run any more, since the process has ended
// each time that it ran: by the memory that it takes, by os.Exit, or in code that is
// not Go's. See [Config.MaxCrashes].
type CrashError struct {
	Event *Event
	// Runs is how many runs of it, marked in the store, did not come to an end. The
	// one before them, of which nobody could know, is not counted.
	Runs int
}

// Error names the event, says how often the process has ended, and what to do.
func (e *CrashError) Error() string {
	return fmt.Sprintf("ordering: event %.80q (%.200s) is not run any more: the process ended, without a word, in each of its last %d runs, the last of them alone: "+
		"look at what it does to the process; Resume has it run again, Skip gives it up", e.Event.Name(), e.Event.positionsText(), e.Runs)
}

// unsureSuspects is how many runs are marked in a term after one that did not end in
// good order, of events whose source does not tell whether it has delivered them
// before.
const unsureSuspects = 1000

// Solo has what runs alone take turns, among sequencers that share it: a process ends
// as a whole, so of two events that may be to blame, in partitions that it has for
// example, only one is to run. A [Store] with a method Solo() *Solo has one for its
// sequencers; with another store each has its own. The zero Solo is ready.
type Solo struct {
	once sync.Once
	turn chan struct{} // full while one runs
}

func (s *Solo) turns() chan struct{} {
	s.once.Do(func() { s.turn = make(chan struct{}, 1) })
	return s.turn
}

// maxWaitForOthers is how long a run waits for one of another sequencer that runs
// alone: that may wait itself, for an event of this one.
const maxWaitForOthers = time.Minute

// caution is what a sequencer has in a term after one that did not end in good order:
// something that ran then may have ended the process. It has attempts begin beside
// each other, or alone.
//
// An attempt that is to be alone waits for those that have begun, and no other one
// begins meanwhile. Whoever waits has its lock keys and a worker, and waits for
// handlers that run, which have all that they need: so no wait is for ever.
type caution struct {
	solo   *Solo
	unsure atomic.Int64 // how many more events are suspects whose source does not tell

	mu struct {
		sync.Mutex
		beside  int // attempts that have begun
		wanted  int // attempts that wait to be alone
		alone   bool
		turn    bool          // the one that is alone has the turn among sequencers
		changed chan struct{} // closed when one of these changes, if someone waits
	}
}

// way is how an attempt runs.
type way uint8

const (
	outside way = iota // it has not begun
	beside             // beside others
	alone
)

func newCaution(store Store) *caution {
	c := &caution{solo: &Solo{}}
	if store, ok := store.(interface{ Solo() *Solo }); ok {
		c.solo = store.Solo()
	}
	c.unsure.Store(unsureSuspects)
	return c
}

// enter begins an attempt beside others, and reports whether it had to wait. The error
// is that of ctx, or errHalted.
func (c *caution) enter(ctx, accepting context.Context) (waited bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waited, err = c.waitLocked(ctx, accepting, func() bool { return !c.mu.alone && c.mu.wanted == 0 })
	if err == nil {
		c.mu.beside++
	}
	return waited, err
}

// enterAlone begins an attempt that is alone. The error is that of ctx, or errHalted.
func (c *caution) enterAlone(ctx, accepting context.Context) (err error) {
	timer := time.NewTimer(maxWaitForOthers)
	defer timer.Stop()
	turn := false
	select {
	case c.solo.turns() <- struct{}{}:
		turn = true
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-accepting.Done():
		return dispatcher.Permanent(errHalted)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.wanted++
	_, err = c.waitLocked(ctx, accepting, func() bool { return !c.mu.alone && c.mu.beside == 0 })
	c.mu.wanted--
	c.changeLocked()
	if err == nil {
		c.mu.alone, c.mu.turn = true, turn
	} else if turn {
		<-c.solo.turn
	}
	return err
}

// leave ends an attempt.
func (c *caution) leave(w way) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch w {
	case outside:
		return
	case beside:
		c.mu.beside--
	case alone:
		c.mu.alone = false
		if c.mu.turn {
			<-c.solo.turn
		}
	}
	c.changeLocked()
}

func (c *caution) changeLocked() {
	if c.mu.changed != nil {
		close(c.mu.changed)
		c.mu.changed = nil
	}
}

func (c *caution) waitLocked(ctx, accepting context.Context, ready func() bool) (waited bool, err error) {
	for ; !ready(); waited = true {
		if c.mu.changed == nil {
			c.mu.changed = make(chan struct{})
		}
		changed := c.mu.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-accepting.Done():
			err = dispatcher.Permanent(errHalted)
		}
		if c.mu.Lock(); err != nil {
			break
		}
	}
	return waited, err
}

// attemptWithCare is attempt in a term after one that did not end in good order.
func (s *Sequencer[T]) attemptWithCare(ctx context.Context, j Job[T]) error {
	it := j.item
	var err error
	switch it.waited, err = s.caution.enter(ctx, s.accepting); {
	case err == nil:
		it.way = beside
	case !errors.Is(err, errHalted): // else no handler will be called
		return err
	}
	defer s.endAttempt(it) // whatever ends it, runtime.Goexit too
	if it.way == beside && it.read == nil && s.isSuspect(it) {
		it.run.Suspect()
	}
	return s.attempt(ctx, j)
}

// isSuspect reports whether an event may have been running when the process ended.
func (s *Sequencer[T]) isSuspect(it *item[T]) bool {
	switch it.event.Delivery {
	case DeliveredAgain:
		return true
	case FirstDelivery:
		return false
	}
	return it.tries == 0 && s.caution.unsure.Add(-1) >= 0
}

// endAttempt takes back the mark of a run that has come to an end, but for one that a
// commit has forgotten, and lets others begin.
func (s *Sequencer[T]) endAttempt(it *item[T]) {
	if it.run.Unmark(it.Outcome) {
		s.unmark(it.event)
	}
	s.caution.leave(it.way)
	it.way = outside
}

// mark marks the run of a suspect that runs beside others. Who was running already
// when a process ended is not marked so, and nobody is where the first such run may
// be the last.
func (s *Sequencer[T]) mark(it *item[T]) core.RunStep {
	if s.cfg.MaxCrashes == 1 {
		return it.run.Marked(core.Before, nil)
	}
	run, err := s.markAtMost(it, 1)
	switch {
	case err != nil:
		return it.run.Halt(err)
	case run > 1:
		return it.run.Marked(core.Before, nil)
	}
	return it.run.Marked(core.Counted, nil)
}

// markAlone marks the run of a suspect once nothing else runs. The error is that of
// the wait.
func (s *Sequencer[T]) markAlone(ctx context.Context, it *item[T]) (core.RunStep, error) {
	s.caution.leave(it.way)
	it.way, it.waited = outside, true
	if err := s.caution.enterAlone(ctx, s.accepting); err != nil {
		return core.RunStep{}, err
	}
	it.way = alone
	run, err := s.markAtMost(it, s.cfg.MaxCrashes)
	switch {
	case err != nil:
		return it.run.Halt(err), nil
	case run > s.cfg.MaxCrashes:
		err := &CrashError{Event: it.event, Runs: run - 1}
		s.counts.crashes.Add(1)
		s.cfg.Logger.Error("event is not run any more: the process has ended each time", "event", it.event.Name(), "numbers", it.event.positionsText(), "runs", err.Runs, "err", err)
		return it.run.Marked(core.TooMany, dispatcher.Permanent(err)), nil
	}
	s.cfg.Logger.Warn("event was running when the process ended: it runs alone", "event", it.event.Name(), "numbers", it.event.positionsText(),
		"ended", run-1, "most", s.cfg.MaxCrashes)
	return it.run.Marked(core.Counted, nil), nil
}

func (s *Sequencer[T]) markAtMost(it *item[T], most int) (run int, err error) {
	err = s.insist(s.accepting, "mark a run", nil, func() (err error) {
		run, err = s.term.Mark(s.background, it.event, most)
		return err
	})
	return run, err
}

// unmark takes a mark back. A sequencer that stops does not wait for the store for
// long.
func (s *Sequencer[T]) unmark(e *Event) {
	err := s.insist(s.accepting, "take back the mark of a run", nil, func() error { return s.term.Unmark(s.background, e) })
	if err != nil && s.accepting.Err() != nil {
		ctx, cancel := context.WithTimeout(context.Background(), endTermTimeout)
		defer cancel()
		err = s.term.Unmark(ctx, e)
	}
	if err != nil {
		s.cfg.Logger.Warn("the mark of a run was not taken back: it counts as one in which the process ended", "event", e.Name(), "err", err)
	}
}
