package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
	"github.com/interlock-go/interlock/examples/ledger/internal/service"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

func madeUp(t *testing.T, n int) (ms []*book.Message) {
	t.Helper()
	g := madeup.New(n, 1)
	for range n {
		item, err := g.Next()
		require.NoError(t, err)
		ms = append(ms, item.Message)
	}
	return ms
}

// faults are what can go wrong with the messages themselves: at is a message
// with an expectation about an account, next the next one that adds to it.
var faults = map[string]func(ms []*book.Message, at, next int) []*book.Message{
	"lost":    func(ms []*book.Message, at, _ int) []*book.Message { return slices.Delete(ms, at, at+1) },
	"doubled": func(ms []*book.Message, at, _ int) []*book.Message { return slices.Insert(ms, at, ms[at]) },
	"swapped": func(ms []*book.Message, at, next int) []*book.Message {
		ms[at], ms[next] = ms[next], ms[at]
		return ms
	},
}

// A lost, a doubled and a swapped message are each seen.
func TestFaultsAreSeen(t *testing.T) {
	t.Parallel()
	for input, most := range map[string]int{"made up": 3000, "hackclub": 5000, "berka": 5000} {
		t.Run(input, func(t *testing.T) {
			ms := unnamed(dataSets[input](t))
			ms, _ = part(ms[:min(len(ms), most)], 1500)
			at, next := related(t, ms)
			how := setup{"memory", 8, dispatcher.LookAhead(4096)}
			requireGood(t, replayAll(t, how, ms))
			for fault, inject := range faults {
				t.Run(fault, func(t *testing.T) {
					s := replayAll(t, how, inject(slices.Clone(ms), at, next))
					assert.False(t, s.Good())
					assert.Positive(t, s.Audit.Outcomes.Count[audit.Unmet])
				})
			}
		})
	}
}

// unnamed returns copies of messages without the ids by which one that comes twice
// would be known.
func unnamed(ms []*book.Message) (copies []*book.Message) {
	for _, m := range ms {
		one := *m
		one.ID = ""
		copies = append(copies, &one)
	}
	return copies
}

// related finds a message that adds to an account and expects its balance, and
// the next one that adds to the account.
func related(t *testing.T, ms []*book.Message) (at, next int) {
	t.Helper()
	for at := len(ms) / 2; at < len(ms); at++ {
		if ms[at].Reject || len(ms[at].Expect) == 0 || len(ms[at].Moves()) == 0 {
			continue
		}
		account := ms[at].Moves()[0].Account
		for next := at + 1; next < len(ms); next++ {
			if m := ms[next]; !m.Reject && len(m.Moves()) > 0 && m.Moves()[0].Account == account && !m.Moves()[0].Amount.IsZero() {
				return at, next
			}
		}
	}
	require.Fail(t, "no such messages")
	return 0, 0
}

// careless is a store that does something else than it says for one message.
type careless struct {
	*store.Memory
	event   string
	instead func(s *store.Memory, ctx context.Context, job ordering.Commitment, r store.Result) error
}

func (s careless) Commit(ctx context.Context, job ordering.Commitment, r store.Result) error {
	if r.Event.Name() == s.event {
		return s.instead(s.Memory, ctx, job, r)
	}
	return s.Memory.Commit(ctx, job, r)
}

// A store that loses, doubles or forgets part of what it was given is caught
// without any expectation.
func TestCarelessStoreIsSeen(t *testing.T) {
	t.Parallel()
	ms := madeUp(t, 2000)
	at := slices.IndexFunc(ms[1000:], func(m *book.Message) bool { return m.Op == book.Deposit && !m.Reject }) + 1000
	for i := range ms {
		ms[i].Expect = nil
	}
	for name, instead := range map[string]func(s *store.Memory, ctx context.Context, job ordering.Commitment, r store.Result) error{
		"forgets a message": func(*store.Memory, context.Context, ordering.Commitment, store.Result) error { return nil },
		"forgets its money": func(s *store.Memory, ctx context.Context, job ordering.Commitment, _ store.Result) error {
			return s.Commit(ctx, job, store.Result{Changes: &book.Changes{}})
		},
		"applies it twice": func(s *store.Memory, ctx context.Context, job ordering.Commitment, r store.Result) error {
			for h, amount := range r.Changes.Balances {
				r.Changes.Balances[h] = amount.Add(amount)
			}
			return s.Commit(ctx, job, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			seen := audit.New(nil, 0)
			s, err := service.Start(ctx, service.Config{
				Store: careless{store.NewMemory(), fmt.Sprintf("input/1/%d", at+1), instead}, Input: first,
				Workers: 8, Policy: dispatcher.LookAhead(4096), Audit: seen,
			})
			require.NoError(t, err)
			for i, m := range ms {
				require.NoError(t, s.Submit(ctx, i+1, m))
			}
			waiting, err := s.Finish(ctx)
			require.NoError(t, err)
			assert.Empty(t, waiting)
			assert.NotEmpty(t, seen.Money.Problems)
		})
	}
}

// first is the input of a new store.
func first() int64 { return 1 }

var errDiskFull = errors.New("disk full")

// failing is a store whose disk is full after some messages.
type failing struct {
	*store.Memory
	after *atomic.Int64
}

func (s failing) Commit(ctx context.Context, job ordering.Commitment, r store.Result) error {
	if s.after.Add(-1) < 0 {
		return errDiskFull
	}
	return s.Memory.Commit(ctx, job, r)
}

// When the store fails, and goes on failing, nothing more is tried, and the
// run says so.
func TestStoreFailureStopsTheRun(t *testing.T) {
	ms := madeUp(t, 100_000)
	synctest.Test(t, func(t *testing.T) { // for the pauses between attempts
		ctx := context.Background()
		seen := audit.New(nil, 0)
		var after atomic.Int64
		after.Store(50)
		s, err := service.Start(ctx, service.Config{Store: failing{store.NewMemory(), &after}, Input: first, Workers: 4, Audit: seen})
		require.NoError(t, err)
		var refused error
		for i, m := range ms {
			if refused = s.Submit(ctx, i+1, m); refused != nil {
				break
			}
		}
		require.ErrorIs(t, refused, ordering.ErrStopped)
		require.ErrorIs(t, refused, errDiskFull)
		_, err = s.Finish(ctx)
		require.Error(t, err)
		assert.True(t, s.Stopped())
		assert.Less(t, seen.Outcomes.Total(), 100)
		assert.GreaterOrEqual(t, s.Counts().Accepted, 50)
	})
}

// unclear is a store that is gone before it has said whether it has committed.
type unclear struct {
	*store.Memory
	gone *atomic.Bool
}

func (s unclear) Commit(context.Context, ordering.Commitment, store.Result) error {
	s.gone.Store(true)
	return &ordering.StoreError{Op: "commit", Err: errDiskFull}
}

func (s unclear) Numbers() ordering.Store { return unclearNumbers{s.Memory.Numbers(), s.gone} }

type unclearNumbers struct {
	ordering.Store
	gone *atomic.Bool
}

func (n unclearNumbers) Begin(ctx context.Context, c ordering.Consumer) (ordering.Term, error) {
	term, err := n.Store.Begin(ctx, c)
	return unclearTerm{term, n.gone}, err
}

type unclearTerm struct {
	ordering.Term
	gone *atomic.Bool
}

func (t unclearTerm) Look(ctx context.Context, positions []ordering.Position) ([]ordering.NumberState, error) {
	if t.gone.Load() {
		return nil, errDiskFull
	}
	return t.Term.Look(ctx, positions)
}

// A sender is not told that its message was not accepted while nobody can know.
func TestTheEndOfTheServiceInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone atomic.Bool
		s, err := service.Start(t.Context(), service.Config{Store: unclear{store.NewMemory(), &gone}, Input: first, Workers: 4, Audit: audit.New(nil, 0)})
		require.NoError(t, err)
		answered := make(chan error, 1)
		go func() {
			_, err := s.Do(t.Context(), &book.Message{Op: book.Open, Account: "a"})
			answered <- err
		}()
		synctest.Wait()
		require.True(t, gone.Load())
		_, _ = s.Shutdown(t.Context())
		require.ErrorIs(t, <-answered, service.ErrInDoubt)
		_, err = s.Do(t.Context(), &book.Message{Op: book.Open, Account: "b"})
		require.ErrorIs(t, err, ordering.ErrClosed)
		require.NotErrorIs(t, err, service.ErrInDoubt, "it was not accepted")
	})
}

// The audit compares with what the handlers themselves saw of time: messages
// that a dispatcher lets overlap are seen.
func TestOverlapIsSeen(t *testing.T) {
	var input bytes.Buffer
	require.NoError(t, feed.WriteNDJSON(&input, madeup.New(200, 1)))
	source := feed.NewNDJSON(&input)
	seen := audit.New(nil, 0)
	for id := uint64(1); id <= 200; id++ {
		item, err := source.Next()
		require.NoError(t, err)
		seen.Finished(audit.Record{ID: id, Message: item.Message, Run: audit.Run{
			Begin: id, End: id + 1000, Start: time.Unix(0, 0), Stop: time.Unix(1, 0),
		}})
	}
	assert.Greater(t, seen.Order.Violations, 100)
	assert.NotEmpty(t, seen.Order.First)
}
