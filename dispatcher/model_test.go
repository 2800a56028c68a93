package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestModel runs random plans and compares the dispatcher with the rules
// after every tick, when nothing moves.
func TestModel(t *testing.T) {
	for name, v := range map[string]variant{
		"plain":          {},
		"park":           {park: true},
		"batch":          {batch: true},
		"batch park":     {batch: true, park: true},
		"shutdown":       {shutdown: true, park: true},
		"chain":          {chain: true},
		"chain park":     {chain: true, park: true},
		"chain shutdown": {chain: true, shutdown: true},
		"batch shutdown": {batch: true, shutdown: true},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				p := drawPlan(rt, v)
				var err error
				synctest.Test(t, func(*testing.T) { err = newModel(p).run() })
				if err != nil {
					rt.Fatal(err)
				}
			})
		})
	}
}

var (
	errStep      = errors.New("the step fails")
	errUntouched = errors.New("not got to")
)

// model runs one plan. Messages are numbered from 1, as the dispatcher does
// it, since only one goroutine submits.
type model struct {
	plan    plan
	d       *dispatcher.Dispatcher[int]
	history *history
	claims  map[uint64]*lockkeys.Claim // as submitted

	mu        sync.Mutex
	wide      map[int][]lockkeys.Request // as widened
	position  map[int]int                // in its steps
	attempts  map[int]int                // those that count
	tries     map[int]int                // of them, since the last resume
	failed    map[int]stepKind           // how the last attempt ended
	results   map[int][]error
	batches   int
	submitted int
	stopping  bool
	skipped   map[int]bool
	problem   error
	stood     map[uint64]standing // when nothing moved last
	drained   chan error
}

func newModel(p plan) *model {
	m := &model{
		plan: p, history: newHistory(), claims: make(map[uint64]*lockkeys.Claim),
		wide: make(map[int][]lockkeys.Request), position: make(map[int]int), attempts: make(map[int]int),
		tries: make(map[int]int), failed: make(map[int]stepKind), results: make(map[int][]error), skipped: make(map[int]bool),
	}
	for i, planned := range p.messages {
		claim := lockkeys.NewClaim(planned.keys...)
		if planned.keyFails {
			claim.Reset()
		}
		m.claims[uint64(i+1)] = claim
		m.wide[i+1] = slices.Clone(claim.Requests())
	}
	return m
}

func (m *model) config() dispatcher.Config[int] {
	cfg := dispatcher.Config[int]{
		Keys:        m.keys,
		Workers:     m.plan.workers,
		Policy:      m.plan.policy,
		MaxAttempts: m.plan.attempts,
		Backoff:     dispatcher.Backoff{Initial: tick, Max: 3 * tick, Jitter: -1},
		Failure:     m.plan.failure,
		DeadLetter:  m.deadLetter,
		MaxParked:   m.plan.maxParked,
		MaxPending:  m.plan.maxPending,
		CancelGrace: 2 * tick,
	}
	if m.plan.failure == dispatcher.Park {
		cfg.FailureFor = func(i int, _ error) dispatcher.FailurePolicy {
			if m.plan.messages[i-1].buried || i%2 == 0 {
				return dispatcher.DeadLetter
			}
			return dispatcher.Park
		}
	}
	switch {
	case m.plan.chain:
		cfg.Handler, cfg.Together = m.handle, m.together
		cfg.MaxBatch, cfg.ChainTime = m.plan.batch, m.plan.chainTime
	case m.plan.batch > 0:
		cfg.BatchHandler, cfg.MaxBatch = m.handleBatch, m.plan.batch
	default:
		cfg.Handler = m.handle
	}
	if m.plan.observed > 0 {
		cfg.Observer = func(dispatcher.Event[int]) {}
	}
	return cfg
}

// deadLetter takes some of the messages. The others are parked, be it because
// dead-lettering fails.
func (m *model) deadLetter(_ context.Context, i int, err error) error {
	switch {
	case m.plan.messages[i-1].buried:
		return nil
	case i%3 == 0:
		panic(err)
	case i%3 == 1:
		runtime.Goexit()
	}
	return errStep
}

func (m *model) complain(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.problem == nil {
		m.problem = fmt.Errorf(format, args...)
	}
}

func (m *model) keys(i int, claim *lockkeys.Claim) error {
	claim.Add(m.plan.messages[i-1].keys...)
	if m.plan.messages[i-1].keyFails {
		return errStep
	}
	return nil
}

// started notes that a handler was called.
func (m *model) started(i int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopping {
		m.problem = errors.Join(m.problem, fmt.Errorf("message %d started after Shutdown", i))
	}
}

// step returns what the next attempt of message i does.
func (m *model) step(i int) step {
	m.mu.Lock()
	defer m.mu.Unlock()
	if steps := m.plan.messages[i-1].steps; m.position[i] < len(steps) {
		return steps[m.position[i]]
	}
	return step{release: -1}
}

func (m *model) claim(i int) []lockkeys.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wide[i]
}

func (m *model) handle(ctx context.Context, i int) error {
	m.started(i)
	s := m.step(i)
	claim := m.claim(i)
	m.mu.Lock()
	attempt := m.attempts[i] + 1
	m.mu.Unlock()
	if info, ok := dispatcher.InfoFrom(ctx); !ok || info.ID != uint64(i) || info.Attempt != attempt {
		m.complain("message %d, attempt %d: Info is %+v", i, attempt, info)
	}
	chain, _ := ctx.Value(chainKey{}).(*chain)
	kept := false
	if chain == nil {
		m.history.begin(uint64(i), 0, claim)
		defer func() {
			if !kept {
				m.history.end(uint64(i))
			}
		}()
	} else if err := m.join(chain, i, claim); err != nil {
		return err
	}
	finish := func(error) {}
	if s.holds {
		var err error
		if finish, err = dispatcher.Hold(ctx); (err != nil) != (chain != nil) {
			m.complain("message %d: Hold: %v", i, err)
		} else if err != nil {
			return err
		}
	}
	if err := wait(ctx, s, s.before); err != nil {
		go finish(nil) // which comes too late
		return err
	}
	if s.release >= 0 && s.release < len(claim) && chain != nil {
		err := dispatcher.Release(ctx, claim[s.release].Key)
		if err == nil {
			m.complain("message %d: Release in a chain", i)
		}
		return err
	}
	if s.release >= 0 && s.release < len(claim) {
		rest := slices.Delete(slices.Clone(claim), s.release, s.release+1)
		m.history.release(uint64(i), rest)
		if err := dispatcher.Release(ctx, claim[s.release].Key); err != nil {
			m.complain("message %d: Release: %v", i, err)
		}
		if err := wait(ctx, s, s.after); err != nil {
			return err
		}
	}
	if !s.holds {
		return m.end(i, s)
	}
	kept = true
	go func() {
		err := wait(ctx, s, s.held)
		if err == nil {
			err = m.end(i, s)
		}
		m.history.end(uint64(i))
		finish(err)
		finish(errStep) // does nothing
	}()
	return nil
}

// handleBatch does the steps of its messages up to the first that must be
// tried again; what it has not got to, it leaves untouched. Where a message
// that fails for good is parked, it stops there too, to keep the order.
func (m *model) handleBatch(ctx context.Context, batch []int) []error {
	m.started(batch[0])
	m.mu.Lock()
	m.batches++
	number := m.batches
	m.mu.Unlock()
	if len(batch) > m.plan.batch {
		m.complain("batch of %d, more than MaxBatch %d", len(batch), m.plan.batch)
	}
	for n, i := range batch[1:] {
		m.checkNext(batch[n], i)
	}
	results := make([]error, len(batch))
	for n, i := range batch {
		s := m.step(i)
		m.history.begin(uint64(i), number, m.claim(i))
		defer m.history.end(uint64(i))
		err := wait(ctx, s, s.before)
		if err == nil {
			err = m.end(i, s)
		}
		if results[n] = err; err != nil {
			break // what comes after it has not been touched, whatever its result
		}
	}
	return results
}

// checkNext complains if two messages that follow each other in a batch do not
// conflict.
func (m *model) checkNext(i, next int) {
	if !lockkeys.NewClaim(m.claim(i)...).Conflicts(lockkeys.NewClaim(m.claim(next)...)) {
		m.complain("%d follows %d in a batch, and does not conflict with it", next, i)
	}
}

// chain is a call of together: a transaction of all that its handlers note.
type chain struct {
	number   int
	messages []int
	before   []noted
}

type chainKey struct{}

// noted is what is noted of a message.
type noted struct {
	position, attempts, tries int
	failed                    stepKind
	wide                      []lockkeys.Request
}

// together undoes everything that the handlers have noted if one fails, or the
// commit does.
func (m *model) together(ctx context.Context, run func(context.Context) error) (err error) {
	m.mu.Lock()
	m.batches++
	c := &chain{number: m.batches}
	m.mu.Unlock()
	err = errStep // if a handler ends the goroutine
	defer func() {
		for n, i := range c.messages {
			if err != nil {
				m.restore(i, c.before[n])
			}
			m.history.leave(uint64(i), err != nil)
		}
	}()
	err = run(context.WithValue(ctx, chainKey{}, c))
	if m.plan.commitFails > 0 && c.number%m.plan.commitFails == 0 {
		err = errStep
	}
	return err
}

// join begins an attempt of a message as part of a chain.
func (m *model) join(c *chain, i int, claim []lockkeys.Request) error {
	if len(c.messages) > 0 {
		m.checkNext(c.messages[len(c.messages)-1], i)
	}
	m.history.begin(uint64(i), c.number, claim)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.messages = append(c.messages, i)
	c.before = append(c.before, noted{m.position[i], m.attempts[i], m.tries[i], m.failed[i], m.wide[i]})
	if m.attempts[i] > 0 {
		return errStep // a message that is tried again runs alone
	}
	return nil
}

func (m *model) restore(i int, n noted) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.position[i], m.attempts[i], m.tries[i], m.failed[i], m.wide[i] = n.position, n.attempts, n.tries, n.failed, n.wide
}

// wait returns an error if the step obeys a context that ends.
func wait(ctx context.Context, s step, d time.Duration) error {
	if !s.obeys {
		time.Sleep(d)
		return nil
	}
	return pause.For(ctx, d)
}

// end notes the end of an attempt and ends it as its step says.
func (m *model) end(i int, s step) error {
	m.mu.Lock()
	m.position[i]++
	kind := s.kind
	if kind == widens {
		wider := lockkeys.NewClaim(append(slices.Clone(m.wide[i]), s.widen...)...).Requests()
		if s.release < 0 && slices.Equal(wider, m.wide[i]) {
			kind = failsForGood // it asked for what it has
		} else if s.release >= 0 {
			kind, s.widen = fails, nil
		} else {
			m.wide[i] = wider
		}
	}
	if kind != widens {
		m.attempts[i]++
		m.tries[i]++
	}
	m.failed[i] = kind
	m.mu.Unlock()
	switch s.kind {
	case fails:
		return errStep
	case failsForGood:
		return dispatcher.Permanent(errStep)
	case panics:
		panic(errStep)
	case exits:
		runtime.Goexit()
	case widens:
		if s.widen == nil {
			return errStep
		}
		return dispatcher.Widen(s.widen...)
	}
	return nil
}

// done checks the result of a message.
func (m *model) done(i int, err error) {
	m.mu.Lock()
	m.results[i] = append(m.results[i], err)
	planned, kind := m.plan.messages[i-1], m.failed[i]
	attempts, tries, skipped := m.attempts[i], m.tries[i], m.skipped[i]
	m.mu.Unlock()
	var handlerErr *dispatcher.HandlerError
	var keyErr *dispatcher.KeyFuncError
	switch {
	case skipped != errors.Is(err, dispatcher.ErrSkipped):
		m.complain("message %d: given up by the operator: %v, but its result is %v", i, skipped, err)
	case skipped:
	case errors.Is(err, dispatcher.ErrClosed):
		if m.plan.shutdown == 0 {
			m.complain("message %d: result %v without a shutdown", i, err)
		}
	case err == nil:
		if planned.keyFails || kind != succeeds || attempts == 0 {
			m.complain("message %d has no error", i)
		}
	case !errors.As(err, &handlerErr):
		m.complain("message %d: result %v is no HandlerError", i, err)
	case handlerErr.ID != uint64(i) || handlerErr.Attempts != attempts:
		m.complain("message %d, %d attempts: result %v", i, attempts, err)
	case !planned.buried:
		m.complain("message %d failed but should have been parked: %v", i, err)
	case errors.As(err, &keyErr) != planned.keyFails:
		m.complain("message %d: key function fails: %v, but its result is %v", i, planned.keyFails, err)
	case !planned.keyFails && kind != failsForGood && tries != m.plan.attempts:
		m.complain("message %d failed after %d of %d attempts: %v", i, tries, m.plan.attempts, err)
	}
}
