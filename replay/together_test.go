package replay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// after takes a step a second after it was asked.
func after(next step) step {
	return func(ctx context.Context, from, to uint64) (replay.Answer, error) {
		time.Sleep(time.Second)
		return next(ctx, from, to)
	}
}

type result struct {
	inbox
	answer ordering.Answer
	err    error
}

// ask replays a range in the background; the channel gives the result.
func ask(ctx context.Context, r *replay.Replayer, missing ordering.Range) <-chan *result {
	done := make(chan *result, 1)
	go func() {
		var x result
		x.answer, x.err = r.Replay(ctx, missing, x.deliver)
		done <- &x
	}()
	synctest.Wait()
	return done
}

// Replays at the same time do not wait for each other, of one range or of several.
func TestReplaysDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := replayer(t, replay.Config{Sources: of(replay.SourceFunc(
			func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
				time.Sleep(time.Second)
				return replay.Answer{NoSuch: []ordering.Range{asked}}, nil
			}))})
		missing := []ordering.Range{rangeOf(1, 3), rangeOf(1, 3), rangeOf(2, 5), {Stream: other, From: 1, To: 3}}
		var all []<-chan *result
		for _, m := range missing {
			all = append(all, ask(t.Context(), r, m))
		}
		assert.Equal(t, len(missing), r.Stats().Open)
		for i, done := range all {
			x := <-done
			require.NoError(t, x.err)
			assert.Equal(t, missing[i:i+1], x.answer.NoSuch)
		}
		assert.Equal(t, time.Second, time.Since(start))
		stats := r.Stats()
		assert.EqualValues(t, len(missing), stats.Replays)
		assert.Zero(t, stats.Open)
	})
}

// Each gets all of its own, whatever others get of the same range; who is
// cancelled disturbs nobody else.
func TestReplaysAreApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := replayer(t, replay.Config{Sources: of(scripted(after(givesUpTo(1))))})
		first, cancelFirst := context.WithCancel(t.Context())
		a, b, c := ask(first, r, rangeOf(1, 6)), ask(t.Context(), r, rangeOf(2, 4)), ask(t.Context(), r, rangeOf(1, 6))
		time.Sleep(1500 * time.Millisecond)
		cancelFirst()
		x := <-a
		require.ErrorIs(t, x.err, context.Canceled)
		assert.Equal(t, upTo(1, 2), x.numbers(), "with what was on its way")
		x = <-b
		require.NoError(t, x.err)
		assert.Equal(t, upTo(2, 4), x.numbers())
		x = <-c
		require.NoError(t, x.err)
		assert.Equal(t, upTo(1, 6), x.numbers())
		assert.Zero(t, r.Stats().Open)
	})
}
