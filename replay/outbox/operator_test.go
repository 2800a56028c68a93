package outbox_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestOperatorErrors(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		putHuge(t, box, db, "report", "a")
		operations := map[string]func(context.Context, string) error{"resume": box.Resume, "skip": box.Skip}
		for name, do := range operations {
			err := do(t.Context(), "report")
			require.ErrorIs(t, err, outbox.ErrNotParked, "it was not tried yet")
			assert.ErrorContains(t, err, "outbox: "+name+` event "report"`)
			require.ErrorIs(t, do(t.Context(), "nobody"), outbox.ErrNotParked)
		}
		_, stop := start(t, box, choosy(), outbox.RelayConfig{})
		parked(t, box, 1)
		stop()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, do := range operations {
			require.ErrorIs(t, do(ended, "report"), context.Canceled)
		}
		parked(t, box, 1)
		require.NoError(t, box.Skip(t.Context(), "report"))
		for _, do := range operations {
			require.ErrorIs(t, do(t.Context(), "report"), outbox.ErrNotParked)
		}
		require.NoError(t, db.Close())
		_, err := box.Parked(t.Context())
		require.ErrorContains(t, err, "outbox: list parked events")
		require.ErrorContains(t, box.Resume(t.Context(), "report"), "closed")
	})
}

// Operators resume and skip at random while events are enqueued, sent, fail,
// are refused for good, and confirmations are lost. All that was not skipped
// arrives, in order; Fetch has the same.
func TestOperatorsAtRandom(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		r := moody(11)
		before := r.before
		r.before = func(ctx context.Context, e *ordering.Event, times int) error {
			if e.Type == huge && times < 2 {
				return dispatcher.Permanent(errHuge)
			}
			return before(ctx, e, times)
		}
		start(t, box, r, outbox.RelayConfig{Window: 4, MaxAttempts: 2, Timeout: 20 * time.Millisecond, MaxBackoff: 2 * time.Millisecond})
		var producer sync.WaitGroup
		count, skipped := map[string]uint64{}, map[lockkeys.Key][]uint64{}
		producer.Go(func() {
			random := rand.New(rand.NewPCG(5, 1))
			for i := range 100 {
				streams := streamSets[i%len(streamSets)]
				e := &ordering.Event{}
				if random.IntN(8) == 0 {
					e.Type = huge
				}
				inTx(t, db, func(tx *sql.Tx) {
					_, err := box.Enqueue(t.Context(), tx, e, keys(streams...)...)
					assert.NoError(t, err)
				})
				box.Notify()
				for _, s := range streams {
					count[s]++
				}
			}
		})
		operate := func() bool {
			list, err := box.Parked(t.Context())
			assert.NoError(t, err)
			for _, e := range list {
				if rand.IntN(2) == 0 {
					assert.NoError(t, box.Resume(t.Context(), e.Event))
					continue
				}
				assert.NoError(t, box.Skip(t.Context(), e.Event))
				for _, p := range e.Positions {
					skipped[p.Stream] = append(skipped[p.Stream], p.Number)
				}
			}
			s, err := box.Stats(t.Context())
			return err == nil && s.Unsent == 0
		}
		require.Eventually(t, func() bool { operate(); return len(skipped) > 0 }, 20*time.Second, time.Millisecond)
		producer.Wait()
		require.Eventually(t, operate, 20*time.Second, time.Millisecond)
		for name, n := range count {
			stream := lockkeys.MustParse(name)
			arrived := r.numbers(name)
			assert.True(t, slices.IsSorted(arrived), "%s: %v", name, arrived)
			answer, err := box.Fetch(t.Context(), stream, 1, n)
			require.NoError(t, err)
			var there, never []uint64
			for _, e := range answer.Events {
				number, _ := e.On(stream)
				there = append(there, number)
				assert.Contains(t, arrived, number, name)
			}
			for _, r := range answer.NoSuch {
				never = append(never, r.From)
			}
			assert.ElementsMatch(t, skipped[stream], never, name)
			assert.ElementsMatch(t, upTo(int(n)), append(there, never...), name)
		}
	})
}
