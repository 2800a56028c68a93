package hostile_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/hostile"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

func TestGoodChannel(t *testing.T) {
	delivered, lost := hostile.Channel{}.Deliver(4)
	assert.Equal(t, []int{0, 1, 2, 3}, delivered)
	assert.Zero(t, lost)
}

// A bad channel is as bad as it says, and the same for the same seed.
func TestBadChannel(t *testing.T) {
	const n = 20_000
	channel := func() hostile.Channel {
		return hostile.Channel{Seed: 3, Loss: hostile.Independent(0.05), Duplicates: 0.2, Window: 500, Late: 0.01, Delay: 2000, Old: 0.02}
	}
	delivered, lost := channel().Deliver(n)
	again, _ := channel().Deliver(n)
	require.Equal(t, delivered, again)
	times := map[int]int{}
	farthest, old := 0, 0
	for place, message := range delivered {
		times[message]++
		farthest = max(farthest, place-message)
		if place > 2*message+5000 {
			old++
		}
	}
	assert.InEpsilon(t, 0.05*n, lost, 0.1)
	assert.InEpsilon(t, n*0.95*1.22, len(delivered), 0.02)
	assert.Positive(t, times[n-1], "the last message comes")
	assert.Greater(t, farthest, 2000)
	assert.Positive(t, old)
}

func TestBurstyLoss(t *testing.T) {
	const n = 200_000
	b := hostile.Bursty{ToBad: 0.01, ToGood: 0.1, LossGood: 0.01, LossBad: 0.5}
	loss, r := b.Loss(), rand.New(rand.NewPCG(1, 1))
	lost, pairs, before := 0, 0, false
	for range n {
		now := loss(r)
		if now {
			lost++
			if before {
				pairs++
			}
		}
		before = now
	}
	bad := b.ToBad / (b.ToBad + b.ToGood)
	rate := (1-bad)*b.LossGood + bad*b.LossBad
	assert.InEpsilon(t, rate, float64(lost)/n, 0.05)
	assert.Greater(t, float64(pairs)/float64(lost), 4*rate, "losses come together")
}

func TestLog(t *testing.T) {
	a, b := lockkeys.Must("a"), lockkeys.Must("b")
	var events []*ordering.Event
	for n := range uint64(20) {
		events = append(events, &ordering.Event{Positions: []ordering.Position{{Stream: a, Number: 2*n + 1}}},
			&ordering.Event{Positions: []ordering.Position{{Stream: b, Number: n + 1}, {Stream: a, Number: 2*n + 2}}})
	}
	log := hostile.NewLog(1, events)
	log.Fails = 0.3
	for from := uint64(1); from <= 40; {
		answer, err := log.Fetch(context.Background(), ordering.Range{Stream: a, From: from, To: 40})
		if err != nil {
			require.ErrorIs(t, err, hostile.ErrDown)
			continue
		}
		at, ok := answer.Events[0].On(a)
		last := at.Number
		require.True(t, ok)
		require.GreaterOrEqual(t, last, from)
		require.LessOrEqual(t, len(answer.Events), 8)
		from = last + 1
	}
	all, failed := log.Requests()
	assert.Positive(t, failed)
	assert.Greater(t, all, failed)
	_, err := log.Fetch(context.Background(), ordering.Range{Stream: b, From: 20, To: 21})
	require.Error(t, err)
}
