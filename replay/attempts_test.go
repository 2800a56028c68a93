package replay_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Between attempts the delay doubles up to Max, and is spread by Jitter to
// either side.
func TestBackoffAndJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		source := replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
			at = append(at, time.Now())
			return replay.Answer{}, nil
		})
		r := replayer(t, replay.Config{Sources: of(source), Attempts: 6,
			Backoff: dispatcher.Backoff{Initial: time.Second, Max: 5 * time.Second, Jitter: 0.25}})
		delays := map[int]map[time.Duration]bool{}
		for range 50 {
			at = nil
			_, err := r.Replay(t.Context(), rangeOf(1, 1), (&inbox{}).deliver)
			require.Error(t, err)
			require.Len(t, at, 6)
			for i, want := range []time.Duration{1, 2, 4, 5, 5} {
				delay := at[i+1].Sub(at[i])
				assert.InDelta(t, float64(want*time.Second), float64(delay), float64(want*time.Second)/4+1)
				if delays[i] == nil {
					delays[i] = map[time.Duration]bool{}
				}
				delays[i][delay] = true
			}
		}
		for i := range delays {
			assert.Greater(t, len(delays[i]), 40, "delay %d differs each time", i)
		}
	})
}

// An attempt that brings something starts the delays anew, and the attempts of
// what is behind it.
func TestProgressDoesNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		source := scripted(func(ctx context.Context, from, to uint64) (replay.Answer, error) {
			if n++; n%3 != 0 {
				return replay.Answer{}, errOut
			}
			return replay.Answer{Events: events(from, from)}, nil
		})
		box, start := &inbox{}, time.Now()
		r := replayer(t, replay.Config{Sources: of(source), Attempts: 3, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1}})
		_, err := r.Replay(t.Context(), rangeOf(1, 20), box.deliver)
		require.NoError(t, err)
		assert.Equal(t, upTo(1, 20), box.numbers())
		assert.Equal(t, 20*3*time.Second, time.Since(start), "1 s and 2 s for each number")
	})
}

// A request that takes too long has failed; the next source is asked.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box, start := &inbox{}, time.Now()
		r := replayer(t, replay.Config{Sources: of(scripted(hangs), scripted(givesAll)), Timeout: 3 * time.Second})
		_, err := r.Replay(t.Context(), rangeOf(1, 3), box.deliver)
		require.NoError(t, err)
		assert.Equal(t, upTo(1, 3), box.numbers())
		assert.Equal(t, 3*time.Second, time.Since(start))
	})
	synctest.Test(t, func(t *testing.T) {
		r := replayer(t, replay.Config{Sources: of(scripted(hangs)), Timeout: 3 * time.Second, Attempts: 2})
		_, err := r.Replay(t.Context(), rangeOf(1, 3), (&inbox{}).deliver)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "replay: a: order/7: 1 to 3: no answer within 3s")
	})
}

// When its context ends, Replay returns at once with the context's error,
// whether it waits for a source, for the next attempt, or for its turn. That
// says nothing against the source.
func TestCancel(t *testing.T) {
	for name, source := range map[string]*script{"in a request": scripted(hangs), "between attempts": scripted(fails(errOut))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := replayer(t, replay.Config{Sources: of(source), MaxOpen: 1,
					Breaker: replay.Breaker{Failures: 1}, Backoff: dispatcher.Backoff{Initial: time.Hour}})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				waiting := make(chan error)
				go func() {
					_, err := r.Replay(ctx, rangeOf(7, 8), (&inbox{}).deliver)
					waiting <- err
				}()
				_, err := r.Replay(ctx, rangeOf(1, 3), (&inbox{}).deliver)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, <-waiting, context.DeadlineExceeded)
				assert.ErrorContains(t, err, "order/7: 1 to 3")
				var unanswered *replay.UnansweredError
				assert.False(t, errors.As(err, &unanswered))
				assert.Equal(t, time.Second, time.Since(start))
				assert.Zero(t, r.Stats().Open)
				if name == "in a request" {
					assert.Equal(t, "closed", r.Stats().Sources[0].Breaker)
				}
			})
		})
	}
}

// What a source refuses, or does not keep any more, it is not asked for again.
func TestPermanent(t *testing.T) {
	for _, reason := range []error{dispatcher.Permanent(errOut), replay.ErrNotRetained} {
		synctest.Test(t, func(t *testing.T) {
			source, start := scripted(fails(reason)), time.Now()
			r := replayer(t, replay.Config{Sources: of(source), Breaker: replay.Breaker{Failures: 1}})
			_, err := r.Replay(t.Context(), rangeOf(1, 3), (&inbox{}).deliver)
			require.ErrorIs(t, err, reason)
			assert.Len(t, source.asked(), 1)
			assert.Zero(t, time.Since(start))
			assert.Equal(t, "closed", r.Stats().Sources[0].Breaker)
		})
	}
}

// What is no error stays none, however it is marked.
func TestMarksOfNil(t *testing.T) {
	require.NoError(t, replay.RetryAfter(nil, time.Second))
	assert.Zero(t, replay.RetryAfterOf(nil))
}

// A source that says when to come again is not asked before, by anyone.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(fails(replay.RetryAfter(errOut, 20*time.Second)), givesAll)
		r, start := replayer(t, replay.Config{Sources: of(source)}), time.Now()
		answer, err := r.Replay(t.Context(), rangeOf(1, 3), (&inbox{}).deliver)
		require.NoError(t, err)
		assert.Equal(t, 20*time.Second, time.Since(start))
		assert.Equal(t, 2, answer.Attempts)
	})
	synctest.Test(t, func(t *testing.T) { // one that wants to be asked much later
		source := scripted(fails(replay.RetryAfter(errOut, time.Hour)))
		r, start := replayer(t, replay.Config{Sources: of(source), Attempts: 3, MaxWait: time.Minute}), time.Now()
		_, err := r.Replay(t.Context(), rangeOf(1, 3), (&inbox{}).deliver)
		require.ErrorIs(t, err, errOut)
		assert.InDelta(t, 180, time.Since(start).Seconds(), 1)
		assert.Len(t, source.asked(), 1)
		_, err = r.Replay(t.Context(), rangeOf(9, 9), (&inbox{}).deliver)
		require.ErrorIs(t, err, replay.ErrResting)
		assert.ErrorIs(t, err, errOut)
		assert.Len(t, source.asked(), 1)
	})
}

// A busy source is asked again until it has time. Many replays that wait for it, more
// than may ask at a time, are not given up meanwhile, and the breaker stays closed.
func TestBusySource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		source := replay.SourceFunc(func(_ context.Context, wanted ordering.Range) (replay.Answer, error) {
			if time.Since(began) < 30*time.Second {
				return replay.Answer{}, replay.RetryAfter(errOut, time.Second)
			}
			return replay.Answer{Events: events(wanted.From, wanted.To)}, nil
		})
		r := replayer(t, replay.Config{Sources: of(source), MaxOpen: 2})
		var waiting sync.WaitGroup
		for n := range uint64(100) {
			waiting.Go(func() {
				box := &inbox{}
				_, err := r.Replay(t.Context(), rangeOf(n+1, n+1), box.deliver)
				assert.NoError(t, err)
				assert.Equal(t, []uint64{n + 1}, box.numbers())
			})
		}
		waiting.Wait()
		assert.Equal(t, "closed", r.Stats().Sources[0].Breaker)
	})
}

// The paper's formulas hold for the attempts: a number stays unanswered with
// probability (1-p)^R, after (1-(1-p)^R)/p attempts on average. The tolerance
// is four standard errors; the draws are the same in each run.
func TestProbabilities(t *testing.T) {
	for _, c := range []struct {
		p float64
		r int
	}{{0.9, 5}, {0.5, 5}, {0.5, 1}, {0.3, 4}, {0.2, 10}, {0.7, 2}} {
		synctest.Test(t, func(t *testing.T) {
			const replays = 4000
			draws := rand.New(rand.NewPCG(1, 2))
			source := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
				if draws.Float64() >= c.p {
					return replay.Answer{}, errOut
				}
				return replay.Answer{Events: events(asked.From, asked.To)}, nil
			})
			r := replayer(t, replay.Config{Sources: of(source), Attempts: c.r})
			failed, attempts, squares := 0.0, 0.0, 0.0
			for n := range uint64(replays) {
				answer, err := r.Replay(t.Context(), rangeOf(n+1, n+1), (&inbox{}).deliver)
				if err != nil {
					failed++
				}
				attempts += float64(answer.Attempts)
				squares += float64(answer.Attempts * answer.Attempts)
			}
			pFail := math.Pow(1-c.p, float64(c.r))
			assert.InDelta(t, pFail, failed/replays, 4*math.Sqrt(pFail*(1-pFail)/replays), "p=%v R=%d", c.p, c.r)
			mean := attempts / replays
			assert.InDelta(t, (1-pFail)/c.p, mean, 4*math.Sqrt((squares/replays-mean*mean)/replays)+1e-9, "p=%v R=%d", c.p, c.r)
		})
	}
}

// At most MaxOpen requests are on their way at a time, and those that wait are
// made in order.
func TestMaxOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int32
		source := scripted(func(ctx context.Context, from, to uint64) (replay.Answer, error) {
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			time.Sleep(time.Second + time.Duration(from)*time.Millisecond) // so that no two end at once
			return givesAll(ctx, from, to)
		})
		r := replayer(t, replay.Config{Sources: of(source), MaxOpen: 3})
		var all []<-chan *result
		var want [][2]uint64
		for n := uint64(1); n <= 20; n++ {
			all, want = append(all, ask(t.Context(), r, rangeOf(n, n))), append(want, [2]uint64{n, n})
		}
		for _, done := range all {
			require.NoError(t, (<-done).err)
		}
		assert.EqualValues(t, 3, most.Load())
		assert.Equal(t, want, source.asked())
	})
}
