package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestOnDoneOrder: for conflicting messages the callbacks come in order, one
// at a time, before the keys are released.
func TestOnDoneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, MaxAttempts: 2})
		var order, want []string
		running := false
		for i := range 50 {
			name := fmt.Sprint("m", i)
			want = append(want, name+" runs", name+" done")
			tries := 0
			j := newJob(name, func(context.Context) error {
				if tries++; tries == 1 && i%7 == 0 {
					return errBoom
				}
				order = append(order, name+" runs")
				return nil
			}, "k")
			require.NoError(t, d.Submit(t.Context(), j, dispatcher.OnDone(func(j *job, err error) {
				require.NoError(t, err)
				require.False(t, running)
				running = true
				time.Sleep(time.Millisecond)
				running = false
				order = append(order, j.name+" done")
			})))
		}
		drain(t, d)
		require.Equal(t, want, order)
	})
}

// TestOnDoneMisbehaves: a callback that panics or ends its goroutine costs no
// worker, no key and no other callback, wherever it is called.
// A callback that is nil is a mistake of the caller's, and said to be one.
func TestOnDoneIsNil(t *testing.T) {
	require.PanicsWithValue(t, "dispatcher: OnDone: the callback is nil: give one, or leave the option out", func() { dispatcher.OnDone[int](nil) })
}

func TestOnDoneMisbehaves(t *testing.T) {
	for name, misbehave := range map[string]func(){
		"panic": func() { panic("callback") },
		"exit":  runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 1, Failure: dispatcher.Park})
				var calls atomic.Int32
				done := dispatcher.OnDone(func(*job, error) {
					calls.Add(1)
					misbehave()
				})
				for range 10 {
					ticket, err := d.Go(t.Context(), newJob("", nil, "k"), done)
					require.NoError(t, err)
					require.NoError(t, ticket.Wait(t.Context()), "the ticket does not depend on the callback")
				}
				for _, key := range []string{"s", "d"} {
					require.NoError(t, d.Submit(t.Context(), newJob("", takes(0, errBoom), key), done))
					require.NoError(t, d.Submit(t.Context(), newJob("", nil, key), done))
				}
				drain(t, d)
				require.EqualValues(t, 10, calls.Load())
				parked := d.Parked()
				require.Len(t, parked, 2)
				require.NoError(t, d.Skip(t.Context(), parked[0].ID))
				require.NoError(t, d.Drop(t.Context(), parked[1].ID))
				drain(t, d)
				require.EqualValues(t, 14, calls.Load())
				require.NoError(t, d.Do(t.Context(), newJob("", nil, "/")), "all keys are free")

				submit(t, d, newJob("", takes(time.Second, nil), "k"))
				synctest.Wait()
				for range 5 {
					require.NoError(t, d.Submit(t.Context(), newJob("", nil, "k"), done))
				}
				r, err := d.Shutdown(t.Context())
				require.NoError(t, err)
				require.Len(t, r.Unfinished, 5)
				require.EqualValues(t, 19, calls.Load())
			})
		})
	}
}

// TestOnDoneMisbehavesInABatch: the others of the batch have their results.
func TestOnDoneMisbehavesInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var batches [][]int
		d, err := dispatcher.New(dispatcher.Config[int]{
			Keys: oneKey, Workers: 1, MaxBatch: 5,
			BatchHandler: func(_ context.Context, batch []int) []error {
				batches = append(batches, append([]int(nil), batch...))
				time.Sleep(time.Second)
				return nil
			},
		})
		require.NoError(t, err)
		var results []int
		for i := range 11 {
			require.NoError(t, d.Submit(t.Context(), i, dispatcher.OnDone(func(i int, err error) {
				require.NoError(t, err)
				results = append(results, i)
				if i%2 == 0 {
					runtime.Goexit()
				}
			})))
		}
		require.NoError(t, d.Drain(t.Context()))
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, results)
		require.Len(t, batches, 3)
		require.NoError(t, d.Close())
	})
}

// TestSubmitterExits: a key function that ends the submitter's goroutine, or a
// size that panics, leaves no slot taken, and what came before it in a batch
// is not lost.
func TestSubmitterExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var results int
		d := start(t, config{
			Workers: 1, MaxPending: 4, MaxPendingBytes: 4,
			Keys: func(j *job, claim *lockkeys.Claim) error {
				if j.name == "exit" {
					runtime.Goexit()
				}
				return nil
			},
			Size: func(j *job) int64 {
				if j.name == "size" {
					panic("size")
				}
				return 1
			},
		})
		done := dispatcher.OnDone(func(*job, error) { results++ })
		for range 10 {
			for _, name := range []string{"exit", "size"} {
				gone := make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { _ = recover() }()
					_, _ = d.SubmitBatch(t.Context(), []*job{newJob("a", nil), newJob("b", nil), newJob(name, nil)}, done)
				}()
				<-gone
				gone = make(chan struct{})
				go func() {
					defer close(gone)
					defer func() { _ = recover() }()
					_ = d.Submit(t.Context(), newJob(name, nil), done)
				}()
				<-gone
			}
		}
		drain(t, d)
		require.EqualValues(t, d.Stats().Accepted, results)
		n, err := d.SubmitBatch(t.Context(), []*job{newJob("", nil), newJob("", nil), newJob("", nil), newJob("", nil)})
		require.NoError(t, err)
		require.Equal(t, 4, n)
	})
}

func oneKey(_ int, claim *lockkeys.Claim) error {
	claim.Exclusive(lockkeys.Must("k"))
	return nil
}

// TestResultsOfAllKinds: every message has exactly one result, whatever
// becomes of it.
func TestResultsOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxAttempts: 2, FailureFor: func(j *job, _ error) dispatcher.FailurePolicy {
			if j.name == "parks" {
				return dispatcher.Park
			}
			return dispatcher.DeadLetter
		}})
		var mu sync.Mutex
		results := make(map[string][]error)
		run := func(name string, run func(context.Context) error, keys ...string) {
			require.NoError(t, d.Submit(t.Context(), newJob(name, run, keys...), dispatcher.OnDone(func(j *job, err error) {
				mu.Lock()
				defer mu.Unlock()
				results[j.name] = append(results[j.name], err)
			})))
		}
		run("fine", nil, "a")
		run("fails", takes(0, errBoom), "a")
		run("parks", takes(0, errBoom), "a")
		run("dropped", nil, "a/b")
		run("retried", takes(0, errBoom), "a")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, results, 2)
		require.NoError(t, d.Drop(t.Context(), d.Parked()[0].ID))
		run("left", takes(time.Hour, nil), "b")
		run("queued", nil, "b")
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Shutdown(ctx)
		require.ErrorIs(t, err, dispatcher.ErrUnfinished)
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want := map[string]error{
			"fine": nil, "fails": errBoom, "parks": dispatcher.ErrSkipped, "dropped": dispatcher.ErrSkipped,
			"retried": dispatcher.ErrSkipped, "left": nil, "queued": dispatcher.ErrClosed,
		}
		require.Len(t, results, len(want))
		for name, err := range want {
			require.Len(t, results[name], 1, name)
			require.True(t, errors.Is(results[name][0], err), "%s: %v", name, results[name])
		}
		require.ErrorIs(t, results["parks"][0], errBoom)
		require.ErrorIs(t, results["dropped"][0], errBoom, "the error that parked what it waited for")
	})
}
