package ordering

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestShutdownIsOnTimeWhateverHangs(t *testing.T) {
	var hang chan struct{}
	for name, cfg := range map[string]Config{
		"a handler": {Handler: func(context.Context, Job) error { <-hang; return errors.New("too late") }},
		"a replay": {Replayer: ReplayerFunc(func(context.Context, Range, func(context.Context, []*Event) error) (Answer, error) {
			<-hang
			return Answer{}, nil
		})},
		"the store": {Store: &stub{Memory: NewMemory(), look: func() { <-hang }}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hang = make(chan struct{})
				store := cfg.Store
				if store == nil {
					store = NewMemory()
				}
				r := newRig(t, store)
				r.start(cfg)
				r.offer(ev("a1", "a=1"), ev("b2", "b=2"))
				r.sleep(2 * time.Second) // what is missing is asked for
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				require.ErrorIs(t, r.seq.Shutdown(ctx), dispatcher.ErrUnfinished)
				assert.Equal(t, time.Second, time.Since(began))
				close(hang)
				require.NoError(t, r.seq.Close())
				synctest.Wait()
				assert.Len(t, r.outcome("a1"), 1)
				assert.Len(t, r.outcome("b2"), 1)
				assert.Zero(t, r.seq.Stats().Open)
			})
		})
	}
}

func TestShutdownsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config{})
		open := r.gate("a1")
		r.offer(series("a", 1, 9)...)
		closed := make(chan error)
		for range 3 {
			go func() {
				err := r.seq.Close()
				assert.Zero(t, r.seq.Stats().Open, "all were told by then")
				closed <- err
			}()
		}
		synctest.Wait()
		open()
		for range 3 {
			require.NoError(t, <-closed)
		}
	})
}

// TestAStoreThatIsAway: what needs it waits, until its context ends.
func TestAStoreThatIsAway(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	storyOn(t, store, Config{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 3)...)
		store.away.Store(true)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		r.sleep(time.Minute)
		require.ErrorIs(t, r.seq.Offer(t.Context(), ev("b1", "b=1"), nil), errAway)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.seq.Skip(ctx, key("b")), errAway)
		r.failing("a1", nil)
		store.away.Store(false)
		r.sleep(10 * time.Second)
		assert.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
	})
}

func TestAnOperatorWhoHasLeftDoesNothing(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	storyOn(t, store, Config{}, func(t *testing.T, r *rig) {
		hang := make(chan struct{})
		r.failing("a1", errors.New("bad"))
		r.failing("b1", errors.New("bad"))
		r.offer(ev("a1", "a=1"), ev("b1", "b=1"))
		store.held = func() { <-hang }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { _ = r.seq.Skip(t.Context(), key("a")) }()
		synctest.Wait()
		require.ErrorIs(t, r.seq.Drop(ctx, key("b")), context.DeadlineExceeded)
		close(hang)
		r.sleep(time.Second)
		require.Len(t, r.parked(), 1)
		assert.Equal(t, key("b"), r.parked()[0].Streams[0].Stream)
	})
}

// TestNothingFollowsWhatWasLost: when an event is refused for one of its
// streams, those behind it on the others are not run before it.
func TestNothingFollowsWhatWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		old, heir := newRig(t, store), newRig(t, store)
		old.start(Config{})
		heir.start(Config{})
		open := old.gate("x")
		old.offer(ev("x", "a=1, b=1"), ev("b2", "b=2"))
		heir.offer(ev("a2", "a=2"))
		open()
		assert.Equal(t, []Result{Unfinished}, old.outcome("b2"))
		assert.Equal(t, []string{"x"}, old.ran(), "its commit was refused, and b2 did not run")
		heir.offer(ev("x", "a=1, b=1"), ev("b2", "b=2"))
		assert.ElementsMatch(t, []string{"x", "a2", "b2"}, heir.ran())
		old.stop()
		heir.stop()
	})
}

// turns are two sequencers on one store that take turns with a stream: old has
// lost a to heir without having noticed, and is given it back.
func turns(t *testing.T, cfg Config, story func(t *testing.T, old, heir *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		old, heir := newRig(t, store), newRig(t, store)
		old.start(cfg)
		heir.start(cfg)
		old.offer(series("a", 1, 4)...)
		heir.offer(series("a", 5, 9)...)
		story(t, old, heir)
		assert.Empty(t, old.parked())
		old.stop()
		heir.stop()
	})
}

// TestAStreamThatWasLostUnnoticedHasNoGap: what the old holder takes for
// missing was done by the new one. The event is given back, and runs when it is
// delivered again; nobody is asked, and nothing is parked, skipped or stopped.
func TestAStreamThatWasLostUnnoticedHasNoGap(t *testing.T) {
	for _, policy := range []Policy{Park, Skip, Stop} {
		t.Run(policy.String(), func(t *testing.T) {
			source := &archive{}
			turns(t, Config{GapTimeout: time.Second, GapPolicy: policy, Replayer: source}, func(t *testing.T, old, heir *rig) {
				old.offer(ev("a10", "a=10"))
				old.sleep(time.Second)
				assert.Equal(t, []Result{Unfinished}, old.outcome("a10"))
				old.offer(ev("a10", "a=10"))
				assert.Equal(t, []Result{Unfinished, Applied}, old.outcome("a10"))
				assert.Empty(t, source.requests())
			})
		})
	}
}

// TestWhatBelongsToAnotherHolderIsNotParked: neither when more events wait than
// may, nor when two of them contradict each other, nor what comes for them.
func TestWhatBelongsToAnotherHolderIsNotParked(t *testing.T) {
	for name, late := range map[string][]*Event{
		"too many wait":   series("a", 10, 13),
		"a contradiction": {ev("x", "a=10, b=2"), ev("y", "a=11, b=1")},
	} {
		t.Run(name, func(t *testing.T) {
			turns(t, Config{GapTimeout: time.Hour, MaxEarly: 3}, func(t *testing.T, old, heir *rig) {
				old.offer(late...)
				old.sleep(time.Hour)
				heir.offer(series("a", 10, 10)...)
				assert.Equal(t, []Result{Applied}, heir.outcome("a10"))
				assert.Empty(t, heir.parked())
			})
		})
	}
}

// TestAnOperatorTakesOver: an operator of the old holder acts on what the new
// one has parked.
func TestAnOperatorTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		old, heir := newRig(t, store), newRig(t, store)
		old.start(Config{})
		heir.start(Config{})
		old.failing("a1", errors.New("bad"))
		heir.failing("a1", errors.New("bad"))
		heir.failing("a3", errors.New("bad"))
		old.offer(series("a", 1, 2)...)
		heir.offer(series("a", 3, 4)...)
		require.NoError(t, heir.seq.Skip(t.Context(), key("a"))) // a1; a2 runs, a3 is parked
		require.Equal(t, []string{"a2"}, heir.ran())
		require.Len(t, heir.parked(), 1)

		require.NoError(t, old.seq.Skip(t.Context(), key("a")))
		assert.Equal(t, []string{"a4"}, old.ran(), "it was a3 that was skipped")
		assert.Empty(t, old.parked())
		require.ErrorIs(t, heir.seq.Resume(t.Context(), key("a")), ErrNotParked)
		old.stop()
		heir.stop()
	})
}

// A panic of Owns is the error of New, and leaves no goroutine.
func TestOwnsPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config{})
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 2)...)
		require.NoError(t, r.seq.Close())
		parked, err := r.store.Parked(t.Context())
		require.NoError(t, err)
		fence := known(t, r.store, "a=1").Fence
		require.NoError(t, r.store.Unpark(t.Context(), parked[0].ID, Fences{key("a"): fence})) // so that there is a backlog
		_, err = New(t.Context(), Config{Store: r.store, Handler: r.handle, Owns: func(lockkeys.Key) bool { panic("no idea") }})
		var caught *dispatcher.PanicError
		require.ErrorAs(t, err, &caught)
		assert.Equal(t, "no idea", caught.Value)
	})
}

// TestParkingsLeaveMemory: and come back, with all their streams, when one of
// those is asked for.
func TestParkingsLeaveMemory(t *testing.T) {
	story(t, Config{IdleTTL: time.Minute, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
		r.failing("x", errors.New("bad"))
		r.offer(ev("x", "a=1, b=1"), ev("c2", "c=2"))
		r.sleep(time.Second)
		require.Len(t, r.parked(), 2)
		r.sleep(2 * time.Minute)
		stats := r.seq.Stats()
		assert.Zero(t, stats.Streams+stats.Parkings)

		r.offer(ev("b2", "b=2"), ev("c1", "c=1"))
		assert.Equal(t, []Result{Held}, r.outcome("b2"))
		assert.Equal(t, []string{"c1", "c2"}, r.ran())
		assert.Equal(t, 1, r.seq.Stats().Parkings)
		r.sleep(2 * time.Minute)
		r.failing("x", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		assert.Equal(t, []string{"c1", "c2", "x", "b2"}, r.ran())
	})
}

// TestOnlyWhatIsOwnedIsResumed: a new sequencer leaves alone what is another
// one's, until it is offered an event of that.
func TestOnlyWhatIsOwnedIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		other, r := newRig(t, store), newRig(t, store)
		other.start(Config{GapTimeout: time.Second})
		other.offer(ev("a2", "a=2"), ev("b2", "b=2"))
		other.sleep(time.Second)
		require.Len(t, other.parked(), 2)

		r.start(Config{GapTimeout: time.Hour, Owns: func(stream lockkeys.Key) bool { return stream == key("b") }})
		other.offer(ev("a1", "a=1"))
		assert.Equal(t, []string{"a1", "a2"}, other.ran(), "a was not taken from it")
		r.offer(ev("b1", "b=1"))
		assert.Equal(t, []string{"b1", "b2"}, r.ran())
		r.offer(ev("a3", "a=3"))
		assert.Equal(t, []Result{Applied}, r.outcome("a3"))
		other.stop()
		r.stop()
	})
}

func TestContradictionsAmongWhatIsHeldAreNotLost(t *testing.T) {
	story(t, Config{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(ev("a1", "a=1"))
		r.offer(ev("a2", "a=2"), ev("x", "a=2"), ev("y", "a=2, b=1"), ev("b2", "b=2"))
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		assert.Equal(t, []Result{Refused}, r.outcome("x"), "the store has a2 already")
		parked := r.parked() // y can never run, and b waits for a decision about it
		require.Len(t, parked, 1)
		assert.Equal(t, Contradiction, parked[0].Reason)
		assert.Equal(t, "y", parked[0].Events[0].ID)
		require.NoError(t, r.seq.Skip(t.Context(), key("b")))
		assert.Equal(t, []string{"a1", "a2", "b2"}, r.ran())
		held, err := r.store.Held(t.Context(), key("a"), 1, 10, 1<<20)
		require.NoError(t, err)
		assert.Empty(t, held)
	})
}

func TestWhatIsHeldBehindTheEndIsParked(t *testing.T) {
	story(t, Config{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(ev("a1", "a=1"))
		r.offer(ev("a2", "a=2;end"), ev("a3", "a=3"))
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		assert.Equal(t, []string{"a1", "a2"}, r.ran())
		require.Len(t, r.parked(), 1)
		assert.Contains(t, r.parked()[0].Error, ErrEnded.Error())
		require.NoError(t, r.seq.Skip(t.Context(), key("a")))
		assert.Empty(t, r.parked())
		assert.Zero(t, r.seq.Stats().Streams)
	})
}

func TestTwoGapsInOneParkingHealAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config{GapTimeout: time.Second})
		r.offer(ev("x", "a=2, b=2"))
		r.sleep(time.Second)
		require.Len(t, r.parked(), 1)
		assert.Len(t, r.parked()[0].Streams, 2)
		r.stop()
		r.start(Config{GapTimeout: time.Second})
		r.sleep(time.Minute)
		r.offer(ev("a1", "a=1"))
		r.offer(ev("b1", "b=1"))
		r.sleep(time.Minute)
		assert.ElementsMatch(t, []string{"a1", "b1", "x"}, r.ran())
		assert.Empty(t, r.parked())
		r.stop()
	})
}

func TestALongCircleIsFound(t *testing.T) {
	story(t, Config{GapTimeout: time.Hour}, func(t *testing.T, r *rig) {
		const n = 10 * searchSteps
		for i := range n { // each is second behind the one before, the first behind the last
			r.offer(ev(fmt.Sprintf("e%d", i), fmt.Sprintf("s%d=1, s%d=2", i, (i+1)%n)))
		}
		r.sleep(searchPause)
		parked := r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Contradiction, parked[0].Reason)
		assert.Len(t, parked[0].Events, n)
		assert.Less(t, len(parked[0].Error), 2000)
	})
}

func TestNumbersAtTheEndOfTheWorld(t *testing.T) {
	cfg := Config{GapTimeout: time.Second, GapPolicy: Skip, MaxSkip: math.MaxInt}
	story(t, cfg, func(t *testing.T, r *rig) {
		at := func(id string, n uint64) *Event {
			return &Event{ID: id, Positions: []Position{{Stream: lockkeys.MustParse("a"), Number: n}}}
		}
		r.offer(at("last", MaxNumber), at("first", 1), at("half", 1<<62))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"first", "half", "last"}, r.ran())
		r.offer(at("last", MaxNumber), at("another", MaxNumber))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("last"))
		assert.Equal(t, []Result{Refused}, r.outcome("another"))
		states, err := r.store.Acquire(t.Context(), []lockkeys.Key{key("a")})
		require.NoError(t, err)
		assert.EqualValues(t, MaxNumber, states[0].Last)
	})
}
