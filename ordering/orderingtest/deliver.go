package orderingtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/ordering"
)

// Deliver offers events to a sequencer with this configuration, in this order, until
// each has an outcome; and if the crash comes, again to another one, as a source
// redelivers what was not acknowledged. It returns the outcomes, in the order of the
// events. One that is acknowledged need not be applied: see [ordering.Outcome].
//
// Nothing is logged, unless Config.Logger is set. Deliver fails the test if a sequencer cannot begin, or stops by itself. It belongs to
// the goroutine of the test, and works in a bubble of testing/synctest as well, with a
// store in memory. For a test of its own it may be called several times with one
// crash, which comes once.
func Deliver[T any](t testing.TB, crash *Crash, cfg ordering.Config[T], events ...*ordering.Event) []ordering.Outcome {
	t.Helper()
	outcomes, err := deliver(t.Context(), crash, cfg, events)
	if err != nil {
		t.Fatal("orderingtest: ", err)
	}
	return outcomes
}

// deliver is Deliver, and returns what is wrong.
func deliver[T any](ctx context.Context, crash *Crash, cfg ordering.Config[T], events []*ordering.Event) ([]ordering.Outcome, error) {
	s := &source{crash: crash, outcomes: make([]ordering.Outcome, len(events)), index: map[*ordering.Event]int{}, open: len(events)}
	events = slices.Clone(events)
	for i, e := range events {
		copied := *e // so that it may come several times in the list
		events[i], s.index[&copied] = &copied, i
	}
	next := cfg.Consumer
	next.Holder = "the process after a crash of orderingtest"
	var fenced error
	crash.fence = func() { _, fenced = cfg.Store.Begin(context.WithoutCancel(ctx), next) }
	for {
		crash.happened = make(chan struct{})
		s.complete = make(chan struct{})
		again, err := process(ctx, s, crashing(crash, cfg), events)
		if err == nil {
			err = crash.restart()
		}
		if err == nil && fenced != nil {
			err = fmt.Errorf("begin a term: %w", fenced)
		}
		if err != nil || !again {
			return s.outcomes, err
		}
	}
}

// process is the life of a sequencer. It reports whether it has crashed.
func process[T any](ctx context.Context, s *source, cfg ordering.Config[T], events []*ordering.Event) (crashed bool, err error) {
	seq, err := ordering.New(ctx, cfg)
	if err != nil {
		return false, err
	}
	defer func() {
		if closed := seq.Close(); err == nil {
			err = closed
		}
		if crashed = s.crash.over(); crashed {
			err = nil // all that it was not told is left
		}
	}()
	if s.left() == 0 {
		return false, nil
	}
	for i, e := range events {
		if s.acknowledged(i) {
			continue
		}
		if err := seq.Offer(ctx, e, s.done); err != nil {
			return false, err
		}
	}
	drained := make(chan error, 1)
	go func() { drained <- seq.Drain(ctx) }()
	select {
	case err := <-drained:
		if err != nil {
			return false, fmt.Errorf("the sequencer has stopped, and not because of the crash: %w", err)
		}
	case <-s.crash.happened:
		return true, nil
	}
	select { // Drain may return a little before the last outcome is told
	case <-s.complete:
	case <-s.crash.happened:
	}
	return false, nil
}

// source redelivers events until they have outcomes.
type source struct {
	crash *Crash
	index map[*ordering.Event]int // of the events

	mu       sync.Mutex
	outcomes []ordering.Outcome
	open     int
	complete chan struct{} // closed when all have outcomes
}

// done takes the outcome of an event, unless the process is over.
func (s *source) done(e *ordering.Event, o ordering.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.crash.over() {
		return
	}
	if o.Result == ordering.Unfinished { // the sequencer has stopped
		return
	}
	s.outcomes[s.index[e]] = o
	if s.open--; s.open == 0 {
		close(s.complete)
	}
}

func (s *source) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *source) acknowledged(i int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes[i].Result != 0
}
