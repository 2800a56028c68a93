package outbox_test

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// A channel that loses what it has confirmed and delivers other events twice
// lies between the relay and a sequencer, which asks the outbox for what it
// lacks. Every event takes effect once, in order.
func TestExactlyOnceThroughABadChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: box}}})
		require.NoError(t, err)
		effects := newReceiver()
		sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(),
			Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
				return effects.Publish(ctx, job.Event)
			},
			Replayer:   replayer,
			GapTimeout: 5 * time.Millisecond,
		})
		require.NoError(t, err)
		defer sequencer.Close()

		var mu sync.Mutex
		random := rand.New(rand.NewPCG(3, 1))
		channel := func(ctx context.Context, e *ordering.Event) error {
			mu.Lock()
			chance := random.IntN(10)
			mu.Unlock()
			if chance < 2 && e.Type != "last" {
				return nil // confirmed, and lost
			}
			if err := sequencer.Offer(ctx, e, nil); err != nil {
				return err
			}
			if chance < 4 {
				return errAway // delivered, and not confirmed
			}
			return nil
		}
		start(t, box, outbox.PublisherFunc(channel), outbox.RelayConfig{Window: 4})
		want := map[string]int{}
		for i := range 90 {
			streams := streamSets[i%len(streamSets)]
			put(t, box, db, streams...)
			for _, s := range streams {
				want[s]++
			}
		}
		for stream := range want { // what comes last is not missed by anybody
			inTx(t, db, func(tx *sql.Tx) {
				_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Type: "last"}, lockkeys.MustParse(stream))
				require.NoError(t, err)
			})
		}
		for stream, n := range want {
			require.Eventually(t, func() bool { return len(effects.numbers(stream)) >= n+1 }, waitAtMost, time.Millisecond, stream)
		}
		effects.check(t)
		effects.mu.Lock()
		defer effects.mu.Unlock()
		for id, times := range effects.mu.times {
			assert.Equal(t, 1, times, id)
		}
	})
}

// A sequencer whose producer has skipped what no broker takes asks the outbox
// for it, hears that there is no such event, and goes on by itself.
func TestSequencerAfterASkip(t *testing.T) {
	box, db := newSQLite(t).box(t, outbox.Config{})
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: box}}})
	require.NoError(t, err)
	effects := newReceiver()
	sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: ordering.NewMemory(),
		Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
			return effects.Publish(ctx, job.Event)
		},
		Replayer:   replayer,
		GapTimeout: 5 * time.Millisecond,
	})
	require.NoError(t, err)
	defer sequencer.Close()
	broker := choosy()
	start(t, box, outbox.PublisherFunc(func(ctx context.Context, e *ordering.Event) error {
		if err := broker.Publish(ctx, e); err != nil {
			return err
		}
		return sequencer.Offer(ctx, e, nil)
	}), outbox.RelayConfig{})

	put(t, box, db, "a")
	putHuge(t, box, db, "report", "a", "b")
	put(t, box, db, "b", "a")
	parked(t, box, 1)
	arrive(t, effects, "a", 1)
	require.NoError(t, box.Skip(t.Context(), "report"))
	arrive(t, effects, "a", 1, 3)
	arrive(t, effects, "b", 2)
}
