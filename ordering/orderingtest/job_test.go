package orderingtest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// payment is what the handlers of these tests get.
type payment struct{ amount int }

// TestJob: a handler called by itself has a job that it can commit, and a context.
func TestJob(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	cfg, done := newDatabase(t, store).inTx(t)
	cfg.Consumer = ordering.Consumer{} // as NewJob has it
	for _, e := range events(3) {
		j := NewJob(t, store, e, e)
		call := NewCall(t, j, nil)
		require.NoError(t, cfg.Handler(call.Context(), j))
		require.True(t, j.IsCommitted())
		require.ErrorIs(t, cfg.Handler(call.Context(), NewJob(t, store, e, e)), ordering.ErrDuplicate)
	}
	done().once(t, 3)
	require.Equal(t, ordering.Duplicate, Deliver(t, &Crash{}, cfg, events(3)...)[2].Result, "a sequencer knows it")
}

// TestCall: the claim is that of the keys, by default the streams.
func TestCall(t *testing.T) {
	e := events(3)[2]
	j := NewJob(t, ordering.NewMemory(), e, payment{5})
	require.Equal(t, 1, j.Attempt())
	require.Equal(t, payment{5}, j.Value)
	handler := func(ctx context.Context, job ordering.Job[payment]) error {
		dispatcher.Touch(ctx, lockkeys.Must("account", "a"), lockkeys.Exclusive)
		job.Reply([]byte("done"))
		return dispatcher.Release(ctx, lockkeys.Must("account", "a"))
	}
	call := NewCall(t, j, nil)
	require.ErrorIs(t, handler(call.Context(), j), dispatcher.ErrStrictLocking)
	require.Equal(t, "done", string(j.Replied()))
	require.Len(t, call.Touched(), 1)
	call = NewCall(t, j, func(job ordering.Job[payment], claim *lockkeys.Claim) error {
		claim.Shared(lockkeys.Root())
		return nil
	})
	require.NoError(t, dispatcher.Holds(call.Context(), lockkeys.Request{Key: lockkeys.Must("x"), Mode: lockkeys.Shared}))
}
