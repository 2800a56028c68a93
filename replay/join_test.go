package replay_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
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

// Two replays of one range make one request, and both get what comes: each its
// own copy.
func TestJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := events(1, 3)
		with[0].Payload, with[0].Headers = []byte("x"), map[string]string{"a": "b"}
		source := scripted(after(gives(with...)))
		r := replayer(t, replay.Config{Sources: of(source)})
		a, b := ask(t.Context(), r, rangeOf(1, 3)), ask(t.Context(), r, rangeOf(2, 3))
		for _, x := range []*result{<-a, <-b} {
			require.NoError(t, x.err)
			assert.Equal(t, upTo(1, 3), x.numbers())
			assert.Equal(t, []byte("x"), x.got[0].Payload)
			assert.Equal(t, "b", x.got[0].Headers["a"])
			x.got[0].Payload[0], x.got[0].Headers["a"] = 'y', "c"
		}
		assert.Len(t, source.asked(), 1)
		stats := r.Stats()
		assert.EqualValues(t, 2, stats.Replays)
		assert.EqualValues(t, 1, stats.Joined)
		assert.Zero(t, stats.Open)
	})
}

// Replays of ranges that do not overlap, or of other streams, do not wait.
func TestNoJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := replayer(t, replay.Config{Sources: of(replay.SourceFunc(
			func(_ context.Context, stream lockkeys.Key, from, to uint64) (replay.Answer, error) {
				time.Sleep(time.Second)
				return replay.Answer{NoSuch: []ordering.Range{{Stream: stream, From: from, To: to}}}, nil
			}))})
		a, b := ask(t.Context(), r, rangeOf(1, 3)), ask(t.Context(), r, rangeOf(4, 5))
		c := ask(t.Context(), r, ordering.Range{Stream: other, From: 1, To: 3})
		require.NoError(t, (<-a).err)
		require.NoError(t, (<-b).err)
		require.NoError(t, (<-c).err)
		assert.Equal(t, time.Second, time.Since(start))
		assert.Zero(t, r.Stats().Joined)
	})
}

// Who joins late, or wants more, asks for what it did not get.
func TestJoinLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(after(givesUpTo(2)))
		r := replayer(t, replay.Config{Sources: of(source)})
		a := ask(t.Context(), r, rangeOf(1, 6))
		time.Sleep(1500 * time.Millisecond) // 1 and 2 have come
		b := ask(t.Context(), r, rangeOf(2, 8))
		assert.Equal(t, upTo(1, 6), (<-a).numbers())
		x := <-b
		require.NoError(t, x.err)
		assert.ElementsMatch(t, upTo(2, 8), x.numbers())
		assert.Equal(t, [][2]uint64{{1, 6}, {3, 6}, {5, 6}, {2, 2}, {7, 8}}, source.asked())
	})
}

// Who joins shares the failure as well, without attempts of its own, and what
// never existed.
func TestJoinSharesTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(after(func(ctx context.Context, from, to uint64) (replay.Answer, error) {
			if from <= 2 {
				return never(rangeOf(1, 2))(ctx, from, to)
			}
			return replay.Answer{}, errOut
		}))
		r := replayer(t, replay.Config{Sources: of(source), Attempts: 2})
		a, b := ask(t.Context(), r, rangeOf(1, 3)), ask(t.Context(), r, rangeOf(1, 3))
		for _, x := range []*result{<-a, <-b} {
			var unanswered *replay.UnansweredError
			require.ErrorAs(t, x.err, &unanswered)
			require.ErrorIs(t, x.err, errOut)
			assert.Equal(t, []ordering.Range{rangeOf(3, 3)}, unanswered.Missing)
			assert.Equal(t, []ordering.Range{rangeOf(1, 2)}, x.answer.NoSuch)
		}
		assert.Len(t, source.asked(), 3)
	})
}

// When the one that asks is cancelled or fails, another one goes on; when one
// that joined is cancelled, or fails, nobody else is disturbed.
func TestJoinAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(after(givesUpTo(1)))
		r := replayer(t, replay.Config{Sources: of(source)})
		first, cancelFirst := context.WithCancel(t.Context())
		second, cancelSecond := context.WithCancel(t.Context())
		a, b, c := ask(first, r, rangeOf(1, 6)), ask(second, r, rangeOf(1, 6)), ask(t.Context(), r, rangeOf(1, 6))
		time.Sleep(1500 * time.Millisecond)
		cancelSecond()
		x := <-b
		require.ErrorIs(t, x.err, context.Canceled)
		assert.Equal(t, upTo(1, 1), x.numbers())
		time.Sleep(time.Second)
		cancelFirst()
		x = <-a
		require.ErrorIs(t, x.err, context.Canceled)
		x = <-c
		require.NoError(t, x.err)
		assert.Equal(t, upTo(1, 6), x.numbers())
	})
}

// Ten at once over overlapping ranges: everyone gets all of its own, and no
// number is on its way twice at a time.
func TestManyJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var onTheWay inFlight
		source := replay.SourceFunc(func(_ context.Context, _ lockkeys.Key, from, to uint64) (replay.Answer, error) {
			onTheWay.begin(t, from, to)
			time.Sleep(time.Second)
			onTheWay.end(from, to)
			return replay.Answer{Events: events(from, min(to, from+2))}, nil
		})
		r := replayer(t, replay.Config{Sources: of(source)})
		var all []<-chan *result
		for i := range uint64(10) {
			all = append(all, ask(t.Context(), r, rangeOf(1+3*i, 10+5*i)))
			time.Sleep(700 * time.Millisecond)
		}
		for i, done := range all {
			x := <-done
			require.NoError(t, x.err)
			assert.Subset(t, x.numbers(), upTo(1+3*uint64(i), 10+5*uint64(i)))
		}
		assert.Zero(t, r.Stats().Open)
	})
}
