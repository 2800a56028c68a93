package ordering

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// errHalted is the error of a run that did not begin because the sequencer
// stops.
var errHalted = errors.New("ordering: the sequencer stops")

// decode decodes an event. A panic of Decode is the error.
func (s *Sequencer[T]) decode(e *Event) (value T, err error) {
	defer nameError(&err, "Decode", e)
	defer contain.Recover(&err)
	return s.cfg.Decode(e)
}

// nameError makes an error of a function of the configuration say so, and for which event.
func nameError(err *error, function string, e *Event) {
	if *err != nil {
		*err = fmt.Errorf("ordering: %s of event %.80q: %w", function, e.Name(), *err)
	}
}

// keys derives a job's lock keys. If that fails, the event gets none, and fails
// when its turn comes, by its policy.
func (s *Sequencer[T]) keys(j Job[T], claim *lockkeys.Claim) error {
	if j.item.read != nil {
		j.item.claim(claim)
		return nil
	}
	if j.item.bad == nil {
		j.item.bad = s.deriveKeys(j, claim)
	}
	if j.item.bad != nil {
		claim.Reset()
		return streamKeys(j.Event, claim)
	}
	return nil
}

func (s *Sequencer[T]) deriveKeys(j Job[T], claim *lockkeys.Claim) (err error) {
	defer nameError(&err, "Keys", j.Event)
	defer contain.Recover(&err)
	return s.cfg.Keys(j, claim)
}

// handle is one attempt at a job.
func (s *Sequencer[T]) handle(ctx context.Context, j Job[T]) error {
	if c := s.chain(ctx); c != nil {
		return s.chained(ctx, j, c)
	}
	if s.caution != nil {
		return s.attemptWithCare(ctx, j)
	}
	return s.attempt(ctx, j)
}

// attempt is one attempt at a job, as the core's Run says. What the store is the
// cause of does not count as one.
func (s *Sequencer[T]) attempt(ctx context.Context, j Job[T]) error {
	it := j.item
	if it.read != nil {
		if s.stopped.Load() { // another holder may have changed the data by now
			return dispatcher.Permanent(errHalted)
		}
		if it.tries++; it.tries > 1 { // the attempt before ended its goroutine
			return dispatcher.Permanent(dispatcher.ErrGoexit)
		}
		return it.read(ctx)
	}
	if s.stopped.Load() && !it.recalled.Load() {
		return dispatcher.Permanent(errHalted)
	}
	if it.bad != nil && !it.recalled.Load() {
		return dispatcher.Permanent(it.bad)
	}
	step := it.run.Begin(len(j.Event.Positions) == 0, it.recalled.Load())
	for {
		switch step.Kind {
		case core.RunHandle:
			switch {
			case it.tries >= s.cfg.Dispatcher.MaxAttempts: // and the last one has ended its goroutine
				return dispatcher.Permanent(dispatcher.ErrGoexit)
			case ctx.Err() != nil: // its time was used up waiting for the store
				return context.Cause(ctx)
			}
			err := s.call(ctx, j)
			step = it.run.Handled(it.committed, troubleOf(err), err)
		case core.RunCommit:
			within := ctx
			if ctx.Err() != nil { // the handler's time is over, and it has succeeded
				within = s.background
			}
			err := s.commitApplied(within, it)
			step = it.run.Committed(troubleOf(err), err)
		case core.RunLook:
			step = s.lookUp(it)
		case core.RunWait:
			step = s.waitForStore(it, step.Err)
		case core.RunMark:
			step = s.mark(it)
		case core.RunMarkAlone:
			var err error
			if step, err = s.markAlone(ctx, it); err != nil {
				return err
			}
		case core.RunRetry:
			if it.tries >= s.cfg.Dispatcher.MaxAttempts && !isWiden(step.Err) {
				return dispatcher.Permanent(step.Err)
			}
			return step.Err
		case core.RunEnd:
			it.Outcome, it.Cause = step.Result, step.Err
			return nil
		}
	}
}

func isWiden(err error) bool {
	if err == nil {
		return false
	}
	var widen *dispatcher.WidenError
	return errors.As(err, &widen)
}

// call calls the handler, and returns a panic as its error.
func (s *Sequencer[T]) call(ctx context.Context, j Job[T]) (err error) {
	it := j.item
	it.attempts++
	it.tries++
	it.reply = nil
	if it.started.IsZero() {
		it.started = time.Now()
	}
	defer func() {
		if err != nil && it.committed && s.chain(ctx) == nil {
			s.cfg.Logger.Warn("handler failed after its commit, which counts", "event", it.event.Name(), "err", err)
		}
	}()
	defer contain.Recover(&err)
	if err = s.callHandler(ctx, j); err == nil && len(it.reply) > MaxReply {
		err = dispatcher.Permanent(fmt.Errorf("%w: %d bytes, and %d may be kept", ErrReply, len(it.reply), MaxReply))
	}
	switch {
	case isWiden(err): // it runs again, having done nothing
		it.tries--
	case err != nil && it.waited && ctx.Err() != nil: // it has not had all of its time
		it.tries--
	}
	return err
}

// callHandler calls the handler with a job that is over when it has returned, however.
func (s *Sequencer[T]) callHandler(ctx context.Context, j Job[T]) error {
	j.call = j.calls.Add(1)
	defer j.calls.Add(1)
	return s.cfg.Handler(ctx, j)
}

// troubleOf classifies the error of an attempt.
func troubleOf(err error) core.Trouble {
	if err == nil { // checked first, since the rest allocates
		return core.None
	}
	var away *StoreError
	switch {
	case isFinal(err):
		return core.FencedOff
	case isWiden(err):
		return core.WantsMore
	case errors.As(err, &away) && !dispatcher.IsPermanent(err):
		return core.StoreAway
	}
	return core.Failing
}

// lookUp asks the store about the event, until it answers, and returns the next
// step.
func (s *Sequencer[T]) lookUp(it *item[T]) core.RunStep {
	f, away, err := s.look(s.accepting, it)
	if err != nil {
		return it.run.Halt(err)
	}
	away = away && !dispatcher.IsPermanent(it.run.Err()) // which is its own fault
	s.confirm(it, f)
	known := core.Nothing
	err = nil
	switch {
	case f.never != nil:
		known, err = core.ByOthers, f.never
	case f.job != nil && f.job.Status == StatusApplied:
		known = core.ByItself
	case f.isDone():
		known, err = core.AsDone, f.err()
	}
	return it.run.Looked(known, away, err)
}

// waitForStore waits for an unavailable store, before another attempt that does
// not count.
func (s *Sequencer[T]) waitForStore(it *item[T], cause error) core.RunStep {
	if it.awaySince.IsZero() {
		it.awaySince, it.pause = time.Now(), 10*time.Millisecond
	}
	if time.Since(it.awaySince) > s.cfg.StoreTimeout {
		s.stop(cause)
		return it.run.Halt(s.Err())
	}
	s.away("commit", it.pause, cause)
	timer := time.NewTimer(it.pause)
	defer timer.Stop()
	it.pause = min(2*it.pause, maxStorePause)
	select {
	case <-timer.C:
	case <-s.accepting.Done():
		return it.run.Halt(s.endError())
	}
	if it.tries > 0 && it.run.WillHandle() {
		it.tries--
	}
	return it.run.Waited()
}

// failureFor tells the dispatcher whether to stop. Other policies are applied
// in finish, before the event's lock keys are released.
func (s *Sequencer[T]) failureFor(j Job[T], err error) dispatcher.FailurePolicy {
	it := j.item
	switch {
	case it.committed, it.read != nil:
		return dispatcher.DeadLetter
	case errors.Is(err, errHalted):
		return dispatcher.Stop
	}
	var wrapped *dispatcher.HandlerError
	if errors.As(err, &wrapped) { // which has the dispatcher's number of the message
		err = wrapped.Err
	}
	if it.policy = s.policy(j, err); it.policy == dispatcher.Stop {
		s.stop(err)
		return dispatcher.Stop
	}
	it.failure = err
	return dispatcher.DeadLetter
}

// policy returns the policy of Config.FailureFor, or else Failure.
func (s *Sequencer[T]) policy(j Job[T], err error) dispatcher.FailurePolicy {
	policy := s.cfg.Failure
	caught := contain.Apart(func() error {
		asked := s.cfg.FailureFor(j, err)
		if asked > dispatcher.Stop {
			return fmt.Errorf("%v is no policy: use Park, DeadLetter or Stop", asked)
		}
		policy = cmp.Or(asked, policy)
		return nil
	})
	if caught != nil {
		s.cfg.Logger.Error("FailureFor failed; using Failure", "policy", policy.String(), "err", caught)
	}
	return policy
}

// finish ends a job, before its lock keys are released. err is not nil if the
// dispatcher ended first, or the attempts are used up.
func (s *Sequencer[T]) finish(j Job[T], err error) {
	it := j.item
	switch {
	case it.Outcome != 0:
	case it.committed:
		it.Outcome = core.Applied
	case it.failure != nil && it.policy == dispatcher.DeadLetter:
		s.giveUp(it)
	case it.failure != nil:
		it.Outcome, it.Cause = core.Failed, it.failure
		if j.Event.IsCommand() {
			s.cfg.Logger.Warn("command failed for good: nothing of it is kept, and a repeat runs again", "command", j.Event.ID, "err", it.failure)
		}
	default:
		it.Outcome, it.Cause = core.Unfinished, s.submitError(err)
	}
	if it.Outcome == core.Unfinished { // no later event may run once its lock keys are released
		s.step(fatal(it.Cause))
	}
	s.stepEnded(it)
}

// giveUp records a job that failed for good, with its numbers done without its
// effect, and dead-letters it.
func (s *Sequencer[T]) giveUp(it *item[T]) {
	step := it.run.GiveUp(it.failure)
	for step.Kind != core.RunEnd {
		switch step.Kind {
		case core.RunCommit:
			err := s.insist(s.accepting, "give up", isDuplicate, func() error {
				r := it.record(StatusDeadLettered, it.failure.Error())
				return s.commit(s.background, &r)
			})
			step = it.run.Committed(troubleOf(err), err)
		case core.RunLook:
			step = s.lookUp(it)
		case core.RunWait:
			step = s.waitForStore(it, step.Err)
		default:
			step = it.run.Halt(it.failure)
		}
	}
	it.Outcome, it.Cause = step.Result, step.Err
	if it.Outcome == core.GivenUp {
		s.deadLetter(it.event, it.failure)
	}
}

// look asks the store for the fate of an event, until it answers. away reports
// that it did not answer at once.
func (s *Sequencer[T]) look(ctx context.Context, it *item[T]) (f fate, away bool, err error) {
	err = s.insist(ctx, "look up an event", nil, func() (err error) {
		defer func() { away = away || err != nil }()
		if len(it.event.Positions) == 0 {
			jobs, err := s.term.LookCommands(s.background, []string{it.event.ID})
			if err == nil {
				f = fateOfCommand(it.event, jobs[0])
			}
			return err
		}
		states, err := s.term.Look(s.background, it.event.Positions)
		if err == nil {
			f = fateOf(it.event, it.event.Positions, states)
		}
		return err
	})
	return f, away, err
}
