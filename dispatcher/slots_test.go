package dispatcher_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestSlotsUnderContention: submitters of all kinds and sizes, many of whom
// give up at the very moment at which their turn comes. No slot is lost and
// none is given back twice, and whoever waits gets one.
func TestSlotsUnderContention(t *testing.T) {
	const slots, room = 8, 64
	ctx := watchdog(t)
	d, err := dispatcher.New(config{
		Keys: jobKeys, Handler: runJob, Workers: 4, MaxPending: slots, MaxPendingBytes: room,
		Size: func(j *job) int64 { return int64(len(j.name)) },
	})
	require.NoError(t, err)
	var producers sync.WaitGroup
	for p := range 8 {
		producers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(p), 11))
			for range scale(100_000) {
				j := &job{name: string(make([]byte, random.IntN(room+1))), keys: requests("k")}
				var err error
				switch random.IntN(4) {
				case 0:
					err = d.TrySubmit(t.Context(), j)
				case 1:
					short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(20))*time.Microsecond)
					err = d.Submit(short, j)
					cancel()
				case 2:
					_, err = d.SubmitBatch(ctx, []*job{j, j, j})
				default:
					err = d.Submit(ctx, j)
				}
				if err != nil && !errors.Is(err, dispatcher.ErrFull) && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v: %+v", err, d.Stats())
					return
				}
			}
		})
	}
	producers.Wait()
	require.NoError(t, d.Drain(ctx), "%+v", d.Stats())
	open := make(chan struct{})
	block := func(context.Context) error { <-open; return nil }
	for range slots {
		require.NoError(t, d.TrySubmit(t.Context(), newJob("", block)))
	}
	require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil)), dispatcher.ErrFull)
	close(open)
	require.NoError(t, d.Drain(ctx))
	require.NoError(t, d.TrySubmit(t.Context(), &job{name: string(make([]byte, room))}), "all bytes are there")
	require.NoError(t, d.Drain(ctx))
	require.NoError(t, d.Close())
}

// TestSubmitterGivesUpInLine: the one in front gives up, and the next gets its
// turn at once.
func TestSubmitterGivesUpInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, sized(10))
		submit(t, d, newJob("123456", takes(time.Minute, nil))) // leaves room for 4
		impatient, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGiveUp)
		defer cancel()
		begun := time.Now()
		first := make(chan error, 1)
		go func() { first <- d.Submit(impatient, newJob("1234567", nil)) }()
		synctest.Wait()
		second := make(chan error, 1)
		go func() { second <- d.Submit(t.Context(), newJob("1", nil)) }()
		synctest.Wait()
		require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("1", nil)), dispatcher.ErrFull, "nobody passes who waits")
		require.ErrorIs(t, <-first, errGiveUp)
		require.NoError(t, <-second)
		require.Equal(t, time.Second, time.Since(begun))
		require.NoError(t, d.TrySubmit(t.Context(), newJob("1", nil)))
		drain(t, d)
	})
}

// TestHandlerSubmits: a handler may submit where that does not wait, also to
// its own keys; the new message comes after it.
func TestHandlerSubmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		depth := 0
		var down func(ctx context.Context) error
		down = func(ctx context.Context) error {
			if depth++; depth == 1000 {
				return nil
			}
			return d.Submit(ctx, newJob("", down, "k"))
		}
		submit(t, d, newJob("", down, "k"))
		drain(t, d)
		require.Equal(t, 1000, depth)
	})
}

// TestSlotsGivenBackByAnOperator: slots come back in batches, but whoever waits
// for one gets it even if no worker has anything to do any more.
func TestSlotsGivenBackByAnOperator(t *testing.T) {
	for name, act := range map[string]func(d *disp, t *testing.T){
		"drop": func(d *disp, t *testing.T) { require.NoError(t, d.Drop(t.Context(), 1)) },
		"skip": func(d *disp, t *testing.T) { require.NoError(t, d.Skip(t.Context(), 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// Two parked messages are all that MaxParked allows: what is
				// behind them counts as pending.
				d := start(t, config{Workers: 3, MaxPending: 64, MaxParked: 2, Failure: dispatcher.Park})
				submit(t, d, newJob("", takes(time.Second, errBoom), "a"), newJob("", takes(time.Second, errBoom), "b"))
				for i := range 62 {
					submit(t, d, newJob("", nil, []string{"a", "b"}[min(i/3, 1)]))
				}
				time.Sleep(2 * time.Second)
				submit(t, d, newJob("", takes(time.Minute, nil), "c"), newJob("", takes(time.Minute, nil), "d"))
				require.Equal(t, 62, d.Stats().Beyond)
				require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil)), dispatcher.ErrFull)
				accepted := make(chan error, 1)
				go func() { accepted <- d.Submit(t.Context(), newJob("", nil, "e")) }()
				synctest.Wait()
				act(d, t)
				time.Sleep(time.Second)
				synctest.Wait()
				require.Len(t, accepted, 1, "a slot is free")
				require.NoError(t, <-accepted)
				require.NoError(t, d.Drop(t.Context(), 2))
				drain(t, d)
			})
		})
	}
}

// TestSlotIsNotHeldBackFromAnIdleWorker: one slot of many is free, and what
// waits for it could start at once.
func TestSlotIsNotHeldBackFromAnIdleWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, MaxPending: 64})
		submit(t, d, newJob("", takes(time.Second, nil), "k"))
		for range 63 {
			submit(t, d, newJob("", takes(30*time.Second, nil), "k"))
		}
		begun := time.Now()
		require.NoError(t, d.Do(t.Context(), newJob("", nil, "other")))
		require.Equal(t, time.Second, time.Since(begun))
		drain(t, d)
	})
}
