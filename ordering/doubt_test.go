package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// unsure is a store and its term, whose connection is lost now and then.
type unsure struct {
	*Memory
	Term
	lose  atomic.Int64 // so many commits are made, and their answers lost
	away  atomic.Int64 // until then, in nanoseconds since 1970, nothing can be had
	after atomic.Int64 // for so long the store is away when an answer was lost
}

var errConnection = errors.New("connection refused")

// Begin makes the store its own term.
func (s *unsure) Begin(ctx context.Context, c Consumer) (_ Term, err error) {
	s.Term, err = s.Memory.Begin(ctx, c)
	return s, err
}

func (s *unsure) isAway() bool { return time.Now().UnixNano() < s.away.Load() }

// read is what a handler does before it writes, with the database itself.
func (s *unsure) read() error {
	if s.isAway() {
		return errConnection
	}
	return nil
}

func (s *unsure) Commit(ctx context.Context, r Record) error {
	if s.isAway() {
		return &StoreError{"commit", errConnection}
	}
	err := s.Memory.Commit(ctx, r)
	if err == nil && s.lose.Add(-1) >= 0 {
		s.away.Store(time.Now().Add(time.Duration(s.after.Load())).UnixNano())
		return &StoreError{"commit", errors.New("connection lost")}
	}
	return err
}

func (s *unsure) Look(ctx context.Context, positions []Position) ([]NumberState, error) {
	if s.isAway() {
		return nil, &StoreError{"look", errConnection}
	}
	return s.Term.Look(ctx, positions)
}

func (s *unsure) Park(ctx context.Context, parkings []Parking, fences Fences) error {
	if s.isAway() {
		return &StoreError{"park", errConnection}
	}
	return s.Term.Park(ctx, parkings, fences)
}

// TestNothingIsToldInDoubt: a commit is durable and seems to have failed, and
// then the store is away for a while, or not. Whatever the handler makes of that,
// the event counts as applied, and as nothing else.
func TestNothingIsToldInDoubt(t *testing.T) {
	handlers := map[string]func(s *unsure) Handler[*Event]{
		"leaves the commit to the sequencer": func(s *unsure) Handler[*Event] {
			return func(context.Context, Job[*Event]) error { return s.read() }
		},
		"commits itself": func(s *unsure) Handler[*Event] {
			return func(ctx context.Context, job Job[*Event]) error {
				if err := s.read(); err != nil {
					return err
				}
				err := s.Commit(ctx, job.Record())
				if err == nil {
					job.Committed()
				}
				return err
			}
		},
		"hides what it got": func(s *unsure) Handler[*Event] {
			return func(ctx context.Context, job Job[*Event]) error {
				if err := s.read(); err != nil {
					return errors.New("no balance")
				}
				if err := s.Commit(ctx, job.Record()); err != nil {
					return dispatcher.Permanent(errors.New("something went wrong"))
				}
				job.Committed()
				return nil
			}
		},
		"panics": func(s *unsure) Handler[*Event] {
			return func(ctx context.Context, job Job[*Event]) error {
				if err := s.Commit(ctx, job.Record()); err != nil {
					panic(err)
				}
				job.Committed()
				return nil
			}
		},
		"finds that there is nothing left to do": func(s *unsure) Handler[*Event] {
			return func(ctx context.Context, job Job[*Event]) error {
				if states, _ := s.Term.Look(ctx, job.Event.Positions); states[0].Done {
					return dispatcher.Permanent(errors.New("the money is gone"))
				}
				return nil
			}
		},
	}
	for name, handler := range handlers {
		for _, away := range []time.Duration{0, time.Millisecond, 3 * time.Second} {
			for _, policy := range []dispatcher.FailurePolicy{dispatcher.DeadLetter, dispatcher.Park, dispatcher.Stop} {
				for _, attempts := range []int{1, 3} {
					t.Run(fmt.Sprintf("%s/away for %v/%v/%d attempts", name, away, policy, attempts), func(t *testing.T) {
						store := &unsure{Memory: NewMemory()}
						store.lose.Store(1)
						store.after.Store(int64(away))
						var dead []string
						cfg := Config[*Event]{Handler: handler(store), FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return policy },
							DeadLetter: func(_ context.Context, e *Event, _ error) error { dead = append(dead, e.ID); return nil },
							Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: attempts}}
						storyOn(t, store, cfg, func(t *testing.T, r *rig) {
							r.offer(series("a", 1, 3)...)
							r.sleep(time.Minute)
							for _, id := range []string{"a1", "a2", "a3"} {
								assert.Equal(t, []Result{Applied}, r.outcome(id), id)
							}
							assert.Empty(t, dead)
							assert.Empty(t, r.parked())
							assert.NoError(t, r.seq.Err())
							for n := range 3 {
								assert.Equal(t, StatusApplied, job(t, store, fmt.Sprintf("a=%d", n+1)).Status)
							}
						})
					})
				}
			}
		}
	}
}

// TestAnOutageIsNoFailure: what fails while the store is away, with whatever
// error, is tried again when it is back, and needs nobody.
func TestAnOutageIsNoFailure(t *testing.T) {
	for _, policy := range []dispatcher.FailurePolicy{dispatcher.DeadLetter, dispatcher.Park, dispatcher.Stop} {
		store := &unsure{Memory: NewMemory()}
		cfg := Config[*Event]{FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return policy }, Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: 2},
			Handler: func(_ context.Context, job Job[*Event]) error {
				time.Sleep(20 * time.Millisecond)
				return store.read()
			}}
		storyOn(t, store, cfg, func(t *testing.T, r *rig) {
			for s := range 20 {
				r.offer(series(fmt.Sprintf("s%d_", s), 1, 5)...)
			}
			store.away.Store(time.Now().Add(4 * time.Second).UnixNano())
			r.sleep(time.Minute)
			assert.EqualValues(t, 100, r.seq.Stats().Applied, policy)
			assert.Empty(t, r.parked())
			assert.NoError(t, r.seq.Err())
		})
	}
}

// TestWhatFailsIsNoOutage: the handler's own error, while the store is there, has
// its policy, and a permanent one also when the store was away.
func TestWhatFailsIsNoOutage(t *testing.T) {
	store := &unsure{Memory: NewMemory()}
	cfg := Config[*Event]{Failure: dispatcher.DeadLetter, Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: 3}, Handler: func(_ context.Context, job Job[*Event]) error {
		if job.Event.ID == "b1" {
			store.away.Store(time.Now().Add(2 * time.Second).UnixNano())
			return dispatcher.Permanent(errors.New("no such account"))
		}
		return errors.New("no such account")
	}}
	storyOn(t, store, cfg, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{DeadLettered}, r.outcome("a1"))
		assert.Equal(t, 3, job(t, store, "a=1").Attempts)
		r.offer(ev("b1", "b=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{DeadLettered}, r.outcome("b1"))
		assert.Equal(t, 1, job(t, store, "b=1").Attempts)
		assert.Equal(t, StatusDeadLettered, job(t, store, "b=1").Status)
	})
}

// TestOperatorsInDoubt: what an operator gives up was applied by a commit that
// seemed to have failed, when the process that made it was killed.
func TestOperatorsInDoubt(t *testing.T) {
	for name, operate := range map[string]func(*Sequencer[*Event], context.Context) error{
		"Skip":   func(s *Sequencer[*Event], ctx context.Context) error { return s.Skip(ctx, key("a")) },
		"Drop":   func(s *Sequencer[*Event], ctx context.Context) error { return s.Drop(ctx, key("a")) },
		"Resume": func(s *Sequencer[*Event], ctx context.Context) error { return s.Resume(ctx, key("a")) },
	} {
		t.Run(name, func(t *testing.T) {
			story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
				r.failing("a1", errors.New("bad"))
				r.offer(ev("a1", "a=1"))
				// The commit that comes late is that of the same holder: its token is good.
				record := NewJob(r.seq.term, ev("a1", "a=1"), []int64{known(t, r.store, "a=1").Fence}).Record()
				require.NoError(t, r.seq.term.Commit(t.Context(), record))
				require.NoError(t, operate(r.seq, t.Context()))
				r.sleep(time.Minute)
				assert.Equal(t, StatusApplied, job(t, r.store, "a=1").Status)
				assert.NotContains(t, r.kinds(), EventDeadLettered)
				assert.Empty(t, r.ran(), "not again")
				held, err := r.store.Reader("").Held(t.Context(), key("a"), 1, 9, 1<<20)
				require.NoError(t, err)
				assert.Empty(t, held)
				r.offer(ev("a1", "a=1"), ev("a2", "a=2"))
				assert.Equal(t, []Result{Held, Duplicate}, r.outcome("a1"))
				assert.Equal(t, []string{"a2"}, r.ran())
			})
		})
	}
}

// TestAStoreThatHasLostCommits stops the sequencer, rather than that a duplicate
// is told of what is not done.
func TestAStoreThatHasLostCommits(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(ev("a1", "a=1"))
		memory := r.store.(*Memory)
		memory.mu.Lock()
		memory.consumerLocked("default").streams[key("a")].last = 0 // restored from an older copy
		memory.mu.Unlock()
		r.offer(ev("a1", "a=1"))
		assert.Equal(t, []Result{Applied, Unfinished}, r.outcome("a1"))
		var lost *LostError
		require.ErrorAs(t, r.seq.Err(), &lost)
		assert.Equal(t, LostError{Stream: key("a"), Known: 1}, *lost)
	})
}
