package ordering

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestKeysAreKeptUntilTheCommit: a handler cannot give a key back while its
// event's numbers are not done. If it fails then, the next event does not run.
func TestKeysAreKeptUntilTheCommit(t *testing.T) {
	var r *rig
	released := make(chan error, 2)
	cfg := Config[*Event]{
		Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 4},
		Handler: func(ctx context.Context, job Job[*Event]) error {
			if job.Event.ID == "a1" {
				released <- dispatcher.Release(ctx, lockkeys.MustParse("a"))
			}
			return r.handle(ctx, job)
		},
	}
	story(t, cfg, func(t *testing.T, made *rig) {
		r = made
		open := r.gate("a1")
		r.failing("a1", dispatcher.Permanent(errShaky))
		r.offer(series("a", 1, 3)...)
		require.ErrorIs(t, <-released, dispatcher.ErrStrictLocking)
		require.Empty(t, r.ran())
		open()
		require.Empty(t, r.ran(), "a1 is parked, and what follows is held behind it")
		require.Len(t, r.parked(), 1)
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), lockkeys.MustParse("a")))
		require.ErrorIs(t, <-released, dispatcher.ErrStrictLocking)
		require.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
	})
}

// TestCloseInAHandler: it would wait for itself, whatever its context.
func TestCloseInAHandler(t *testing.T) {
	var r *rig
	cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error {
		require.ErrorIs(t, r.seq.Close(), dispatcher.ErrNested)
		require.ErrorIs(t, r.seq.Shutdown(ctx), dispatcher.ErrNested)
		require.ErrorIs(t, r.seq.Drain(context.Background()), dispatcher.ErrNested)
		require.NoError(t, r.seq.Err(), "it goes on")
		return r.handle(ctx, job)
	}}
	story(t, cfg, func(t *testing.T, made *rig) {
		r = made
		r.offer(series("a", 1, 3)...)
		require.Equal(t, []string{"a1", "a2", "a3"}, r.ran())
	})
}

// TestAnEventIsNotHeld by its handler: it would be committed before its work is done.
func TestAnEventIsNotHeld(t *testing.T) {
	cfg := Config[*Event]{Failure: dispatcher.DeadLetter, Handler: func(ctx context.Context, _ Job[*Event]) error {
		_, err := dispatcher.Hold(ctx)
		return dispatcher.Permanent(err)
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		_, err := r.seq.Do(t.Context(), command("pay-1", "10"))
		require.ErrorIs(t, err, dispatcher.ErrStrictLocking)
	})
}
