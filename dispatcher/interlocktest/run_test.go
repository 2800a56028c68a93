package interlocktest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// bankOf returns what a handler is made for, and its configuration.
func bankOf(keys dispatcher.KeyFunc[transfer]) (*bank, dispatcher.Config[transfer]) {
	b := newBank("1", "2", "3", "4")
	return b, dispatcher.Config[transfer]{Keys: keys, Handler: b.move, Name: func(m transfer) string { return m.from + "-" + m.to }}
}

// TestRight: handlers that declare what they touch pass in every order.
func TestRight(t *testing.T) {
	Run(t, func(r *Round[transfer]) {
		b, cfg := bankOf(transferKeys)
		for range 12 {
			i := r.Rand.Perm(4)
			r.SubmitAt(time.Duration(r.Rand.IntN(3))*time.Second, transfer{fmt.Sprint(i[0] + 1), fmt.Sprint(i[1] + 1), r.Rand.IntN(100), false})
		}
		h := r.Dispatch(cfg)
		require.Zero(r.T, b.total())
		require.Len(r.T, h.Attempts, 12)
		require.Empty(r.T, h.Errors)
	})
}

// dispatchOnce returns what a round with a seed says.
func dispatchOnce[M any](t *testing.T, seed uint64, test func(r *Round[M]) dispatcher.Config[M]) (h *History[M], problems []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRound[M](t, seed)
		h, problems = r.dispatch(test(r))
	})
	return h, problems
}

// TestMutants: whatever is wrong with the keys is found, with each seed.
func TestMutants(t *testing.T) {
	two := []transfer{{"1", "2", 5, false}, {"3", "2", 7, false}}
	for name, test := range map[string]struct {
		keys     dispatcher.KeyFunc[transfer]
		messages []transfer
		want     []string
	}{
		"a missing key": {
			func(m transfer, claim *lockkeys.Claim) error { claim.Exclusive(account(m.from)); return nil }, two,
			[]string{"client/42/account/2 written at", "client/42/account/2, touched at", "is not covered by the message's claim [client/42/account/",
				"nothing keeps these two apart", "message 1, attempt 1: 1-2 [client/42/account/1]", "message 2, attempt 1: 3-2 [client/42/account/3]"}},
		"a wrong mode": {
			func(m transfer, claim *lockkeys.Claim) error {
				claim.Exclusive(account(m.from))
				claim.Shared(account(m.to))
				return nil
			}, two,
			[]string{"client/42/account/2 (shared)", "add claim.Exclusive of client/42/account/2", "nothing keeps these two apart"}},
		"a sibling": {
			func(m transfer, claim *lockkeys.Claim) error {
				claim.Exclusive(account(m.from), account("4"))
				return nil
			}, two,
			[]string{"client/42/account/2, touched at"}}, // they are kept apart, by luck
		"a descendant": {
			func(m transfer, claim *lockkeys.Claim) error {
				child, err := account(m.to).Child("limit")
				claim.Exclusive(account(m.from), child)
				return err
			}, two,
			[]string{"client/42/account/2, touched at"}},
		"data that only some keys protect": {
			transferKeys, []transfer{{"1", "2", 5, true}, {"2", "3", 5, true}, {"3", "4", 5, true}},
			[]string{"nothing keeps these two apart", `"moved" written at`, "bank_test.go:", "message 1, attempt 1: 1-2", "message 3, attempt 1: 3-4"}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(10) {
				_, problems := dispatchOnce(t, seed, func(r *Round[transfer]) dispatcher.Config[transfer] {
					_, cfg := bankOf(test.keys)
					if seed == 0 {
						cfg.Workers = 1 // the test's race detector is not to find it
					}
					r.Submit(test.messages...)
					return cfg
				})
				all := strings.Join(problems, "\n")
				for _, want := range test.want {
					require.Contains(t, all, want, "seed %d", seed)
				}
			}
		})
	}
}

// TestProtected: data is protected by whichever keys two messages have in common.
func TestProtected(t *testing.T) {
	for name, messages := range map[string][]transfer{
		"by one key":             {{"1", "2", 5, true}, {"2", "3", 5, true}, {"4", "2", 5, true}},
		"by another for any two": {{"1", "2", 5, true}, {"2", "3", 5, true}, {"3", "1", 5, true}},
		"by one that uses it":    {{"1", "2", 5, true}, {"3", "4", 5, false}},
	} {
		_, problems := dispatchOnce(t, 1, func(r *Round[transfer]) dispatcher.Config[transfer] {
			_, cfg := bankOf(transferKeys)
			r.Submit(messages...)
			return cfg
		})
		require.Empty(t, problems, name)
	}
}

// TestSeeds: a seed decides the history; others give others, so that each order that
// may come does.
func TestSeeds(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(200) {
		history := func() *History[transfer] {
			h, problems := dispatchOnce(t, seed+1, func(r *Round[transfer]) dispatcher.Config[transfer] {
				b, cfg := bankOf(transferKeys)
				cfg.MaxAttempts = 2
				move, failed := cfg.Handler, map[transfer]bool{}
				cfg.Handler = func(ctx context.Context, m transfer) error {
					if !failed[m] {
						failed[m] = true
						return errOverdrawn
					}
					return move(ctx, m)
				}
				_ = b
				r.Submit(transfer{"1", "1", 1, false}, transfer{"2", "2", 1, false})
				r.SubmitAt(time.Second, transfer{"3", "3", 1, false}, transfer{"1", "2", 1, false})
				return cfg
			})
			require.Empty(t, problems)
			return h
		}
		h := history()
		require.Equal(t, h.String(), history().String(), "seed %d", seed)
		var order []uint64
		for _, a := range h.Attempts {
			if a.Attempt == 2 {
				order = append(order, a.ID)
				require.NoError(t, a.Err)
			} else {
				require.ErrorIs(t, a.Err, errOverdrawn)
			}
		}
		require.Less(t, slices.Index(order, 1), slices.Index(order, 4))
		require.Less(t, slices.Index(order, 2), slices.Index(order, 4))
		orders[fmt.Sprint(order)] = true
	}
	require.Len(t, orders, 2*4, "1 and 2 in either order, then 4; and 3 anywhere: %v", orders)
}

// TestLostUpdate: handlers give way at what they touch, so that one that is not
// protected fails its own assertions, too.
func TestLostUpdate(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		n := 0
		_, problems := dispatchOnce(t, seed+1, func(r *Round[int]) dispatcher.Config[int] {
			r.Submit(1, 1)
			return dispatcher.Config[int]{
				Keys: func(int, *lockkeys.Claim) error { return nil },
				Handler: func(ctx context.Context, m int) error {
					was := n
					Yield(ctx)
					n = was + m
					return nil
				},
			}
		})
		require.Empty(t, problems, "nothing was touched")
		if n == 1 {
			lost++
		}
	}
	require.NotZero(t, lost)
	require.NotEqual(t, 50, lost)
}

// TestFailures: what fails, is parked, or gets stuck is told of.
func TestFailures(t *testing.T) {
	fails := func(cfg dispatcher.Config[int]) func(r *Round[int]) dispatcher.Config[int] {
		return func(r *Round[int]) dispatcher.Config[int] {
			r.Submit(1, 2)
			cfg.Keys = func(int, *lockkeys.Claim) error { return nil }
			if cfg.Handler == nil {
				cfg.Handler = func(context.Context, int) error { return errOverdrawn }
			}
			return cfg
		}
	}
	for name, cfg := range map[string]dispatcher.Config[int]{
		"dead-lettered": {}, "parked": {Failure: dispatcher.Park}, "stopped": {Failure: dispatcher.Stop}, "panicking": {Handler: func(context.Context, int) error { panic(errOverdrawn) }},
	} {
		h, problems := dispatchOnce(t, 1, fails(cfg))
		all := strings.Join(problems, "\n")
		require.Contains(t, all, "failed:", name)
		require.Contains(t, all, errOverdrawn.Error(), name)
		require.NotEmpty(t, h.Errors, name)
	}
	given := 0
	h, problems := dispatchOnce(t, 1, fails(dispatcher.Config[int]{DeadLetter: func(context.Context, int, error) error { given++; return nil }}))
	require.Empty(t, problems, "they are taken")
	require.Equal(t, 2, given)
	require.Len(t, h.Errors, 2)
	_, problems = dispatchOnce(t, 1, fails(dispatcher.Config[int]{Handler: func(ctx context.Context, _ int) error {
		<-ctx.Done()
		return nil
	}}))
	require.Contains(t, strings.Join(problems, "\n"), "nothing has gone on for 1h0m0s")
	_, problems = dispatchOnce(t, 1, fails(dispatcher.Config[int]{Workers: -1}))
	require.Contains(t, strings.Join(problems, "\n"), "Workers is -1")
}

// TestOtherHandlers: batches, chains, held messages, and those that release or widen.
func TestOtherHandlers(t *testing.T) {
	key := lockkeys.Must("a")
	other := lockkeys.Must("b")
	keys := func(_ int, claim *lockkeys.Claim) error { claim.Exclusive(key, other); return nil }
	for seed := range uint64(20) {
		run := func(cfg dispatcher.Config[int]) *History[int] {
			if cfg.Keys == nil {
				cfg.Keys = keys
			}
			h, problems := dispatchOnce(t, seed, func(r *Round[int]) dispatcher.Config[int] {
				r.Submit(1, 2, 3)
				r.SubmitAt(time.Minute, 4)
				return cfg
			})
			require.Empty(t, problems)
			return h
		}
		h := run(dispatcher.Config[int]{BatchHandler: func(ctx context.Context, ms []int) []error {
			dispatcher.Touch(ctx, key, lockkeys.Exclusive)
			return nil
		}})
		require.Len(t, h.Attempts, 4)
		for i, a := range h.Attempts {
			require.Equal(t, i+1, a.Message)
			require.EqualValues(t, i+1, a.ID)
			require.NotZero(t, a.Batch)
		}
		undone := 0
		h = run(dispatcher.Config[int]{
			Handler: func(ctx context.Context, _ int) error { dispatcher.Touch(ctx, key, lockkeys.Exclusive); return nil },
			Together: func(ctx context.Context, run func(context.Context) error) error {
				if err := run(ctx); err != nil || undone == 0 {
					undone++
					return fmt.Errorf("undone: %w", errOverdrawn)
				}
				return nil
			},
		})
		require.GreaterOrEqual(t, len(h.Attempts), 4)
		h = run(dispatcher.Config[int]{Handler: func(ctx context.Context, m int) error {
			if err := dispatcher.Release(ctx, key); err != nil {
				return err
			}
			Yield(ctx)
			dispatcher.Touch(ctx, other, lockkeys.Exclusive)
			return nil
		}})
		require.Equal(t, []lockkeys.Request{{Key: other}}, h.Attempts[0].Left)
		require.Contains(t, h.String(), "left with [b]")
		h = run(dispatcher.Config[int]{Handler: func(ctx context.Context, m int) error {
			finish, err := dispatcher.Hold(ctx)
			time.AfterFunc(time.Second, func() { finish(nil) })
			return err
		}})
		require.Len(t, h.Attempts, 4)
		h = run(dispatcher.Config[int]{
			Keys: func(_ int, claim *lockkeys.Claim) error { claim.Exclusive(key); return nil },
			Handler: func(ctx context.Context, m int) error {
				if dispatcher.Holds(ctx, lockkeys.Request{Key: other}) != nil {
					return dispatcher.Widen(lockkeys.Request{Key: other})
				}
				dispatcher.Touch(ctx, other, lockkeys.Exclusive)
				return nil
			}})
		require.Len(t, h.Attempts, 8)
	}
}

// TestFewWorkers: a full queue makes the submitter wait, and handlers may submit.
func TestFewWorkers(t *testing.T) {
	Run(t, func(r *Round[int]) {
		ran := make(map[int]int)
		r.Submit(1, 2, 3, 4)
		r.Dispatch(dispatcher.Config[int]{
			Workers: 2, MaxPending: 2,
			Keys: func(_ int, claim *lockkeys.Claim) error { claim.Exclusive(lockkeys.Root()); return nil },
			Handler: func(ctx context.Context, m int) error {
				ran[m]++
				return nil
			},
		})
		require.Equal(r.T, map[int]int{1: 1, 2: 1, 3: 1, 4: 1}, ran)
		r.Submit(1)
		h := r.Dispatch(dispatcher.Config[int]{
			Keys: func(int, *lockkeys.Claim) error { return nil },
			Handler: func(ctx context.Context, m int) error {
				if m < 3 {
					return r.Dispatcher().TrySubmit(ctx, m+1)
				}
				return nil
			},
		})
		require.Len(r.T, h.Attempts, 3)
	})
}

// TestFailing fails, in a process of its own.
func TestFailing(t *testing.T) {
	if !failing {
		out := failingTest(t, "TestFailing")
		require.Contains(t, out, "seed=1")
		require.NotContains(t, out, "seed=2")
		require.Contains(t, out, "is not covered by the message's claim []")
		require.Contains(t, out, "the history, seed 1:\n")
		require.Contains(t, out, "steps 1 to 2, ")
		require.Contains(t, out, "go test -run '^TestFailing$' -interlocktest.seed=1 -interlocktest.rounds=1")
		out = failingTest(t, "TestFailing", "-interlocktest.seed=7")
		require.Contains(t, out, "seed=7")
		require.NotContains(t, out, "parallel")
		return
	}
	Run(t, func(r *Round[int]) {
		r.Submit(1)
		r.Dispatch(dispatcher.Config[int]{
			Keys: func(int, *lockkeys.Claim) error { return nil },
			Handler: func(ctx context.Context, m int) error {
				if r.Seed > 0 {
					dispatcher.Touch(ctx, lockkeys.Must("a"), lockkeys.Exclusive)
				}
				return nil
			},
		})
	})
}

// TestParallel: in the parallel round the race detector finds what no test has said is
// touched.
func TestParallel(t *testing.T) {
	if !failing {
		if raceEnabled { // else it may pass
			require.Contains(t, failingTest(t, "TestParallel"), "WARNING: DATA RACE")
		}
		return
	}
	Run(t, func(r *Round[int]) {
		n := 0
		r.Submit(1, 2)
		r.Dispatch(dispatcher.Config[int]{
			Keys:    func(int, *lockkeys.Claim) error { return nil },
			Handler: func(_ context.Context, m int) error { n += m; return nil },
		})
	})
}
