package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// batches records the calls of a batch handler. Its results are those of
// answer, or nil without one.
type batches struct {
	t       *testing.T
	d       *disp
	calls   [][]string
	results map[string]error
	order   []string // of the results
}

// newBatches starts a dispatcher whose first call, of a message "first" with
// the keys, lasts a second, so that what is submitted meanwhile can gather.
func newBatches(t *testing.T, cfg config, answer func(ctx context.Context, call int, names []string) []error, keys ...string) *batches {
	b := &batches{t: t, results: make(map[string]error)}
	cfg.Workers = 1
	cfg.BatchHandler = func(ctx context.Context, jobs []*job) []error {
		var names []string
		for _, j := range jobs {
			names = append(names, j.name)
		}
		b.calls = append(b.calls, names)
		if len(b.calls) == 1 {
			time.Sleep(time.Second)
			return nil
		}
		if answer == nil {
			return nil
		}
		return answer(ctx, len(b.calls)-1, names)
	}
	b.d = start(t, cfg)
	b.submit("first", keys...)
	synctest.Wait()
	return b
}

func (b *batches) submit(name string, keys ...string) {
	require.NoError(b.t, b.d.Submit(b.t.Context(), newJob(name, nil, keys...), dispatcher.OnDone(func(j *job, err error) {
		require.NotContains(b.t, b.results, j.name)
		b.results[j.name] = err
		b.order = append(b.order, j.name)
	})))
}

// gather submits a to e, all of one key, and waits until all is done.
func (b *batches) gather() {
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		b.submit(name, "k")
	}
	drain(b.t, b.d)
	b.calls = b.calls[1:]
}

func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{MaxBatch: 3}, nil, "k")
		b.gather()
		require.Equal(t, [][]string{{"a", "b", "c"}, {"d", "e"}}, b.calls)
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e"}, b.order)
	})
	// Head-only as well: it looks just as far.
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{Policy: dispatcher.HeadOnly()}, nil, "k")
		b.gather()
		require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}}, b.calls)
	})
}

// TestBatchIsAChain: each of a batch conflicts with the one before it, and waits
// for nothing that is not in the batch.
func TestBatchIsAChain(t *testing.T) {
	for name, c := range map[string]struct {
		messages [][]string
		calls    [][]string
	}{
		"the same key":        {[][]string{{"k"}, {"k"}, {"k"}}, [][]string{{"0", "1", "2"}}},
		"transfers":           {[][]string{{"a", "b"}, {"b", "c"}, {"c", "a"}}, [][]string{{"0", "1", "2"}}},
		"parent between":      {[][]string{{"k"}, {"/"}, {"k"}}, [][]string{{"0", "1", "2"}}},
		"child between":       {[][]string{{"k"}, {"k/x"}, {"k"}}, [][]string{{"0", "1", "2"}}},
		"reader between":      {[][]string{{"k"}, {"~k"}, {"k"}}, [][]string{{"0", "1", "2"}}},
		"other modes":         {[][]string{{"k", "~l"}, {"k", "l"}, {"k", "~l"}}, [][]string{{"0", "1", "2"}}},
		"unrelated between":   {[][]string{{"k"}, {"m"}, {"k"}}, [][]string{{"0", "2"}, {"1"}}},
		"conflicts with none": {[][]string{{"k"}, {"l"}, {"m"}}, [][]string{{"0"}, {"1"}, {"2"}}},
		"readers":             {[][]string{{"~k"}, {"~k"}, {"~k"}}, [][]string{{"0"}, {"1"}, {"2"}}},
		"readers of one key":  {[][]string{{"k"}, {"~k"}, {"~k"}}, [][]string{{"0", "1"}, {"2"}}},
		"no keys":             {[][]string{{}, {}, {}}, [][]string{{"0"}, {"1"}, {"2"}}},
		"waits for another":   {[][]string{{"k"}, {"l"}, {"k", "l"}}, [][]string{{"0"}, {"1", "2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatches(t, config{}, nil, "/")
				for i, keys := range c.messages {
					b.submit(fmt.Sprint(i), keys...)
				}
				drain(t, b.d)
				require.ElementsMatch(t, c.calls, b.calls[1:])
			})
		})
	}
}

// TestBatchIsTheHandlers: a goroutine that a handler leaves behind has the messages that the
// handler was called with, whatever comes next.
func TestBatchIsTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan []string, 2)
		d := start(t, config{Workers: 1, BatchHandler: func(_ context.Context, jobs []*job) []error {
			go func() {
				time.Sleep(time.Minute)
				var names []string
				for _, j := range jobs {
					names = append(names, j.name)
				}
				late <- names
			}()
			time.Sleep(time.Second)
			return nil
		}})
		submit(t, d, newJob("first", nil, "k"))
		synctest.Wait()
		submit(t, d, newJob("a", nil, "k"), newJob("b", nil, "k"))
		drain(t, d)
		require.Equal(t, []string{"first"}, <-late)
		require.Equal(t, []string{"a", "b"}, <-late)
	})
}

// TestBatchFailsInTheMiddle: what came before has ended, what comes after is
// untouched and no attempt of it counts.
func TestBatchFailsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []int
		b := newBatches(t, config{MaxAttempts: 2}, func(ctx context.Context, call int, names []string) []error {
			info, _ := dispatcher.InfoFrom(ctx)
			attempts = append(attempts, info.Attempt)
			if call == 1 {
				return []error{nil, nil, errBoom, errBoom, nil}
			}
			return nil
		}, "k")
		b.gather()
		require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}, {"c", "d", "e"}}, b.calls)
		require.Equal(t, []int{1, 2}, attempts)
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e"}, b.order)
		s := b.d.Stats()
		require.EqualValues(t, 6, s.Succeeded)
		require.EqualValues(t, 1, s.Retried)
	})
}

// TestBatchRollsBack: with FailAll only the first has failed. With its
// attempts used up it is dead-lettered, and the others run without it.
func TestBatchRollsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{}, func(_ context.Context, _ int, names []string) []error {
			if slices.Contains(names, "b") {
				return dispatcher.FailAll(errBoom, len(names))
			}
			return nil
		}, "k")
		b.gather()
		// a fails for b's sake: a handler that cannot tell whose fault it is
		// pays with what came before it.
		require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}, {"b", "c", "d", "e"}, {"c", "d", "e"}}, b.calls)
		for name, err := range b.results {
			require.Equal(t, name == "a" || name == "b", err != nil, name)
		}
	})
}

// TestBatchResultsBehindAFailure: with attempts used up as well, what follows
// the failed message was not done.
func TestBatchResultsBehindAFailure(t *testing.T) {
	for name, ends := range map[string]error{"fails": errBoom, "widens for what it has": dispatcher.Widen(requests("k/x")...)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatches(t, config{}, func(_ context.Context, call int, names []string) []error {
					if call == 1 {
						return []error{nil, ends, nil, nil, nil}
					}
					return nil
				}, "k")
				b.gather()
				require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}, {"c", "d", "e"}}, b.calls)
				require.Error(t, b.results["b"])
				require.NoError(t, b.results["c"])
			})
		})
	}
}

// TestBatchPermanent: behind an error no result counts, be it permanent or
// not: what is behind it runs again.
func TestBatchPermanent(t *testing.T) {
	for _, failure := range []dispatcher.FailurePolicy{dispatcher.DeadLetter, dispatcher.Park} {
		t.Run(failure.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBatches(t, config{Failure: failure}, func(_ context.Context, call int, names []string) []error {
					if call == 1 {
						return []error{nil, dispatcher.Permanent(errBoom), nil, dispatcher.Permanent(errBoom), nil}
					}
					return nil
				}, "k")
				b.gather()
				require.NoError(t, b.results["a"])
				if failure == dispatcher.Park {
					parked := b.d.Parked()
					require.Len(t, parked, 1)
					require.Equal(t, "b", parked[0].Message.name)
					require.Equal(t, 3, parked[0].Behind)
					require.NoError(t, b.d.Resume(t.Context(), parked[0].ID))
					drain(t, b.d)
					require.Equal(t, []string{"b", "c", "d", "e"}, b.calls[1])
					return
				}
				require.ErrorIs(t, b.results["b"], errBoom)
				require.Equal(t, []string{"c", "d", "e"}, b.calls[1])
				for _, name := range []string{"c", "d", "e"} {
					require.Contains(t, b.results, name)
					require.NoError(t, b.results[name])
				}
			})
		})
	}
}

// TestBatchParkedInTheMiddle: what is untouched queues behind the parked one.
func TestBatchParkedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{Failure: dispatcher.Park, MaxPending: 8}, func(_ context.Context, call int, names []string) []error {
			if names[0] == "b" {
				return dispatcher.FailAll(errBoom, len(names))
			}
			if call == 1 {
				return append([]error{nil}, dispatcher.FailAll(errBoom, len(names)-1)...)
			}
			return nil
		}, "k")
		b.gather()
		s := b.d.Stats()
		require.Equal(t, 1, s.Parked)
		require.Equal(t, 3, s.Behind)
		require.Zero(t, s.Waiting)
		for range 3 { // b fails again and again; nothing passes it
			require.NoError(t, b.d.Resume(t.Context(), b.d.Parked()[0].ID))
			drain(t, b.d)
			require.Equal(t, 3, b.d.Stats().Behind)
		}
		require.NoError(t, b.d.Skip(t.Context(), b.d.Parked()[0].ID))
		drain(t, b.d)
		require.Equal(t, []string{"c", "d", "e"}, b.calls[len(b.calls)-1])
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e"}, b.order)
		for range 8 {
			require.NoError(t, b.d.TrySubmit(t.Context(), newJob("", nil)), "every slot has come back")
		}
	})
}

// TestBatchWidens: one of the batch asks for more. It keeps its place before
// the rest.
func TestBatchWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{}, func(_ context.Context, call int, names []string) []error {
			if call == 1 {
				return []error{nil, dispatcher.Widen(requests("l")...), nil, nil, nil}
			}
			return nil
		}, "k")
		b.gather()
		require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}, {"b", "c", "d", "e"}}, b.calls)
		require.Equal(t, []string{"first", "a", "b", "c", "d", "e"}, b.order)
	})
}

// TestBatchOfAWrongHandler: a wrong number of results and a panic.
func TestBatchOfAWrongHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{MaxAttempts: 3}, func(context.Context, int, []string) []error { return make([]error, 3) }, "k")
		b.gather()
		require.Len(t, b.calls, 1, "it cannot be mended by another attempt")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			require.ErrorContains(t, b.results[name], "3 for 5 messages")
		}
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{MaxAttempts: 2}, func(_ context.Context, call int, _ []string) []error {
			if call <= 2 {
				panic(errBoom)
			}
			return nil
		}, "k")
		b.gather()
		require.Equal(t, [][]string{{"a", "b", "c", "d", "e"}, {"a", "b", "c", "d", "e"}, {"b", "c", "d", "e"}}, b.calls)
		var panicked *dispatcher.PanicError
		require.True(t, errors.As(b.results["a"], &panicked))
		require.NoError(t, b.results["b"])
	})
	synctest.Test(t, func(t *testing.T) { // an empty slice is as good as nil
		b := newBatches(t, config{}, func(context.Context, int, []string) []error { return []error{} }, "k")
		b.gather()
		require.NoError(t, b.results["e"])
		require.Len(t, b.results, 6)
	})
}

// TestBatchDuringShutdown: what the handler has done counts; the rest is given
// back in order.
func TestBatchDuringShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBatches(t, config{MaxAttempts: 2, Failure: dispatcher.Park}, func(ctx context.Context, call int, names []string) []error {
			<-ctx.Done()
			return append([]error{nil, nil}, dispatcher.FailAll(ctx.Err(), len(names)-2)...)
		}, "k")
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			b.submit(name, "k")
		}
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := b.d.Shutdown(ctx)
		require.NoError(t, err)
		require.Equal(t, []string{"c", "d", "e"}, names(r.Unfinished))
		for _, l := range r.Unfinished {
			require.Zero(t, l.Attempts)
		}
		require.NoError(t, b.results["b"])
		require.ErrorIs(t, b.results["c"], dispatcher.ErrClosed)
		require.Len(t, b.results, 6)
	})
}

// TestReleaseInABatch is refused: its messages have their keys in common.
func TestReleaseInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		b := newBatches(t, config{}, func(ctx context.Context, _ int, _ []string) []error {
			err = dispatcher.Release(ctx, requests("k")[0].Key)
			return nil
		}, "k")
		b.gather()
		require.ErrorIs(t, err, dispatcher.ErrNoHandler)
	})
}
