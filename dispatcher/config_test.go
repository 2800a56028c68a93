package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestConfigNamesEveryProblem(t *testing.T) {
	_, err := dispatcher.New(config{
		MaxBatch: -1, Workers: -1, MaxPending: -1, MaxPendingBytes: 1, MaxAttempts: -1,
		Timeout: -1, Failure: 7, MaxParked: -1, CancelGrace: -1, MeasureOneIn: -1,
		Backoff: dispatcher.Backoff{Initial: -1, Max: -2, Multiplier: 0.5, Jitter: 2},
	})
	require.ErrorIs(t, err, dispatcher.ErrConfig)
	for _, name := range []string{
		"Keys", "Handler", "MaxBatch", "Workers", "MaxPending", "Size", "MaxAttempts", "Timeout", "Failure",
		"MaxParked", "CancelGrace", "MeasureOneIn", "Backoff.Initial", "Backoff.Max", "Backoff.Multiplier", "Backoff.Jitter",
	} {
		require.ErrorContains(t, err, name+" is ")
	}
}

func TestConfigProblems(t *testing.T) {
	fine := config{Keys: jobKeys, Handler: runJob}
	for name, spoil := range map[string]func(c *config){
		"Handler and BatchHandler are both set": func(c *config) {
			c.BatchHandler = func(context.Context, []*job) []error { return nil }
		},
		"BatchHandler and Together are both set": func(c *config) {
			c.Handler, c.BatchHandler = nil, func(context.Context, []*job) []error { return nil }
			c.Together = func(ctx context.Context, run func(context.Context) error) error { return run(ctx) }
		},
		"ChainTime is -1":            func(c *config) { c.ChainTime = -1 },
		"MaxPendingBytes is -1":      func(c *config) { c.MaxPendingBytes = -1 },
		"Backoff.Multiplier is NaN":  func(c *config) { c.Backoff.Multiplier = math.NaN() },
		"Backoff.Jitter is NaN":      func(c *config) { c.Backoff.Jitter = math.NaN() },
		"Backoff.Max is 1ms":         func(c *config) { c.Backoff = dispatcher.Backoff{Initial: time.Second, Max: time.Millisecond} },
		"Failure is FailurePolicy(4": func(c *config) { c.Failure = dispatcher.Stop + 1 },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fine
			spoil(&cfg)
			d, err := dispatcher.New(cfg)
			require.ErrorIs(t, err, dispatcher.ErrConfig)
			require.ErrorContains(t, err, name)
			require.Nil(t, d)
		})
	}
	d, err := dispatcher.New(fine)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	// An initial delay above the default maximum raises that.
	fine.Backoff.Initial = time.Hour
	d, err = dispatcher.New(fine)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

func TestPolicy(t *testing.T) {
	require.Equal(t, "look-ahead(4096)", dispatcher.Policy{}.String())
	require.Equal(t, "look-ahead(7)", dispatcher.LookAhead(7).String())
	for _, p := range []dispatcher.Policy{dispatcher.HeadOnly(), dispatcher.LookAhead(0), dispatcher.LookAhead(-5)} {
		require.Equal(t, "head-only", p.String())
		require.Zero(t, p.Window())
	}
}

func TestNames(t *testing.T) {
	var names []string
	for p := dispatcher.DeadLetter; p <= dispatcher.Stop+1; p++ {
		names = append(names, p.String())
	}
	for s := dispatcher.StateQueued; s <= dispatcher.StateParked; s++ {
		names = append(names, s.String())
	}
	for k := dispatcher.Queued; k <= dispatcher.Finished+1; k++ {
		names = append(names, k.String())
	}
	require.Equal(t, []string{
		"dead-letter", "park", "stop", "FailurePolicy(4)",
		"queued", "waiting", "ready", "running", "backoff", "held", "parked",
		"queued", "blocked", "started", "retried", "widened", "released", "held", "hold ended", "undone", "parked", "resumed", "halted", "finished", "EventKind(13)",
	}, names)
	require.NotPanics(t, func() { _ = dispatcher.State(200).String() })
}

// TestErrors: every error can be told by errors.Is and errors.As, through
// wrapping.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("context: %w", err) }

	require.NoError(t, dispatcher.Permanent(nil))
	permanent := dispatcher.Permanent(io.EOF)
	require.True(t, dispatcher.IsPermanent(wrap(permanent)))
	require.False(t, dispatcher.IsPermanent(io.EOF))
	require.False(t, dispatcher.IsPermanent(nil))
	require.ErrorIs(t, wrap(permanent), io.EOF)
	require.Equal(t, "EOF", permanent.Error())

	var widen *dispatcher.WidenError
	require.True(t, errors.As(wrap(dispatcher.Widen(requests("a", "~b")...)), &widen))
	require.Equal(t, requests("a", "~b"), widen.Requests)
	require.ErrorContains(t, widen, "a b (shared)")

	handler := &dispatcher.HandlerError{ID: 7, Attempts: 3, Err: io.EOF}
	require.ErrorIs(t, wrap(handler), io.EOF)
	require.Equal(t, "dispatcher: message without keys failed after 3 attempts: EOF", handler.Error())

	keyFunc := &dispatcher.KeyFuncError{Err: lockkeys.ErrEmptySegment}
	require.ErrorIs(t, wrap(keyFunc), lockkeys.ErrEmptySegment)
	require.ErrorContains(t, keyFunc, "deriving keys")

	require.ErrorIs(t, &dispatcher.PanicError{Value: io.EOF}, io.EOF)
	require.NoError(t, errors.Unwrap(&dispatcher.PanicError{Value: "text"}))
	require.Equal(t, "panic: text\nstack", (&dispatcher.PanicError{Value: "text", Stack: []byte("stack")}).Error())

	require.Equal(t, []error{io.EOF, io.EOF}, dispatcher.FailAll(io.EOF, 2))
	require.Empty(t, dispatcher.FailAll(io.EOF, 0))
}
