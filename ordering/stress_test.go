package ordering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestMany goroutines at once, with bounds so small that everything is full,
// evicted, parked and held all the time: the race detector looks on.
func TestMany(t *testing.T) {
	const streams, length, sources = 12, 80, 6
	var events []*Event
	next := make([]uint64, streams)
	for i := range streams * length {
		e := &Event{ID: fmt.Sprintf("e%d", i)}
		for s := range streams {
			if s == i%streams || rand.IntN(20) == 0 {
				next[s]++
				e.Positions = append(e.Positions, Position{Stream: key(fmt.Sprintf("s%d", s)), Number: next[s]})
			}
		}
		events = append(events, e)
	}
	applied := make([]atomic.Int32, len(events))
	acknowledged := make([]atomic.Bool, len(events))
	var calls, told atomic.Int64
	index := func(e *Event) (i int) {
		_, err := fmt.Sscanf(e.ID, "e%d", &i)
		require.NoError(t, err)
		return i
	}
	done := func(e *Event, o Outcome) {
		told.Add(1)
		if o.Ack() {
			acknowledged[index(e)].Store(true)
		}
		if rand.IntN(50) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	store := NewMemory()
	var seq *Sequencer[*Event]
	offer := func(ctx context.Context, e *Event) error {
		err := seq.Offer(ctx, e, done)
		if err == nil {
			calls.Add(1)
		}
		return err
	}
	var calm atomic.Bool
	handler := func(ctx context.Context, job Job[*Event]) error {
		if !calm.Load() {
			switch rand.IntN(40) {
			case 0:
				return errors.New("an attempt that fails")
			case 1:
				panic("an attempt that panics")
			case 2:
				runtime.Goexit()
			case 3:
				<-ctx.Done() // the time limit
				return ctx.Err()
			case 4:
				_ = offer(ctx, events[rand.IntN(len(events))])
			}
		}
		if err := store.Commit(context.WithoutCancel(ctx), job.Record()); err != nil {
			return err
		}
		job.Committed()
		applied[index(job.Event)].Add(1)
		return nil
	}
	replay := func(ctx context.Context, missing Range, deliver func(context.Context, []*Event) error) (Answer, error) {
		if !calm.Load() && rand.IntN(2) == 0 {
			return Answer{}, errors.New("the source is away")
		}
		var found []*Event
		for i, e := range events {
			if p, _ := e.On(missing.Stream); missing.Has(p) && !acknowledged[i].Load() {
				found = append(found, e)
			}
		}
		return Answer{}, deliver(ctx, found)
	}
	var err error
	seq, err = New(t.Context(), Config[*Event]{Store: store, Handler: handler, Replayer: ReplayerFunc(replay),
		GapTimeout: 2 * time.Millisecond, MaxEarly: 3, MaxEarlyTotal: 10, MaxEarlyBytes: 4000, MaxActive: 3, IdleTTL: 4 * time.Millisecond,
		Observer:   func(Notice) {},
		FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return dispatcher.Park },
		Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 4, MaxPending: 8, MaxAttempts: 2, Timeout: 4 * time.Millisecond}})
	require.NoError(t, err)

	var sourcesDone sync.WaitGroup
	for range sources {
		sourcesDone.Go(func() {
			for _, i := range rand.Perm(len(events)) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20))*time.Millisecond)
				if rand.IntN(5) == 0 {
					n, _ := seq.OfferBatch(ctx, events[i:min(i+5, len(events))], done)
					calls.Add(int64(n))
				} else {
					_ = offer(ctx, events[i])
				}
				cancel()
			}
		})
	}
	stop := make(chan struct{})
	var operators sync.WaitGroup
	resumeAll := func() (parked int) {
		list, err := seq.Parked(t.Context())
		assert.NoError(t, err)
		for _, p := range list {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := seq.Resume(ctx, p.Streams[rand.IntN(len(p.Streams))].Stream)
			if err != nil && !errors.Is(err, ErrNotParked) && !errors.Is(err, context.DeadlineExceeded) {
				assert.NoError(t, err)
			}
			cancel()
		}
		return len(list)
	}
	operators.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				resumeAll()
				_, _ = seq.Stats(), seq.Snapshot(3)
			}
		}
	})
	sourcesDone.Wait()
	close(stop)
	operators.Wait()

	calm.Store(true)
	require.Eventually(t, func() bool {
		open := 0
		for i, e := range events {
			if !acknowledged[i].Load() {
				open++
				_ = offer(t.Context(), e)
			}
		}
		open += resumeAll()
		assert.NoError(t, seq.Drain(t.Context()))
		store.mu.Lock()
		defer store.mu.Unlock()
		return open+len(store.consumerLocked("default").held)+len(store.consumerLocked("default").parkings) == 0
	}, time.Minute, 10*time.Millisecond)
	for i := range events {
		require.EqualValues(t, 1, applied[i].Load(), "%s: %+v", events[i].ID, events[i].Positions)
	}
	require.Eventually(t, func() bool { return seq.Stats().Streams == 0 }, time.Minute, time.Millisecond)
	require.NoError(t, seq.Close())
	assert.Equal(t, calls.Load(), told.Load())
	assert.Zero(t, seq.Stats().Open+seq.Stats().Early)
}
