package dispatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestBehindOneThatWidens: a message that widens and comes to wait for a
// parked one takes with it what waits for it.
func TestBehindOneThatWidens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, Failure: dispatcher.Park})
		submit(t, d, newJob("bad", takes(0, errBoom), "z"))
		synctest.Wait()
		tries := 0
		submit(t, d, newJob("wide", func(context.Context) error {
			if tries++; tries == 1 {
				time.Sleep(time.Second)
				return dispatcher.Widen(requests("z")...)
			}
			return nil
		}, "c"))
		submit(t, d, newJob("holds", takes(time.Minute, nil), "a"))
		synctest.Wait()
		submit(t, d, newJob("waits for both", nil, "a", "c"))
		begun := time.Now()
		drain(t, d)
		require.Equal(t, time.Minute, time.Since(begun))
		require.Equal(t, 2, d.Stats().Behind)
		require.NoError(t, d.Skip(1))
		drain(t, d)
		require.EqualValues(t, 3, d.Stats().Succeeded)
	})
}

// TestDropWhatIsBehindTwo: given up with one of the parked messages it was
// behind, a message leaves nothing behind at the other.
func TestDropWhatIsBehindTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, Failure: dispatcher.Park, MaxParked: 3})
		for range 50 {
			submit(t, d, newJob("bad", takes(0, errBoom), "a"), newJob("bad", takes(0, errBoom), "b"))
			synctest.Wait()
			submit(t, d, newJob("behind both", nil, "a", "b"))
			synctest.Wait()
			require.Equal(t, 1, d.Stats().Behind)
			parked := d.Parked()
			require.NoError(t, d.Drop(parked[0].ID))
			require.Zero(t, d.Stats().Behind)
			require.NoError(t, d.Drop(parked[1].ID))
			drain(t, d)
		}
		require.EqualValues(t, 150, d.Stats().Failed)
	})
}

// TestShutdownWhileDeadLettering: a message without keys, and so without an
// attempt, that a shutdown finds on a worker.
func TestShutdownWhileDeadLettering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{
			Keys: func(*job, *lockkeys.Claim) error { return errBoom },
			DeadLetter: func(ctx context.Context, _ *job, _ error) error {
				<-ctx.Done()
				time.Sleep(time.Minute)
				return nil
			},
		})
		ticket, err := d.Go(t.Context(), newJob("", nil))
		require.NoError(t, err)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.ErrorIs(t, err, dispatcher.ErrUnfinished)
		require.Len(t, r.Running, 1)
		require.Zero(t, r.Running[0].Attempts)
		require.ErrorIs(t, ticket.Wait(t.Context()), errBoom)
	})
}
