package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/hostile"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// channels lose 5 % of the messages, each by itself or in bursts, and 20 % come
// twice, all are shuffled within 500, some come much later, and now and then
// one comes again that is long done.
func channels() map[string]hostile.Channel {
	channel := func(loss hostile.Loss) hostile.Channel {
		return hostile.Channel{Seed: 1, Loss: loss, Duplicates: 0.2, Window: 500, Late: 0.002, Delay: 2000, Old: 0.02}
	}
	bursts := hostile.Bursty{ToBad: 0.01, ToGood: 0.1, LossGood: 0.005, LossBad: 0.5}
	return map[string]hostile.Channel{
		"independent": channel(hostile.Independent(0.05)),
		"bursty":      channel(bursts.Loss()),
	}
}

// Whatever a channel does, the books are those of the messages one after the
// other, as soon as somebody has what was lost: the first 10,000 messages of a data
// set, or fewer under the race detector.
func TestHostileChannel(t *testing.T) {
	t.Parallel()
	for name, load := range dataSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ms := load(t)
			ms, _ = part(ms[:min(len(ms), 10_000)], 400)
			ms = numbered(t, ms)
			want := replayAll(t, setup{"memory", 1, dispatcher.HeadOnly()}, unnumbered(ms))
			for name, channel := range channels() {
				t.Run(name, func(t *testing.T) {
					got := runHostile(t, store.NewMemory(), channel, ms)
					assert.Equal(t, want.Audit.Outcomes.Count, got.audit.Outcomes.Count)
					assert.Equal(t, ownOf(want.Balances), ownOf(got.balances))
				})
			}
		})
	}
}

// The same with databases, which have to hold what cannot run yet.
func TestHostileChannelOnDatabases(t *testing.T) {
	t.Parallel()
	ms, _ := part(madeUp(t, 1200), 300)
	ms = numbered(t, ms)
	want := replayAll(t, setup{"memory", 1, dispatcher.HeadOnly()}, unnumbered(ms))
	for kind, name := range map[string]string{"sqlite": filepath.Join(t.TempDir(), "ledger.db"), "postgres": server(t).Database(t)} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s, err := store.Open(context.Background(), name)
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			got := runHostile(t, s, channels()["bursty"], ms)
			assert.Equal(t, want.Audit.Outcomes.Count, got.audit.Outcomes.Count)
			assert.Equal(t, ownOf(want.Balances), ownOf(got.balances))
		})
	}
}

// numbered returns copies of messages with the numbers of a producer, and an
// end of day behind them, which tells of all that must have come before it.
func numbered(t *testing.T, ms []*book.Message) (copies []*book.Message) {
	t.Helper()
	n := numbering.New(lockkeys.Root())
	for _, m := range append(slices.Clone(ms), &book.Message{Op: book.EndOfDay}) {
		one := *m
		var claim lockkeys.Claim
		require.NoError(t, one.Claim(&claim))
		one.Sequence = n.Next(claim.Requests())
		copies = append(copies, &one)
	}
	return copies
}

func unnumbered(ms []*book.Message) (copies []*book.Message) {
	for _, m := range ms {
		one := *m
		one.Sequence = nil
		copies = append(copies, &one)
	}
	return copies
}

// books is what a run left.
type books struct {
	audit    *audit.Audit
	balances []report.Balance
}

// runHostile runs messages that come by a channel, with a log of all of them
// that answers badly.
func runHostile(t *testing.T, s store.Store, channel hostile.Channel, ms []*book.Message) books {
	t.Helper()
	ctx := context.Background()
	var events []*ordering.Event
	for _, m := range ms {
		payload, err := m.Payload()
		require.NoError(t, err)
		events = append(events, &ordering.Event{Type: string(m.Op), Positions: m.Sequence, Payload: payload})
	}
	log := hostile.NewLog(channel.Seed, events)
	log.Fails = 0.2
	replayer, err := replay.New(replay.Config{
		Sources:  []replay.NamedSource{{Name: "log", Source: log}},
		Attempts: 20, Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond},
		Breaker: replay.Breaker{Failures: 20, Open: 10 * time.Millisecond},
		Logger:  slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	seen := audit.New(nil, 0)
	run, err := service.Start(ctx, service.Config{
		Store: s, Input: first, Workers: 8, Audit: seen, GapTimeout: 5 * time.Millisecond, Replayer: replayer,
	})
	require.NoError(t, err)

	delivered, lost := channel.Deliver(len(ms))
	require.Positive(t, lost)
	for _, i := range delivered {
		require.NoError(t, run.Submit(ctx, i+1, ms[i]))
	}
	waiting, err := run.Finish(ctx)
	require.NoError(t, err)
	require.Empty(t, waiting)
	counts := run.Counts()
	requests, failed := log.Requests()
	t.Logf("%d messages, %d delivered, %d lost; %d done before, %d held for a while, %d by replay or from the store; %d requests, %d of which failed",
		len(ms), len(delivered), lost, counts.Before, counts.Held, counts.Revived, requests, failed)
	assert.GreaterOrEqual(t, counts.Revived, lost)
	assert.Equal(t, len(ms), seen.Outcomes.Total())
	assert.Zero(t, counts.Refused)
	assert.Zero(t, seen.Missing())
	assert.Zero(t, seen.Order.Violations, seen.Order.First)
	assert.Zero(t, seen.Numbers.Violations, seen.Numbers.First)
	totals, err := s.Balances(ctx, book.Root)
	require.NoError(t, err)
	seen.Money.Close(book.Totals(totals))
	assert.Empty(t, seen.Money.Problems)
	balances, err := report.Balances(ctx, s)
	require.NoError(t, err)
	return books{seen, balances}
}
