package dispatcher_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestMaxParked: once it is reached, what would go behind a parked message is
// refused, loudly, and all else goes on; nothing that was accepted is lost or
// goes before another.
func TestMaxParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := start(t, config{
			Workers: 2, Failure: dispatcher.Park, MaxParked: 3, MaxPending: 4, Policy: dispatcher.LookAhead(1),
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		failing := true
		var order []int
		add := func(i int, keys ...string) *job {
			return newJob("", func(context.Context) error { order = append(order, i); return nil }, keys...)
		}
		submit(t, d, newJob("bad", func(context.Context) error {
			if failing {
				time.Sleep(time.Second)
				return errBoom
			}
			return nil
		}, "k"))
		submit(t, d, add(0, "k"), add(1, "k/x", "y"), add(2, "~y")) // all that is pending allowed
		time.Sleep(2 * time.Second)
		s := d.Stats()
		require.Equal(t, []int{1, 3, 1}, []int{s.Parked, s.Behind, s.Beyond})
		require.Zero(t, s.Waiting, "the window is free")

		for i, key := range []string{"k", "~k", "/", "~y", "y/z", "k/x/y"} { // behind it, directly or not
			refused := add(10+i, key)
			require.ErrorIs(t, d.Submit(t.Context(), refused), dispatcher.ErrTooManyParked)
			require.ErrorIs(t, d.TrySubmit(t.Context(), refused), dispatcher.ErrTooManyParked)
			require.ErrorIs(t, d.Do(t.Context(), refused), dispatcher.ErrTooManyParked)
			_, err := d.Go(t.Context(), refused)
			require.ErrorIs(t, err, dispatcher.ErrTooManyParked)
		}
		n, err := d.SubmitBatch(t.Context(), []*job{add(20, "u"), add(21, "k"), add(22, "u")})
		require.Equal(t, 1, n)
		require.ErrorIs(t, err, dispatcher.ErrTooManyParked)
		for i := range 20 { // unrelated
			require.NoError(t, d.Do(t.Context(), add(100+i, "u", "~x")))
		}
		require.EqualValues(t, 25, d.Stats().Refused)
		require.Equal(t, 1, strings.Count(log.String(), "MaxParked is reached"))

		failing = false
		order = nil
		require.NoError(t, d.Resume(t.Context(), 1))
		drain(t, d)
		require.Equal(t, []int{0, 1, 2}, order)
		for range 4 { // each takes a while, so that none has ended when the fifth is tried
			require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(time.Second, nil), "k")), "every slot has come back, once")
		}
		require.ErrorIs(t, d.TrySubmit(t.Context(), add(4, "k")), dispatcher.ErrFull)
		drain(t, d)
	})
}

// TestEverythingIsParked: there are never more than MaxPending + MaxParked
// messages; then submissions wait, for an operator, and each decision makes
// room for one more.
func TestEverythingIsParked(t *testing.T) {
	for _, bytes := range []bool{false, true} {
		t.Run(fmt.Sprint("bytes=", bytes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const maxParked, maxPending = 10, 16
				cfg := config{Workers: 4, Failure: dispatcher.Park, MaxParked: maxParked, MaxPending: maxPending}
				most := maxParked + maxPending
				if bytes { // 16 of them, and 16 again
					cfg.MaxParked, cfg.MaxPending, cfg.MaxPendingBytes, cfg.Size = 1000, 1000, 2*maxPending, func(*job) int64 { return 2 }
					most = 2 * maxPending
				}
				var up atomic.Bool
				run := func(context.Context) error {
					if !up.Load() {
						return errBoom
					}
					return nil
				}
				d := start(t, cfg)
				const all = 100
				var accepted atomic.Int32
				go func() {
					for i := range all {
						if d.Submit(t.Context(), newJob("", run, fmt.Sprint(i))) == nil {
							accepted.Add(1)
						}
					}
				}()
				for i := range 20 {
					time.Sleep(time.Second)
					s := d.Stats()
					require.Equal(t, most, s.Parked+s.Queued)
					require.EqualValues(t, most+i, accepted.Load())
					oldest := d.Parked()[0].ID
					if i%2 == 0 {
						require.NoError(t, d.Resume(t.Context(), oldest)) // and it is parked again
						time.Sleep(time.Second)
						require.EqualValues(t, most+i, accepted.Load())
					}
					require.NoError(t, d.Skip(t.Context(), oldest))
				}
				time.Sleep(time.Second)
				up.Store(true)
				for _, p := range d.Parked() {
					require.NoError(t, d.Resume(t.Context(), p.ID))
				}
				time.Sleep(time.Second)
				require.EqualValues(t, all, accepted.Load())
				require.EqualValues(t, all-20, d.Stats().Succeeded)
			})
		})
	}
}

// TestRelatedFloodDoesNotStopOthers: with all that is pending behind one parked
// message, as much as MaxParked does not bear, messages for other keys start at
// once, whatever the window.
func TestRelatedFloodDoesNotStopOthers(t *testing.T) {
	for _, policy := range []dispatcher.Policy{dispatcher.HeadOnly(), dispatcher.LookAhead(4), {}} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 2, Failure: dispatcher.Park, MaxParked: 10, MaxPending: 200, Policy: policy})
				submit(t, d, newJob("bad", takes(time.Second, errBoom), "k"))
				for range 150 {
					submit(t, d, newJob("", nil, "k"))
				}
				time.Sleep(2 * time.Second)
				for range 100 {
					begun := time.Now()
					require.NoError(t, d.Do(t.Context(), newJob("", takes(time.Second, nil), "other")))
					require.Equal(t, time.Second, time.Since(begun))
				}
				require.Equal(t, 150, d.Stats().Behind)
				require.NoError(t, d.Drain(t.Context()), "what is behind a parked one is not waited for")
				require.NoError(t, d.Drop(t.Context(), 1))
				drain(t, d)
			})
		})
	}
}

// TestMaxParkedAndClosed: what is refused for good is not refused as if an operator could
// make room for it.
func TestMaxParkedAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Failure: dispatcher.Park, MaxParked: 1})
		submit(t, d, newJob("", takes(0, errBoom), "a"))
		drain(t, d)
		require.ErrorIs(t, d.Submit(t.Context(), newJob("", nil, "a")), dispatcher.ErrTooManyParked)
		require.ErrorIs(t, d.Close(), dispatcher.ErrUnfinished)
		require.ErrorIs(t, d.Submit(t.Context(), newJob("", nil, "a")), dispatcher.ErrClosed)
		require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil, "a")), dispatcher.ErrClosed)
		require.EqualValues(t, 1, d.Stats().Refused)
	})
}
