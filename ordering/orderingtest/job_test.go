package orderingtest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/interlocktest"
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

// said is a test that keeps what is said against it.
type said struct {
	testing.TB
	end  func()
	text []string
}

func (s *said) Cleanup(f func())  { s.end = f }
func (s *said) Error(args ...any) { s.text = append(s.text, fmt.Sprint(args...)) }

// TestTouched: what handlers of a sequencer touch is checked, too.
func TestTouched(t *testing.T) {
	s := &said{TB: t}
	Deliver(t, &Crash{}, ordering.Config[*event]{
		Store: ordering.NewMemory(),
		Dispatcher: dispatcher.Config[job]{
			Touched: interlocktest.Touched(s),
			Name:    func(job job) string { return "event " + job.Event.ID },
		},
		Handler: func(ctx context.Context, job job) error {
			dispatcher.Touch(ctx, lockkeys.Must("account", "a"), lockkeys.Exclusive)
			return nil
		},
	}, events(2)...)
	s.end()
	require.Len(t, s.text, 2)
	require.Contains(t, s.text[0], "event 1 [account/b]", "the second is not of account a")
	require.Contains(t, s.text[0], "job_test.go:")
	require.Contains(t, s.text[1], "nothing keeps these two apart")
}
