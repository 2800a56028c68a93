package dispatcher_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// trace is a key of contexts.
type trace struct{}

func traced(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, trace{}, id)
}

// TestValuesReachTheHandler: those of the submitter's context, in every attempt,
// by every way in; but not its end, nor its deadline.
func TestValuesReachTheHandler(t *testing.T) {
	for name, submit := range map[string]func(ctx context.Context, d *disp, j *job) error{
		"Submit":    func(ctx context.Context, d *disp, j *job) error { return d.Submit(ctx, j) },
		"TrySubmit": func(ctx context.Context, d *disp, j *job) error { return d.TrySubmit(ctx, j) },
		"SubmitBatch": func(ctx context.Context, d *disp, j *job) error {
			_, err := d.SubmitBatch(ctx, []*job{j})
			return err
		},
		"Go": func(ctx context.Context, d *disp, j *job) error { _, err := d.Go(ctx, j); return err },
		"Do": func(ctx context.Context, d *disp, j *job) error {
			go func() { _ = d.Do(ctx, j) }()
			synctest.Wait()
			return nil
		},
	} {
		for _, timeout := range []time.Duration{0, time.Hour} {
			t.Run(fmt.Sprint(name, timeout), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var seen []any
					see := func(ctx context.Context) {
						seen = append(seen, ctx.Value(trace{}))
						require.NoError(t, ctx.Err())
						_, limited := ctx.Deadline()
						require.Equal(t, timeout > 0, limited)
						require.Nil(t, ctx.Value(errStep))
					}
					d := start(t, config{Workers: 1, MaxAttempts: 3, Timeout: timeout, DeadLetter: func(ctx context.Context, _ *job, _ error) error {
						require.Equal(t, "7", ctx.Value(trace{}))
						return nil
					}})
					require.NoError(t, d.Submit(t.Context(), newJob("first", takes(time.Second, nil), "k")))
					ctx, cancel := context.WithTimeout(traced(context.Background(), "7"), time.Minute)
					attempts := 0
					require.NoError(t, submit(ctx, d, newJob("", func(ctx context.Context) error {
						see(ctx)
						if attempts++; attempts == 1 {
							return dispatcher.Widen(requests("l")...)
						}
						finish, err := dispatcher.Hold(ctx)
						require.NoError(t, err)
						go func() {
							time.Sleep(time.Second)
							see(context.WithValue(ctx, errBoom, 1))
							finish(errBoom)
						}()
						return nil
					}, "k")))
					cancel() // it has been accepted
					drain(t, d)
					require.Equal(t, 4, attempts)
					require.Len(t, seen, 7)
					for _, v := range seen {
						require.Equal(t, "7", v)
					}
				})
			})
		}
	}
}

// TestTrySubmitOfAnEndedContext: it is refused, as by Submit.
func TestTrySubmitOfAnEndedContext(t *testing.T) {
	d := start(t, config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGiveUp)
	require.ErrorIs(t, d.TrySubmit(ctx, newJob("", nil)), errGiveUp)
	require.ErrorIs(t, d.TrySubmit(ctx, newJob("", nil)), context.Canceled)
}

// TestValuesOfABatch: those of its first message.
func TestValuesOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []any
		b := newBatches(t, config{}, func(ctx context.Context, _ int, _ []string) []error {
			seen = append(seen, ctx.Value(trace{}))
			return nil
		}, "k")
		for _, id := range []string{"a", "b", "c"} {
			require.NoError(t, b.d.Submit(traced(t.Context(), id), newJob(id, nil, "k")))
		}
		drain(t, b.d)
		require.Equal(t, []any{"a"}, seen)
		require.Equal(t, []string{"a", "b", "c"}, b.calls[1])
	})
}

// TestValuesOfSomebodyElse: they are those of the context that is given, which may have
// ended, also for each message of a batch, and none for one that has none.
func TestValuesOfSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{})
		var seen []any
		note := func(ctx context.Context) error {
			seen = append(seen, ctx.Value(trace{}))
			return ctx.Err()
		}
		of, end := context.WithCancel(traced(t.Context(), "theirs"))
		end()
		mine := traced(t.Context(), "mine")
		require.NoError(t, d.Submit(mine, newJob("", note, "k"), dispatcher.ValuesOf[*job](of)))
		require.NoError(t, d.TrySubmit(mine, newJob("", note, "k"), dispatcher.ValuesOf[*job](of), dispatcher.ValuesOf[*job](context.Background())))
		_, err := d.SubmitBatch(mine, []*job{newJob("", note, "k"), newJob("", note, "k")}, dispatcher.ValuesOf[*job](of))
		require.NoError(t, err)
		drain(t, d)
		require.Equal(t, []any{"theirs", nil, "theirs", "theirs"}, seen)
	})
	require.PanicsWithValue(t, "dispatcher: ValuesOf: the context is nil: give context.Background() for no values", func() {
		var none context.Context
		dispatcher.ValuesOf[*job](none)
	})
}

// TestValuesAreOnesOwn: a message has none of those of another that the same
// worker ran before.
func TestValuesAreOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		var kept []context.Context
		for i := range 300 {
			ctx := context.Background()
			var want any
			if i%3 == 0 {
				want = fmt.Sprint(i)
				ctx = traced(ctx, fmt.Sprint(i))
			}
			require.NoError(t, d.Do(ctx, newJob("", func(ctx context.Context) error {
				require.Equal(t, want, ctx.Value(trace{}))
				kept = append(kept, ctx)
				return nil
			})))
		}
		for i, ctx := range kept { // and keeps them
			require.Equal(t, i%3 == 0, ctx.Value(trace{}) == fmt.Sprint(i))
		}
	})
}

// links counts how many contexts it is asked through.
type links struct {
	context.Context
	asked *int
}

func (l links) Value(key any) any { *l.asked++; return l.Context.Value(key) }

// TestMessagesThatSubmitEachOther: each with the context of its handler, for
// ever: they do not grow a chain of contexts.
func TestMessagesThatSubmitEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		asked := 0
		var deepest int
		var next func(n int) *job
		next = func(n int) *job {
			return newJob("", func(ctx context.Context) error {
				asked = 0
				require.Equal(t, "7", ctx.Value(trace{}))
				deepest = max(deepest, asked)
				if n == 0 {
					return nil
				}
				return d.Submit(ctx, next(n-1))
			})
		}
		require.NoError(t, d.Submit(links{traced(context.Background(), "7"), &asked}, next(1000)))
		drain(t, d)
		require.Equal(t, 2, deepest, "once for the value, and once for whose context it is from")
		require.EqualValues(t, 1001, d.Stats().Succeeded)
	})
}
