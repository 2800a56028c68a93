package ordering

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// stub is a store and its term, of which a test replaces methods.
type stub struct {
	*Memory
	Term
	commit  func(ctx context.Context, r Record) error
	held    func()
	look    func()      // before Look
	acquire func()      // before Acquire
	away    atomic.Bool // Held, Look and Acquire fail
}

var errAway = errors.New("the store is away")

// Begin makes the store its own term.
func (s *stub) Begin(ctx context.Context, c Consumer) (_ Term, err error) {
	s.Term, err = s.Memory.Begin(ctx, c)
	return s, err
}

func (s *stub) Commit(ctx context.Context, r Record) error {
	if s.commit != nil {
		return s.commit(ctx, r)
	}
	return s.Term.Commit(ctx, r)
}

func (s *stub) Look(ctx context.Context, positions []Position) ([]NumberState, error) {
	if s.look != nil {
		s.look()
	}
	if s.away.Load() {
		return nil, errAway
	}
	return s.Term.Look(ctx, positions)
}

func (s *stub) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error) {
	if s.away.Load() {
		return nil, errAway
	}
	if s.held != nil {
		s.held()
	}
	return s.Term.Held(ctx, stream, from, limit, size)
}

func (s *stub) Acquire(ctx context.Context, streams []lockkeys.Key) ([]StreamState, error) {
	if s.acquire != nil {
		s.acquire()
	}
	if s.away.Load() {
		return nil, errAway
	}
	return s.Term.Acquire(ctx, streams)
}

// storyOn is a story on a given store.
func storyOn(t *testing.T, store Store, cfg Config[*Event], tell func(t *testing.T, r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, store)
		r.start(cfg)
		tell(t, r)
		r.stop()
	})
}

func TestWhatHasComeIsNotSkipped(t *testing.T) {
	a := series("a", 1, 9)
	var r *rig
	cfg := Config[*Event]{GapTimeout: time.Second, Replayer: ReplayerFunc(func(ctx context.Context, missing Range, _ func(context.Context, []*Event) error) (Answer, error) {
		// Late, but not lost: 1 runs and 4 waits when the source says that none of them is there.
		_, err := r.seq.OfferBatch(ctx, []*Event{a[0], a[3]}, r.done)
		return Answer{NoSuch: []Range{missing}}, err
	})}
	story(t, cfg, func(t *testing.T, this *rig) {
		r = this
		open := r.gate("a1")
		r.offer(a[8])
		r.sleep(time.Second)
		open()
		assert.Equal(t, []string{"a1", "a4", "a9"}, r.ran())
		job := job(t, r.store, "a=2")
		assert.Equal(t, StatusSkipped, job.Status)
	})
}

func TestWhatIsHeldIsNotSkipped(t *testing.T) {
	story(t, Config[*Event]{GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		a := series("a", 1, 9)
		r.offer(a[8])
		r.sleep(time.Second)
		require.Equal(t, Range{Stream: key("a"), From: 1, To: 8}, r.parked()[0].Gap)
		r.offer(a[3]) // the store has 4 and 9
		require.NoError(t, r.seq.Skip(t.Context(), key("a")))
		r.sleep(time.Second)
		assert.Equal(t, []string{"a4"}, r.ran())
		require.NoError(t, r.seq.Skip(t.Context(), key("a")))
		assert.Equal(t, []string{"a4", "a9"}, r.ran())
	})
}

// TestNothingOvertakesWhatIsResumed: x is behind a1, but not yet out of the
// dispatcher when a1 is resumed, since it waits for the key of b as well.
func TestNothingOvertakesWhatIsResumed(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("b1")
		r.failing("a1", errors.New("bad"))
		r.offer(ev("b1", "b=1"), ev("a1", "a=1"), ev("x", "a=2, b=2"), ev("a3", "a=3"))
		require.Len(t, r.parked(), 1)
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		synctest.Wait()
		open()
		ran := r.ran()
		assert.ElementsMatch(t, []string{"a1", "b1"}, ran[:2])
		assert.Equal(t, []string{"x", "a3"}, ran[2:])
	})
}

func TestDrainEndsWithAnOfferThatFails(t *testing.T) {
	var gate chan struct{}
	cfg := Config[*Event]{Keys: func(Job[*Event], *lockkeys.Claim) error {
		<-gate
		runtime.Goexit()
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		gate = make(chan struct{})
		go func() { _ = r.seq.Offer(t.Context(), ev("a1", "a=1"), r.done) }()
		synctest.Wait()
		drained := make(chan error)
		go func() { drained <- r.seq.Drain(t.Context()) }()
		synctest.Wait()
		close(gate)
		require.NoError(t, <-drained)
	})
}

func TestAHandlerThatSucceededIsNotCalledForTheCommit(t *testing.T) {
	failures := 2
	store := &stub{Memory: NewMemory()}
	store.commit = func(ctx context.Context, r Record) error {
		if failures--; failures >= 0 {
			return errors.New("connection lost")
		}
		return store.Term.Commit(ctx, r)
	}
	storyOn(t, store, Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: 3}}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a1"}, r.ran())
		assert.Equal(t, []Result{Applied}, r.outcome("a1"))
	})
}

func TestACommitThatOnlySeemsToFailCounts(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	store.commit = func(ctx context.Context, r Record) error {
		_ = store.Term.Commit(ctx, r)
		return errors.New("connection lost")
	}
	cfg := Config[*Event]{FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return dispatcher.Park }}
	storyOn(t, store, cfg, func(t *testing.T, r *rig) {
		r.offer(series("a", 1, 2)...)
		r.sleep(time.Minute)
		assert.Equal(t, []Result{Applied}, r.outcome("a1"))
		assert.Equal(t, []Result{Applied}, r.outcome("a2"))
		assert.Empty(t, r.parked())
	})
}

func TestAFailureAfterTheCommitIsNone(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("too late") },
		"panic": func() error { panic("too late") },
	} {
		t.Run(name, func(t *testing.T) {
			store := NewMemory()
			cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error {
				if err := store.Commit(ctx, job.Record()); err != nil {
					return err
				}
				job.Committed()
				return fail()
			}}
			storyOn(t, store, cfg, func(t *testing.T, r *rig) {
				r.offer(series("a", 1, 2)...)
				assert.Equal(t, []Result{Applied}, r.outcome("a1"))
				assert.Equal(t, []Result{Applied}, r.outcome("a2"))
				assert.Empty(t, r.parked())
			})
		})
	}
}

func TestFailureForIsAskedOnce(t *testing.T) {
	var asked atomic.Int32
	cfg := Config[*Event]{FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { asked.Add(1); return dispatcher.DeadLetter }}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(ev("a1", "a=1"))
		assert.Equal(t, []Result{DeadLettered}, r.outcome("a1"))
		assert.EqualValues(t, 1, asked.Load())
	})
}

// TestFailureForGivesNoPolicy: Failure applies then, whatever it is.
func TestFailureForGivesNoPolicy(t *testing.T) {
	for _, asked := range []dispatcher.FailurePolicy{0, dispatcher.Stop + 1} {
		cfg := Config[*Event]{Failure: dispatcher.DeadLetter, FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return asked }}
		story(t, cfg, func(t *testing.T, r *rig) {
			r.failing("a1", errors.New("bad"))
			r.offer(ev("a1", "a=1"))
			assert.Equal(t, []Result{DeadLettered}, r.outcome("a1"))
		})
	}
}

func TestAnEventTooLargeForTheDispatcherIsRefused(t *testing.T) {
	cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPendingBytes: 1000}}
	story(t, cfg, func(t *testing.T, r *rig) {
		large := ev("a1", "a=1")
		large.Payload = make([]byte, 2000)
		require.ErrorIs(t, r.seq.Offer(t.Context(), large, nil), dispatcher.ErrTooLarge)
		n, err := r.seq.OfferBatch(t.Context(), []*Event{ev("b1", "b=1"), large}, nil)
		require.ErrorIs(t, err, dispatcher.ErrTooLarge)
		assert.Equal(t, 1, n)
	})
}

// TestWhatIsHeldAndTooLargeIsParked: the bound may be new.
func TestWhatIsHeldAndTooLargeIsParked(t *testing.T) {
	store := NewMemory()
	large := ev("a1", "a=1")
	large.Payload = make([]byte, 2000)
	term := begin(t, store)
	states, err := term.Acquire(t.Context(), []lockkeys.Key{key("a")})
	require.NoError(t, err)
	require.NoError(t, term.Hold(t.Context(), []*Event{large}, Fences{key("a"): states[0].Fence}))
	cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPendingBytes: 1000}}
	storyOn(t, store, cfg, func(t *testing.T, r *rig) {
		require.Len(t, r.parked(), 1)
		assert.Contains(t, r.parked()[0].Error, dispatcher.ErrTooLarge.Error())
		r.offer(ev("b1", "b=1"))
		assert.Equal(t, []string{"b1"}, r.ran())
	})
}

func TestCopiesMayLeaveOutTheDefaultID(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("a=1")
		r.offer(ev("a=1", "a=1"), ev("", "a=1"))
		open()
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("a=1"))
	})
}

func TestOneEventOfferedByMany(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		e := ev("a1", "a=1")
		for range 100 {
			go func() { _ = r.seq.Offer(t.Context(), e, r.done) }()
		}
		synctest.Wait()
		open()
		assert.Len(t, r.ran(), 1)
		assert.Len(t, r.outcome("a1"), 100)
		assert.Equal(t, uint64(99), r.seq.Stats().Duplicates)
	})
}

func TestTooManyForTheStoreInOneBatch(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		a := series("a", 1, 3*maxPending)
		r.offer(a[0])
		n, err := r.seq.OfferBatch(t.Context(), a[1:], r.done)
		require.NoError(t, err)
		assert.Equal(t, len(a)-1, n)
		assert.Equal(t, []Result{Held}, r.outcome(fmt.Sprintf("a%d", len(a))))
	})
}

func TestASnapshotOfNothing(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.offer(ev("a1", "a=1"))
		assert.Empty(t, r.seq.Snapshot(-1))
		assert.Empty(t, r.seq.Snapshot(0))
		assert.Len(t, r.seq.Snapshot(5), 1)
		open()
	})
}
