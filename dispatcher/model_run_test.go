package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// run carries the plan out, in a bubble, and returns what is wrong.
func (m *model) run() error {
	var err error
	if m.d, err = dispatcher.New(m.config()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		m.produce(ctx)
	}()
	defer func() { cancel(); <-produced }() // a bubble must not end before
	for now := 1; ; now++ {
		synctest.Wait()
		var ended int
		if ended, err = m.state(); err != nil {
			break
		}
		if now == m.plan.shutdown {
			return errors.Join(m.shutdown(), m.history.check(m.claims))
		}
		if ended == len(m.plan.messages) {
			break
		}
		if now > 2000 {
			err = fmt.Errorf("messages without a result: %+v", m.d.Snapshot())
			break
		}
		m.operate()
		if m.drained == nil {
			m.drained = make(chan error, 1)
			go func(done chan<- error) { done <- m.d.Drain(ctx) }(m.drained)
		}
		time.Sleep(tick)
	}
	closeErr := m.d.Close()
	synctest.Wait()
	if err != nil {
		return err
	}
	_, err = m.state()
	return errors.Join(closeErr, err, m.once(), m.history.check(m.claims))
}

// state tells how many messages have ended and what is wrong so far.
func (m *model) state() (ended int, err error) {
	err = m.compare()
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.results), errors.Join(m.problem, err)
}

func (m *model) produce(ctx context.Context) {
	for i, planned := range m.plan.messages {
		if planned.gap > 0 {
			time.Sleep(planned.gap)
		}
		err := m.d.Submit(ctx, i+1, dispatcher.OnDone(m.done))
		for errors.Is(err, dispatcher.ErrTooManyParked) {
			time.Sleep(tick)
			err = m.d.Submit(ctx, i+1, dispatcher.OnDone(m.done))
		}
		if err != nil {
			if !errors.Is(err, dispatcher.ErrClosed) {
				m.complain("Submit: %v", err)
			}
			return
		}
		m.mu.Lock()
		m.submitted++
		m.mu.Unlock()
	}
}

// operate decides about one parked message, mostly.
func (m *model) operate() {
	parked := m.d.Parked()
	if len(parked) == 0 {
		return
	}
	decision := 1 // skip the first
	if len(m.plan.operator) > 0 {
		decision, m.plan.operator = m.plan.operator[0], m.plan.operator[1:]
	}
	action, p := decision%4, parked[decision/4%len(parked)]
	m.mu.Lock()
	switch action {
	case 0:
		m.tries[p.Message] = 0
	case 1:
		m.skipped[p.Message] = true
	case 2:
		considered := map[int]bool{}
		for _, q := range m.d.Snapshot().Messages {
			considered[q.Message] = true
			if q.ID == p.ID || q.State == dispatcher.StateWaiting && lockkeys.NewClaim(q.Claim...).Conflicts(lockkeys.NewClaim(p.Claim...)) {
				m.skipped[q.Message] = true
			}
		}
		for i := 1; i <= int(m.d.Stats().Accepted); i++ { // those still in the queue
			if !considered[i] && len(m.results[i]) == 0 && !m.plan.messages[i-1].keyFails &&
				lockkeys.NewClaim(m.wide[i]...).Conflicts(lockkeys.NewClaim(p.Claim...)) {
				m.skipped[i] = true
			}
		}
	}
	m.mu.Unlock()
	var err error
	switch action {
	case 0:
		err = m.d.Resume(context.Background(), p.ID)
	case 1:
		err = m.d.Skip(context.Background(), p.ID)
	case 2:
		err = m.d.Drop(context.Background(), p.ID)
	}
	if err != nil {
		m.complain("operator: %v", err)
	}
}

// shutdown ends the run early.
func (m *model) shutdown() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.plan.limit)
	defer cancel()
	begun := time.Now()
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	report, err := m.d.Shutdown(ctx)
	if took := time.Since(begun); took > m.plan.limit {
		return fmt.Errorf("Shutdown took %v of %v", took, m.plan.limit)
	}
	// The deadline may come before the observer or the callbacks have had their say.
	late := errors.Is(err, context.DeadlineExceeded)
	if err == nil && len(report.Running) > 0 || err != nil && !late {
		return fmt.Errorf("Shutdown: %v with %d running", err, len(report.Running))
	}
	if err := m.d.Submit(context.Background(), 1); !errors.Is(err, dispatcher.ErrClosed) {
		return fmt.Errorf("Submit after Shutdown: %v", err)
	}
	byID := func(a, b dispatcher.Left[int]) int { return int(a.ID) - int(b.ID) }
	if !slices.IsSortedFunc(report.Unfinished, byID) || !slices.IsSortedFunc(report.Running, byID) {
		return fmt.Errorf("report not in order: %+v", report)
	}
	synctest.Wait()
	m.mu.Lock()
	ended := len(m.results)
	for _, l := range report.Running {
		if len(m.results[l.Message]) > 0 {
			ended-- // at this very instant
		}
	}
	for _, l := range report.Unfinished {
		if r := m.results[l.Message]; len(r) != 1 || !errors.Is(r[0], dispatcher.ErrClosed) {
			m.problem = fmt.Errorf("unfinished message %d has the results %v", l.ID, r)
		}
	}
	if ended+len(report.Running) != m.submitted {
		m.problem = fmt.Errorf("%d accepted, %d have results, %d run", m.submitted, ended, len(report.Running))
	}
	m.mu.Unlock()
	time.Sleep(100 * tick) // for what still runs
	synctest.Wait()
	if r := m.d.Snapshot(); len(r.Messages) > 0 || r.Queued > 0 {
		return fmt.Errorf("left after Shutdown: %+v", r)
	}
	if again, err := m.d.Shutdown(context.Background()); err != nil || len(again.Unfinished)+len(again.Running) > 0 {
		return fmt.Errorf("second Shutdown: %+v, %v", again, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.problem, m.once())
}

// once checks that every accepted message has exactly one result. Nothing
// runs any more.
func (m *model) once() error {
	for i := 1; i <= m.submitted; i++ {
		if len(m.results[i]) != 1 {
			return fmt.Errorf("message %d has %d results: %v", i, len(m.results[i]), m.results[i])
		}
	}
	return nil
}

// compare checks what the dispatcher shows at a moment in which nothing moves.
func (m *model) compare() error {
	s, stats, parked := m.d.Snapshot(), m.d.Stats(), m.d.Parked()
	check := func(ok bool, format string, args ...any) error {
		if ok {
			return nil
		}
		return fmt.Errorf(format+"\nstats %+v\nsnapshot %+v", append(args, stats, s)...)
	}
	var errs []error
	byID := make(map[uint64]dispatcher.MessageInfo[int])
	claims := make(map[uint64]*lockkeys.Claim)
	counts := make(map[dispatcher.State]int)
	busy := make(map[int]bool)
	stalled, looking := 0, 0
	for _, q := range s.Messages {
		byID[q.ID], claims[q.ID] = q, lockkeys.NewClaim(q.Claim...)
		counts[q.State]++
		if q.State == dispatcher.StateRunning {
			busy[q.Worker] = true
		}
		if q.State == dispatcher.StateWaiting {
			if q.Stalled {
				stalled++
			} else {
				looking++
			}
		}
	}
	errs = append(errs, m.overtaking(s, claims))
	behindParked := m.behindParked(s, claims)
	for i, q := range s.Messages {
		blockers := 0
		for j, other := range s.Messages {
			if i == j || !claims[q.ID].Conflicts(claims[other.ID]) {
				continue
			}
			has := other.State != dispatcher.StateWaiting
			if has || other.ID < q.ID {
				blockers++
			}
			if has && q.State != dispatcher.StateWaiting {
				same := q.State == dispatcher.StateRunning && other.State == dispatcher.StateRunning && q.Worker == other.Worker
				errs = append(errs, check(same, "%d and %d have conflicting keys at once", q.ID, other.ID))
			}
		}
		if q.State != dispatcher.StateWaiting {
			errs = append(errs, check(!q.Stalled && q.Blocker == 0, "%d has its keys and is behind something", q.ID))
			continue
		}
		errs = append(errs, check(blockers > 0, "work conservation: %d waits for nothing", q.ID))
		by, ok := byID[q.Blocker]
		errs = append(errs, check(ok && (by.State != dispatcher.StateWaiting || by.ID < q.ID) &&
			slices.Contains(by.Claim, q.BlockedBy) && claims[q.ID].Conflicts(lockkeys.NewClaim(q.BlockedBy)),
			"explained: %d is not blocked by %d, %v", q.ID, q.Blocker, q.BlockedBy))
		errs = append(errs, check(behindParked[q.ID] || !q.Stalled, "%d is behind no parked message", q.ID))
		errs = append(errs, check(q.Stalled || by.State != dispatcher.StateParked && !by.Stalled, "%d is behind a parked message", q.ID))
	}
	idle := m.plan.workers - len(busy)
	if !m.stopping && m.d.Err() == nil {
		errs = append(errs, check(idle == 0 || stats.Ready == 0, "work conservation: %d idle and %d ready", idle, stats.Ready))
		errs = append(errs, check(idle == 0 || s.Queued == 0 || looking > m.plan.policy.Window(), "work conservation: %d idle, %d not considered", idle, s.Queued))
	}
	errs = append(errs,
		check(len(s.Messages)+s.Queued <= m.plan.maxParked+m.plan.maxPending, "more than MaxParked %d and MaxPending %d", m.plan.maxParked, m.plan.maxPending),
		check(stats.Beyond <= m.plan.maxPending && stats.Parked+stats.Behind-stats.Beyond <= m.plan.maxParked, "beyond MaxParked %d", m.plan.maxParked))
	total := uint64(stats.Queued+stats.Waiting+stats.Ready+stats.Running+stats.Backoff+stats.Held+stats.Parked+stats.Behind) + stats.Succeeded + stats.Failed
	errs = append(errs,
		check(looking <= m.plan.policy.Window()+1+m.plan.excess(), "window: %d waiting", looking),
		check(stats.Accepted == total, "stats do not add up to %d", total),
		check(stats.Waiting == looking && stats.Behind == stalled && stats.Queued == s.Queued &&
			stats.Ready == counts[dispatcher.StateReady] && stats.Running == counts[dispatcher.StateRunning] &&
			stats.Backoff == counts[dispatcher.StateBackoff] && stats.Held == counts[dispatcher.StateHeld] && stats.Parked == counts[dispatcher.StateParked], "stats differ from the snapshot"),
		check(len(parked) == stats.Parked && slices.IsSortedFunc(parked, func(a, b dispatcher.ParkedMessage[int]) int { return int(a.ID) - int(b.ID) }), "parked: %+v", parked))
	behind := 0
	for _, p := range parked {
		behind += p.Behind
	}
	errs = append(errs, check(behind == stalled, "behind parked messages: %+v", parked))
	quiet := s.Queued == 0 && looking+stats.Ready+stats.Running+stats.Backoff+stats.Held == 0
	if m.drained != nil {
		select {
		case err := <-m.drained:
			m.drained = nil
			errs = append(errs, err)
		default:
			errs = append(errs, check(!quiet, "Drain waits for nothing"))
		}
	}
	return errors.Join(errs...)
}

// overtaking tells of a message that has got its keys since this was called last,
// though an earlier one that conflicts with it has waited all the time, be it
// with a claim that it has widened to.
func (m *model) overtaking(s dispatcher.Snapshot[int], claims map[uint64]*lockkeys.Claim) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := make(map[uint64]standing)
	for _, q := range s.Messages {
		now[q.ID] = standing{q.State != dispatcher.StateWaiting, m.position[q.Message]}
	}
	for id, q := range now {
		if q.hasKeys || m.stood[id] != q {
			continue // it has not waited
		}
		for later, o := range now {
			if later > id && o.hasKeys && !m.stood[later].hasKeys && claims[id].Conflicts(claims[later]) {
				err = errors.Join(err, fmt.Errorf("order: %d has got its keys, and %d, which is earlier, waits as before: %+v", later, id, s))
			}
		}
	}
	m.stood = now
	return err
}

// standing is how a message stood when nothing moved.
type standing struct {
	hasKeys  bool
	position int // in its steps
}

// excess is how many more may look than the window says: those that come back
// to it, because they widen, were in a batch, or were behind a parked message.
func (p plan) excess() int {
	if p.failure == dispatcher.Park || p.batch > 0 {
		return len(p.messages)
	}
	n := 0
	for _, m := range p.messages {
		if slices.ContainsFunc(m.steps, func(s step) bool { return s.kind == widens || s.release >= 0 }) {
			n++
		}
	}
	return n
}

// behindParked tells which waiting messages are behind a parked one, by the
// definition: they conflict with it or with an earlier one that is behind it.
func (m *model) behindParked(s dispatcher.Snapshot[int], claims map[uint64]*lockkeys.Claim) map[uint64]bool {
	behind := make(map[uint64]bool)
	for _, q := range s.Messages {
		if q.State != dispatcher.StateWaiting {
			continue
		}
		for _, other := range s.Messages {
			ahead := other.State == dispatcher.StateParked || other.ID < q.ID && behind[other.ID]
			if other.ID != q.ID && ahead && claims[q.ID].Conflicts(claims[other.ID]) {
				behind[q.ID] = true
			}
		}
	}
	return behind
}
