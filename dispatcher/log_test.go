package dispatcher_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestFailureThatNobodyIsToldOf: a message that fails is not dropped silently,
// and whoever is told of the error need not read it in the log as well.
func TestFailureThatNobodyIsToldOf(t *testing.T) {
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	d, err := dispatcher.New(dispatcher.Config[int]{
		Keys:    func(int, *lockkeys.Claim) error { return nil },
		Handler: func(context.Context, int) error { return errBoom },
	})
	require.NoError(t, err)
	require.ErrorIs(t, d.Do(t.Context(), 1), errBoom)
	require.NoError(t, d.Submit(t.Context(), 2, dispatcher.OnDone(func(_ int, err error) {
		require.ErrorIs(t, err, errBoom)
	})))
	require.NoError(t, d.Drain(t.Context()))
	require.Empty(t, log.String())

	require.NoError(t, d.Submit(t.Context(), 3))
	require.NoError(t, d.Drain(t.Context()))
	require.NoError(t, d.Close())
	require.Contains(t, log.String(), "message failed and is dropped")
	require.Contains(t, log.String(), "id=3")
	require.Contains(t, log.String(), errBoom.Error())
}

// The log says who resumed a message or gave it up, and why.
func TestTheOperatorIsInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		d, err := dispatcher.New(dispatcher.Config[int]{
			Keys:    func(int, *lockkeys.Claim) error { return nil },
			Handler: func(context.Context, int) error { return errBoom },
			Failure: dispatcher.Park,
			Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		})
		require.NoError(t, err)
		require.NoError(t, d.Submit(t.Context(), 1))
		synctest.Wait()
		require.NoError(t, d.Resume(dispatcher.WithOperator(t.Context(), "bob", "case 16"), d.Parked()[0].ID))
		synctest.Wait()
		require.NoError(t, d.Skip(dispatcher.WithOperator(t.Context(), "ann", "case 17"), d.Parked()[0].ID))
		require.NoError(t, d.Close())
		require.Contains(t, log.String(), `msg="message resumed by an operator" claim="without keys" id=1 operator=bob why="case 16"`)
		require.Contains(t, log.String(), `operator=ann why="case 17" err=`)
	})
	who, why := dispatcher.OperatorOf(t.Context())
	require.Empty(t, who+why)
}
