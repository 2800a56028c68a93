package ordering

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestACallbackThatEndsItsGoroutine: whatever a function of the caller's does,
// only its own event feels it.
func TestACallbackThatEndsItsGoroutine(t *testing.T) {
	errBad := errors.New("bad")
	for name, end := range map[string]func(){
		"panic":  func() { panic("at the worst moment") },
		"goexit": runtime.Goexit,
	} {
		bad := func(e *Event) bool { return e.ID == "a2" }
		for where, test := range map[string]struct {
			cfg  Config[*Event]
			want []string // of a1 to a4, those that run
		}{
			"Handler": {Config[*Event]{Failure: dispatcher.DeadLetter, Handler: nil}, []string{"a1", "a3", "a4"}},
			"Keys": {Config[*Event]{Failure: dispatcher.DeadLetter, Keys: func(job Job[*Event], claim *lockkeys.Claim) error {
				e := job.Event
				if bad(e) {
					end()
				}
				return streamKeys(e, claim)
			}}, []string{"a1", "a3", "a4"}},
			"FailureFor": {Config[*Event]{Failure: dispatcher.DeadLetter, FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy {
				end()
				return dispatcher.Stop
			}}, []string{"a1", "a3", "a4"}},
			"DeadLetter": {Config[*Event]{Failure: dispatcher.DeadLetter, DeadLetter: func(context.Context, *Event, error) error {
				end()
				return nil
			}}, []string{"a1", "a3", "a4"}},
			"Done": {Config[*Event]{Failure: dispatcher.DeadLetter}, []string{"a1", "a3", "a4"}},
			"Observer": {Config[*Event]{Failure: dispatcher.DeadLetter, GapTimeout: time.Second, Observer: func(Notice) {
				end()
			}}, []string{"a1", "a3", "a4"}},
			"Replayer": {Config[*Event]{Failure: dispatcher.DeadLetter, GapTimeout: time.Second, GapPolicy: dispatcher.DeadLetter, Replayer: ReplayerFunc(func(context.Context, Range, func(context.Context, []*Event) error) (Answer, error) {
				end()
				return Answer{}, nil
			})}, []string{"a1", "a3", "a4"}},
		} {
			t.Run(where+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, NewMemory())
					cfg := test.cfg
					cfg.Store, cfg.Dispatcher.MaxAttempts = r.store, 1
					cfg.Handler = func(ctx context.Context, job Job[*Event]) error {
						if bad(job.Event) && where == "Handler" {
							end()
						}
						if bad(job.Event) {
							return errBad
						}
						return r.handle(ctx, job)
					}
					seq, err := New(t.Context(), cfg)
					require.NoError(t, err)
					r.seq = seq
					done := func(e *Event, o Outcome) {
						r.done(e, o)
						if where == "Done" {
							end()
						}
					}
					offer := func(e *Event) {
						offered := make(chan error, 1)
						go func() { // Keys may end it
							defer close(offered)
							offered <- seq.Offer(t.Context(), e, done)
						}()
						require.NoError(t, <-offered)
						synctest.Wait()
					}
					offer(ev("a1", "a=1"))
					offer(ev("a3", "a=3"))
					offer(ev("a1", "a=1"))
					r.sleep(100 * time.Millisecond)
					if where != "Replayer" {
						offer(ev("a2", "a=2"))
					}
					r.sleep(2 * time.Second)
					offer(ev("a4", "a=4"))
					if where == "Keys" && name == "goexit" { // it was never accepted
						test.want = []string{"a1"}
						require.Len(t, r.parked(), 1)
						require.NoError(t, seq.Skip(t.Context(), key("a")))
						test.want = []string{"a1", "a3", "a4"}
					}
					require.NoError(t, seq.Drain(t.Context()))
					assert.Equal(t, test.want, r.ran())
					assert.Len(t, r.outcome("a1"), 2)
					assert.Zero(t, seq.Stats().Open)
					require.NoError(t, seq.Close())
				})
			})
		}
	}
}

// TestAHandlerMayOffer: it must not wait for itself, by whatever way.
func TestAHandlerMayOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, NewMemory())
		nested := map[string]error{}
		cfg := Config[*Event]{Store: r.store, Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 1, MaxPending: 1}}
		cfg.Handler = func(ctx context.Context, job Job[*Event]) error {
			if job.Event.ID == "a1" {
				time.Sleep(time.Second)
				nested["offer"] = r.seq.Offer(ctx, ev("c1", "c=1"), nil)
				nested["drain"] = r.seq.Drain(ctx)
				nested["shutdown"] = r.seq.Shutdown(ctx)
				nested["resume"] = r.seq.Resume(ctx, key("a"))
			}
			return r.handle(ctx, job)
		}
		seq, err := New(t.Context(), cfg)
		require.NoError(t, err)
		r.seq = seq
		r.offer(ev("a1", "a=1"))
		r.offer(ev("b1", "b=1")) // it waits for a1, and the handler of a1 must not wait for it
		require.NoError(t, seq.Drain(t.Context()))
		for _, what := range []string{"offer", "drain", "shutdown", "resume"} {
			require.ErrorIs(t, nested[what], dispatcher.ErrNested, what)
		}
		assert.Equal(t, []string{"a1", "b1"}, r.ran())
		require.NoError(t, seq.Close())
	})
}

func TestAHandlerOffersWhileThereIsRoom(t *testing.T) {
	var r *rig
	cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error {
		if job.Event.ID == "a1" {
			if err := r.seq.Offer(ctx, ev("c1", "c=1"), r.done); err != nil {
				return err
			}
		}
		return r.handle(ctx, job)
	}}
	story(t, cfg, func(t *testing.T, this *rig) {
		r = this
		r.offer(ev("a1", "a=1"))
		assert.ElementsMatch(t, []string{"a1", "c1"}, r.ran())
	})
}

// TestDecodeOfAHeldEventEndsItsGoroutine: that event fails, and what is held of other
// streams is read on.
func TestDecodeOfAHeldEventEndsItsGoroutine(t *testing.T) {
	for name, end := range map[string]func(){
		"panic":  func() { panic("at the worst moment") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			cfg := Config[*Event]{Decode: func(e *Event) (*Event, error) {
				if e.ID == "a2" {
					if asked++; asked > 1 {
						end()
					}
				}
				return e, nil
			}}
			story(t, cfg, func(t *testing.T, r *rig) {
				for _, stream := range []string{"a", "b"} {
					r.failing(stream+"1", errors.New("no money"))
					r.offer(series(stream, 1, 3)...)
					r.failing(stream+"1", nil)
				}
				for _, stream := range []string{"a", "b"} {
					require.NoError(t, r.seq.Resume(t.Context(), key(stream)))
					synctest.Wait()
				}
				assert.Equal(t, []string{"a1", "b1", "b2", "b3"}, r.ran())
				require.Len(t, r.parked(), 1)
				assert.Contains(t, r.parked()[0].Error, `Decode of event "a2"`)
			})
		})
	}
}
