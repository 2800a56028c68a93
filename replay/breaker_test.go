package replay_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/replay"
)

// A breaker opens after failures in a row; then the next source is asked in
// its place. After a while one request tries the source; when it fails the
// breaker stays open, when it succeeds the source is asked as before. Each
// change is logged.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		first := scripted(fails(errOut), fails(errOut), fails(errOut), givesAll)
		second := scripted(givesAll)
		r := replayer(t, replay.Config{
			Sources: of(first, second),
			Breaker: replay.Breaker{Failures: 2, Open: 10 * time.Second},
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		ask := func(n uint64) {
			box := &inbox{}
			_, err := r.Replay(t.Context(), rangeOf(n, n), box.deliver)
			require.NoError(t, err)
			require.Equal(t, []uint64{n}, box.numbers())
		}
		state := func() string { return r.Stats().Sources[0].Breaker }

		ask(1)
		assert.Equal(t, "closed", state())
		ask(2)
		assert.Equal(t, "open", state())
		assert.Contains(t, log.String(), `level=WARN msg="replay: breaker of a source changed" source=a from=closed to=open`)
		ask(3)
		assert.Len(t, first.asked(), 2, "not asked while open")

		time.Sleep(10*time.Second + 1)
		assert.Equal(t, "half-open", state())
		ask(4)
		assert.Len(t, first.asked(), 3, "one request tried it")
		assert.Equal(t, "open", state())
		ask(5)
		assert.Len(t, first.asked(), 3)

		time.Sleep(10*time.Second + 1)
		ask(6)
		assert.Equal(t, "closed", state())
		ask(7)
		assert.Len(t, first.asked(), 5)
		assert.Len(t, second.asked(), 5)
		assert.Contains(t, log.String(), `source=a from=half-open to=closed`)
		assert.NotContains(t, log.String(), `source=b`)

		stats := r.Stats()
		assert.Equal(t, replay.Stats{Replays: 7, Sources: []replay.SourceStats{
			{Name: "a", Requests: 5, Errors: 3, Events: 2, Breaker: "closed"},
			{Name: "b", Requests: 5, Events: 5, Breaker: "closed"},
		}}, stats)
	})
}

// When no source can be asked, a replay waits until one can be, so that each
// of its attempts is a request.
func TestWaitsForTheBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := scripted(fails(errOut))
		r := replayer(t, replay.Config{Sources: of(source), Attempts: 4, Breaker: replay.Breaker{Failures: 1, Open: 30 * time.Second}})
		start := time.Now()
		answer, err := r.Replay(t.Context(), rangeOf(1, 1), (&inbox{}).deliver)
		require.ErrorIs(t, err, errOut)
		assert.Equal(t, 4, answer.Attempts)
		assert.Equal(t, 90*time.Second+3, time.Since(start))

		// With another source to ask, it does not wait.
		r = replayer(t, replay.Config{Sources: of(source, scripted(gives())), Attempts: 4,
			Breaker: replay.Breaker{Failures: 1, Open: 30 * time.Second}})
		start = time.Now()
		_, err = r.Replay(t.Context(), rangeOf(1, 1), (&inbox{}).deliver)
		require.ErrorIs(t, err, replay.ErrNoAnswer)
		assert.Less(t, time.Since(start), 2*time.Second)
	})
}

// A row of holes is not asked for one by one of a source that is down, and yet
// each of them has its attempts.
func TestBreakerAmongHoles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		even := gives(events(2, 2)[0], events(4, 4)[0], events(6, 6)[0], events(8, 8)[0], events(10, 10)[0])
		source, start := scripted(even, hangs), time.Now()
		r := replayer(t, replay.Config{Sources: of(source), Attempts: 2, Timeout: time.Second, Breaker: replay.Breaker{Failures: 3}})
		_, err := r.Replay(t.Context(), rangeOf(1, 10), (&inbox{}).deliver)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		// The first attempt finds the breaker open after three holes; then
		// there is one request after each rest of 10 s.
		assert.Equal(t, [][2]uint64{{1, 10}, {3, 3}, {5, 5}, {7, 7}, {1, 1}, {3, 3}, {5, 5}, {7, 7}, {9, 9}, {9, 9}}, source.asked())
		assert.InDelta(t, 3+6*11, time.Since(start).Seconds(), 0.01)
	})
}

// A source that panics, or ends its goroutine, has failed like any other: the next one is
// asked in its place, and it is asked again once it has rested.
func TestSourcesThatDoNotReturn(t *testing.T) {
	for name, step := range map[string]step{
		"panic":  func(context.Context, uint64, uint64) (replay.Answer, error) { panic("a bug") },
		"Goexit": func(context.Context, uint64, uint64) (replay.Answer, error) { runtime.Goexit(); panic("not reached") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first, second := scripted(step, step, givesAll), scripted(givesAll)
				r := replayer(t, replay.Config{Sources: of(first, second), Breaker: replay.Breaker{Failures: 1, Open: 10 * time.Second}})
				for n := range uint64(3) {
					box := &inbox{}
					err := contain.Apart(func() error {
						_, err := r.Replay(t.Context(), rangeOf(n+1, n+1), box.deliver)
						return err
					})
					assert.NoError(t, err)
					assert.Equal(t, []uint64{n + 1}, box.numbers())
					time.Sleep(10*time.Second + 1)
				}
				assert.Len(t, first.asked(), 3)
				stats := r.Stats()
				assert.Zero(t, stats.Open)
				assert.Equal(t, replay.SourceStats{Name: "a", Requests: 3, Errors: 2, Events: 1, Breaker: "closed"}, stats.Sources[0])
			})
		})
	}
}
