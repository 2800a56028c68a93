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
	for name, cfg := range map[string]Config[*Event]{
		"a handler": {Handler: func(context.Context, Job[*Event]) error { <-hang; return errors.New("too late") }},
		"a replay": {Replayer: ReplayerFunc(func(context.Context, Range, func(context.Context, []*Event) error) (Answer, error) {
			<-hang
			return Answer{}, nil
		})},
		"the store": {Store: &stub{Memory: NewMemory(), acquire: func() { <-hang }}},
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
		r.start(Config[*Event]{})
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

// TestAStoreThatIsAway: what needs it waits until it is back, and an operator
// until the context ends; and then all goes on.
func TestAStoreThatIsAway(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	storyOn(t, store, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 3)...)
		store.away.Store(true)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		r.sleep(time.Minute)
		r.offer(ev("b1", "b=1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.seq.Skip(ctx, key("c")), context.DeadlineExceeded)
		r.failing("a1", nil)
		assert.Empty(t, r.outcome("b1"))
		store.away.Store(false)
		r.sleep(10 * time.Second)
		assert.ElementsMatch(t, []string{"a1", "a2", "a3", "b1"}, r.ran())
		assert.NotZero(t, r.seq.Stats().StoreErrors)
	})
}

// TestAStoreThatStaysAway: it is waited for until StoreTimeout, and then all
// stops, for that reason; nothing is told of what is in doubt.
func TestAStoreThatStaysAway(t *testing.T) {
	for name, offer := range map[string]func(r *rig, store *stub){
		"a stream is to be loaded": func(r *rig, store *stub) {
			store.away.Store(true)
			r.offer(ev("a1", "a=1"))
		},
		"an event is to be committed": func(r *rig, store *stub) {
			store.commit = func(context.Context, Record) error { return errAway }
			r.offer(ev("a1", "a=1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &stub{Memory: NewMemory()}
			storyOn(t, store, Config[*Event]{StoreTimeout: time.Minute}, func(t *testing.T, r *rig) {
				offer(r, store)
				r.sleep(50 * time.Second)
				require.NoError(t, r.seq.Err())
				r.sleep(20 * time.Second)
				require.ErrorIs(t, r.seq.Err(), ErrStopped)
				require.ErrorIs(t, r.seq.Err(), errAway)
				require.ErrorIs(t, r.seq.Offer(t.Context(), ev("b1", "b=1"), nil), errAway)
				r.stop()
				assert.Equal(t, []Result{Unfinished}, r.outcome("a1"))
			})
		})
	}
}

func TestAnOperatorWhoHasLeftDoesNothing(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	storyOn(t, store, Config[*Event]{}, func(t *testing.T, r *rig) {
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

// A panic of Owns is the error of New, and leaves no goroutine.
func TestOwnsPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		r.start(Config[*Event]{})
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 2)...)
		require.NoError(t, r.seq.Close())
		parked, err := r.store.Reader("").Parked(t.Context())
		require.NoError(t, err)
		fence := known(t, r.store, "a=1").Fence
		require.NoError(t, begin(t, r.store).Unpark(t.Context(), []string{parked[0].ID}, Fences{key("a"): fence})) // so that there is a backlog
		_, err = New(t.Context(), Config[*Event]{Store: r.store, Handler: r.handle, Owns: func(lockkeys.Key) bool { panic("no idea") }})
		var caught *dispatcher.PanicError
		require.ErrorAs(t, err, &caught)
		assert.Equal(t, "no idea", caught.Value)
	})
}

// TestParkingsLeaveMemory: and come back, with all their streams, when one of
// those is asked for.
func TestParkingsLeaveMemory(t *testing.T) {
	story(t, Config[*Event]{IdleTTL: time.Minute, GapTimeout: time.Second}, func(t *testing.T, r *rig) {
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
		other.start(Config[*Event]{GapTimeout: time.Second})
		other.offer(ev("a2", "a=2"), ev("b2", "b=2"))
		other.sleep(time.Second)
		require.Len(t, other.parked(), 2)

		r.start(Config[*Event]{GapTimeout: time.Hour, Consumer: Consumer{Partition: "b"}, Owns: func(stream lockkeys.Key) bool { return stream == key("b") }})
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
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
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
		held, err := r.store.Reader("").Held(t.Context(), key("a"), 1, 10, 1<<20)
		require.NoError(t, err)
		assert.Empty(t, held)
	})
}

func TestWhatIsHeldBehindTheEndIsParked(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
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
		r.start(Config[*Event]{GapTimeout: time.Second})
		r.offer(ev("x", "a=2, b=2"))
		r.sleep(time.Second)
		require.Len(t, r.parked(), 1)
		assert.Len(t, r.parked()[0].Streams, 2)
		r.stop()
		r.start(Config[*Event]{GapTimeout: time.Second})
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
	story(t, Config[*Event]{GapTimeout: time.Hour}, func(t *testing.T, r *rig) {
		const n = 10 * 64
		for i := range n { // each is second behind the one before, the first behind the last
			r.offer(ev(fmt.Sprintf("e%d", i), fmt.Sprintf("s%d=1, s%d=2", i, (i+1)%n)))
		}
		r.sleep(200 * time.Millisecond)
		parked := r.parked()
		require.Len(t, parked, 1)
		assert.Equal(t, Contradiction, parked[0].Reason)
		assert.Len(t, parked[0].Events, n)
		assert.Less(t, len(parked[0].Error), 2000)
	})
}

func TestNumbersAtTheEndOfTheWorld(t *testing.T) {
	cfg := Config[*Event]{GapTimeout: time.Second, GapPolicy: dispatcher.DeadLetter, MaxSkip: math.MaxInt}
	story(t, cfg, func(t *testing.T, r *rig) {
		at := func(id string, n uint64) *Event {
			return &Event{ID: id, Positions: []Position{{Stream: lockkeys.MustParse("a"), Number: n}}}
		}
		r.offer(at("last", MaxNumber), at("first", 1), at("half", MaxNumber/2))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"first", "half", "last"}, r.ran())
		r.offer(at("last", MaxNumber), at("another", MaxNumber))
		assert.Equal(t, []Result{Applied, Duplicate}, r.outcome("last"))
		assert.Equal(t, []Result{Refused}, r.outcome("another"))
		states, err := begin(t, r.store).Acquire(t.Context(), []lockkeys.Key{key("a")})
		require.NoError(t, err)
		assert.EqualValues(t, MaxNumber, states[0].Last)
	})
}
