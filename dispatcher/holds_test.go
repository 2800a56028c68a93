package dispatcher_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestHolds: what a claim covers, and what the error says where it does not.
func TestHolds(t *testing.T) {
	claim := []string{"client/1", "~client/2", "client/2/account/7"}
	covered := []string{"client/1", "~client/1", "client/1/account/7", "~client/1/account/7/x", "~client/2", "~client/2/account/8", "client/2/account/7"}
	not := []string{"/", "~/", "client", "client/2", "client/2/account/8", "client/10", "~client/3"}
	synctest.Test(t, func(t *testing.T) {
		check := func(ctx context.Context) {
			require.NoError(t, dispatcher.Holds(ctx))
			require.NoError(t, dispatcher.Holds(context.WithValue(ctx, errBoom, 1), requests(covered...)...))
			for _, k := range not {
				err := dispatcher.Holds(ctx, append(requests(covered...), requests(k)...)...)
				var notHeld *dispatcher.NotHeldError
				require.ErrorAs(t, err, &notHeld)
				require.ErrorIs(t, err, dispatcher.ErrNotHeld)
				require.Equal(t, requests(k)[0], notHeld.Request)
				require.Equal(t, requests(claim...), notHeld.Claim)
			}
			require.EqualError(t, dispatcher.Holds(ctx, requests("client/2")...), "dispatcher: client/2 is not covered by the message's claim "+
				"[client/1 client/2 (shared) client/2/account/7]: add claim.Exclusive of client/2 or an ancestor in Config.Keys, or ask for it with Widen in the handler")
			require.ErrorContains(t, dispatcher.Holds(ctx, requests("~client/3")...), "claim.Shared of client/3")
		}
		d := start(t, config{})
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error { check(ctx); return nil }, claim...)))
		b := start(t, config{BatchHandler: func(ctx context.Context, _ []*job) []error { check(ctx); return nil }})
		require.NoError(t, b.Do(t.Context(), newJob("", nil, claim...)))

		// While the message is held, and not when it has ended.
		holder, holds := holding("", claim...)
		submit(t, d, holder)
		h := <-holds
		synctest.Wait()
		check(h.ctx)
		h.finish(nil)
		drain(t, d)
		require.ErrorIs(t, dispatcher.Holds(h.ctx, requests("client/1")...), dispatcher.ErrNoHandler)
		require.ErrorIs(t, dispatcher.Holds(t.Context()), dispatcher.ErrNoHandler)
	})
}

// TestHoldsFollowsTheClaim: it shrinks by Release and grows by Widen.
func TestHoldsFollowsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Strict: true})
		runs := 0
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			require.NoError(t, dispatcher.Holds(ctx, requests("a")...))
			if runs++; runs == 1 {
				require.Error(t, dispatcher.Holds(ctx, requests("b")...))
				return dispatcher.Widen(requests("b")...) // which is to heed it
			}
			require.NoError(t, dispatcher.Holds(ctx, requests("a", "b")...))
			return nil
		}, "a")))
		require.Equal(t, 2, runs)
		require.ErrorIs(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			require.NoError(t, dispatcher.Release(ctx, key("a")))
			return dispatcher.Holds(ctx, requests("a")...)
		}, "a", "b")), dispatcher.ErrNotHeld)
	})
}

// TestStrict: a failure of Holds fails the message for good, whatever the
// handler makes of it, and only that attempt.
func TestStrict(t *testing.T) {
	for name, result := range map[string]error{"ignored": nil, "another error": errBoom} {
		for _, strict := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Strict: strict, MaxAttempts: 3, Failure: dispatcher.Park})
				fails := true
				submit(t, d, newJob("", func(ctx context.Context) error {
					if !fails {
						return nil
					}
					_ = dispatcher.Holds(ctx, requests("b")...)
					_ = dispatcher.Holds(ctx, requests("c")...)
					return result
				}, "a"))
				drain(t, d)
				parked := d.Parked()
				if !strict {
					require.Equal(t, result != nil, len(parked) == 1, name)
					return
				}
				require.Len(t, parked, 1)
				require.Equal(t, 1, parked[0].Attempts)
				require.ErrorIs(t, parked[0].Err, dispatcher.ErrNotHeld)
				require.ErrorContains(t, parked[0].Err, "b is not covered", "the first")
				require.Equal(t, result != nil, errors.Is(parked[0].Err, errBoom))
				fails = false
				require.NoError(t, d.Resume(t.Context(), parked[0].ID))
				drain(t, d)
				require.EqualValues(t, 1, d.Stats().Succeeded)
			})
		}
	}
	// Of a message that is held, and in a batch.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Strict: true, MaxAttempts: 3})
		holder, holds := holding("", "a")
		ticket, err := d.Go(t.Context(), holder)
		require.NoError(t, err)
		h := <-holds
		synctest.Wait()
		require.Error(t, dispatcher.Holds(h.ctx, requests("b")...))
		h.finish(nil)
		require.ErrorIs(t, ticket.Wait(t.Context()), dispatcher.ErrNotHeld)

		b := start(t, config{Strict: true, MaxAttempts: 3, BatchHandler: func(ctx context.Context, _ []*job) []error {
			_ = dispatcher.Holds(ctx, requests("b")...)
			return nil
		}})
		require.ErrorIs(t, b.Do(t.Context(), newJob("", nil, "a")), dispatcher.ErrNotHeld)
	})
}
