package dispatcher_test

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

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// The tests in this file run real load, outside of bubbles. What could hang is
// watched by a context, whose end fails the test with a snapshot.

var errWatchdog = errors.New("the test hangs")

func watchdog(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 90*time.Second, errWatchdog)
	t.Cleanup(cancel)
	return ctx
}

// scale makes a number smaller under the race detector, and in short tests: what
// needs many messages is proven without it.
func scale(n int) int {
	if raceEnabled {
		n /= 12
	}
	if testing.Short() {
		n /= 10
	}
	return n
}

// pair is a message of the load tests: the indexes of its keys.
type pair struct{ a, b int32 }

var loadKeys = func() (keys [1024]lockkeys.Key) {
	for i := range keys {
		keys[i] = lockkeys.Must("client", fmt.Sprint(i%256), "account", fmt.Sprint(i/256))
	}
	return keys
}()

func pairKeys(p pair, claim *lockkeys.Claim) error {
	claim.Exclusive(loadKeys[p.a])
	if p.b >= 0 {
		claim.Exclusive(loadKeys[p.b])
	}
	return nil
}

func finishPairs(t *testing.T, ctx context.Context, d *dispatcher.Dispatcher[pair], want uint64) {
	t.Helper()
	require.NoError(t, d.Drain(ctx), "%+v", d.Stats())
	s := d.Stats()
	require.Equal(t, dispatcher.Stats{Accepted: want, Started: want, Succeeded: want}, s)
	require.NoError(t, d.Close())
}

// TestNoLostWakeUps: a million handlers that do next to nothing, so that
// workers fall asleep and are woken all the time. One wake-up lost would hang
// it; two handlers of one key at once would be a data race.
func TestNoLostWakeUps(t *testing.T) {
	const n = 1_000_000
	for _, c := range []struct {
		workers, producers, pending, keys int
		second                            bool
		policy                            dispatcher.Policy
	}{
		{1, 1, 1 << 16, 1024, false, dispatcher.LookAhead(4096)},
		{2, 4, 1, 1024, true, dispatcher.LookAhead(4096)},
		{4, 4, 64, 8, true, dispatcher.LookAhead(64)},
		{8, 2, 1 << 16, 1024, true, dispatcher.HeadOnly()},
		{16, 8, 1024, 2, false, dispatcher.LookAhead(1)},
		{64, 4, 4096, 64, true, dispatcher.LookAhead(4096)},
	} {
		t.Run(fmt.Sprintf("workers=%d producers=%d pending=%d keys=%d", c.workers, c.producers, c.pending, c.keys), func(t *testing.T) {
			ctx := watchdog(t)
			var counts [1024]int // each guarded by its key
			d, err := dispatcher.New(dispatcher.Config[pair]{
				Keys: pairKeys, Workers: c.workers, MaxPending: c.pending, Policy: c.policy,
				Handler: func(_ context.Context, p pair) error {
					counts[p.a]++
					if p.b >= 0 && p.b != p.a {
						counts[p.b]++
					}
					return nil
				},
			})
			require.NoError(t, err)
			each := scale(n) / 6 / c.producers
			var producers sync.WaitGroup
			for p := range c.producers {
				producers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(p), 7))
					for range each {
						m := pair{int32(random.IntN(c.keys)), -1}
						if c.second {
							m.b = int32(random.IntN(c.keys))
						}
						if err := d.Submit(ctx, m); err != nil {
							t.Errorf("%v: %+v", err, d.Stats())
							return
						}
					}
				})
			}
			producers.Wait()
			finishPairs(t, ctx, d, uint64(each*c.producers))
		})
	}
}

// TestPairsDoNotDeadlock: random pairs in both orders, a key with its parent,
// the same key twice, over few keys, on 64 workers; every key sees its
// messages in the order in which they arrived.
func TestPairsDoNotDeadlock(t *testing.T) {
	n := scale(2_000_000)
	ctx := watchdog(t)
	const accounts = 16
	type message struct {
		number int
		keys   []lockkeys.Key
		leaves []int // the accounts that the keys cover
	}
	var last [accounts]int // guarded by the keys
	d, err := dispatcher.New(dispatcher.Config[message]{
		Workers: 64,
		Keys:    func(m message, claim *lockkeys.Claim) error { claim.Exclusive(m.keys...); return nil },
		Handler: func(_ context.Context, m message) error {
			for _, i := range m.leaves {
				if last[i] >= m.number {
					t.Errorf("account %d: %d after %d", i, m.number, last[i])
				}
				last[i] = m.number
			}
			return nil
		},
	})
	require.NoError(t, err)
	var leaf, parent [accounts]lockkeys.Key
	for i := range leaf {
		parent[i] = lockkeys.Must("client", fmt.Sprint(i/4))
		leaf[i], _ = parent[i].Child(fmt.Sprint(i))
	}
	random := rand.New(rand.NewPCG(19, 19))
	for i := range n {
		a, b := random.IntN(accounts), random.IntN(accounts)
		m := message{number: i + 1}
		switch i % 5 {
		case 0:
			m.keys, m.leaves = []lockkeys.Key{leaf[a], leaf[b]}, []int{a, b}
		case 1:
			m.keys, m.leaves = []lockkeys.Key{leaf[b], leaf[a], leaf[b]}, []int{a, b}
		case 2:
			m.keys, m.leaves = []lockkeys.Key{leaf[a], leaf[a]}, []int{a}
		case 3:
			m.keys, m.leaves = []lockkeys.Key{leaf[a], parent[a]}, []int{a/4*4 + 0, a/4*4 + 1, a/4*4 + 2, a/4*4 + 3}
		case 4:
			m.keys, m.leaves = []lockkeys.Key{leaf[a], parent[b]}, []int{b/4*4 + 0, b/4*4 + 1, b/4*4 + 2, b/4*4 + 3}
		}
		if len(m.leaves) == 2 && a == b {
			m.leaves = m.leaves[:1]
		}
		require.NoError(t, d.Submit(ctx, m), "%+v", d.Stats())
	}
	require.NoError(t, d.Drain(ctx), "%+v", d.Stats())
	require.EqualValues(t, n, d.Stats().Succeeded)
	require.NoError(t, d.Close())
}

// TestStartAndStop: a hundred times, with all kinds of things left, and no
// goroutine more than before.
func TestStartAndStop(t *testing.T) {
	before := runtime.NumGoroutine()
	for round := range 100 {
		d, err := dispatcher.New(config{
			Keys: jobKeys, Handler: runJob, Workers: 1 + round%16, MaxAttempts: 3,
			Backoff: dispatcher.Backoff{Initial: time.Hour}, Timeout: time.Hour,
			Failure: dispatcher.Park, Observer: func(event) {},
		})
		require.NoError(t, err)
		for i := range round {
			j := newJob("", nil, fmt.Sprint(i%10))
			switch i % 4 {
			case 1:
				j.run = takes(0, errBoom)
			case 2:
				j.run = takes(0, dispatcher.Permanent(errBoom))
			}
			require.NoError(t, d.TrySubmit(t.Context(), j))
		}
		_, err = d.Shutdown(context.Background())
		require.NoError(t, err)
	}
	for i := 0; runtime.NumGoroutine() > before && i < 1000; i++ {
		time.Sleep(time.Millisecond) // those that end have ended, but may not be gone
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), before)
}

// TestMemoryFollowsWorkInFlight: a million keys, four deep, one message each.
func TestMemoryFollowsWorkInFlight(t *testing.T) {
	n := scale(1_000_000)
	ctx := watchdog(t)
	d, err := dispatcher.New(dispatcher.Config[int]{
		Workers: 4,
		Keys: func(i int, claim *lockkeys.Claim) error {
			k, err := lockkeys.New("region", fmt.Sprint("client-", i%9973), "account", fmt.Sprint(i))
			claim.Exclusive(k)
			return err
		},
		Handler: func(context.Context, int) error { return nil },
	})
	require.NoError(t, err)
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for i := range n {
		require.NoError(t, d.Submit(ctx, i))
	}
	require.NoError(t, d.Drain(ctx))
	after := heap()
	require.NoError(t, d.Do(ctx, 1)) // it is in use still
	if after > before {
		require.Less(t, after-before, uint64(8<<20), "bytes kept for keys that nobody uses")
	}
	require.NoError(t, d.Close())
}

// TestEverythingAtOnce: misbehaving handlers, many producers, an operator, a
// watcher and then a shutdown in the middle of it; every message accepted has
// exactly one result.
func TestEverythingAtOnce(t *testing.T) {
	for round := range 4 {
		everythingAtOnce(t, round)
	}
}

func everythingAtOnce(t *testing.T, round int) {
	ctx := watchdog(t)
	n := scale(200_000)
	var accepted, results atomic.Int64
	var counts [1024]int
	cfg := dispatcher.Config[pair]{
		Keys: pairKeys, Workers: 8, MaxPending: 64, MaxParked: 64, MaxAttempts: 2, Policy: dispatcher.LookAhead(32),
		Backoff: dispatcher.Backoff{Initial: time.Microsecond}, CancelGrace: time.Millisecond, Failure: dispatcher.Park,
	}
	if round%2 == 1 {
		cfg.Observer = func(dispatcher.Event[pair]) {}
	}
	handle := func(ctx context.Context, p pair) error {
		counts[p.a]++
		if p.b != p.a {
			counts[p.b]++
		}
		switch rand.IntN(100) {
		case 0:
			return errBoom
		case 1:
			panic(errBoom)
		case 2:
			runtime.Goexit()
		case 3:
			return dispatcher.Widen(lockkeys.Request{Key: loadKeys[rand.IntN(8)]})
		case 4:
			return dispatcher.Permanent(errBoom)
		case 5:
			_ = dispatcher.Release(ctx, loadKeys[p.a])
		}
		return nil
	}
	if round < 2 {
		cfg.Handler = handle
	} else {
		cfg.MaxBatch = 8
		cfg.BatchHandler = func(ctx context.Context, ps []pair) []error {
			errs := make([]error, len(ps))
			for i, p := range ps {
				if errs[i] = handle(ctx, p); errs[i] != nil {
					copy(errs[i+1:], dispatcher.FailAll(errUntouched, len(ps)))
					break
				}
			}
			return errs
		}
	}
	d, err := dispatcher.New(cfg)
	require.NoError(t, err)
	done := dispatcher.OnDone(func(pair, error) { results.Add(1) })
	stop, quit := context.WithCancel(ctx)
	var all sync.WaitGroup
	for p := range 4 {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(round), uint64(p)))
			for range n / 4 {
				m := pair{int32(random.IntN(8)), int32(random.IntN(8))}
				err := d.Submit(ctx, m, done)
				for errors.Is(err, dispatcher.ErrTooManyParked) {
					runtime.Gosched()
					err = d.Submit(ctx, m, done)
				}
				if err != nil {
					if !errors.Is(err, dispatcher.ErrClosed) {
						t.Errorf("%v: %+v", err, d.Stats())
					}
					return
				}
				accepted.Add(1)
			}
		})
	}
	for range 2 { // operators
		all.Go(func() {
			for stop.Err() == nil {
				for _, p := range d.Parked() {
					_ = []func(context.Context, uint64) error{d.Resume, d.Skip, d.Drop}[rand.IntN(3)](ctx, p.ID)
				}
				runtime.Gosched()
			}
		})
	}
	all.Go(func() {
		for stop.Err() == nil {
			s := d.Stats()
			total := s.Queued + s.Waiting + s.Ready + s.Running + s.Backoff + s.Parked + s.Behind
			if s.Waiting < 0 || s.Behind < 0 || s.Accepted != uint64(total)+s.Succeeded+s.Failed && d.Err() == nil {
				t.Errorf("%d %+v", total, s)
			}
			_ = d.Snapshot()
			time.Sleep(time.Millisecond)
		}
	})
	if round%2 == 0 { // else the shutdown comes in the middle
		for accepted.Load() < int64(n/4*4) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		for ctx.Err() == nil {
			require.NoError(t, d.Drain(ctx), "%+v", d.Stats())
			if s := d.Stats(); s.Accepted == s.Succeeded+s.Failed {
				break
			}
		}
		require.Equal(t, accepted.Load(), results.Load())
	} else {
		for accepted.Load() < int64(n/8) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	limit, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, _ = d.Shutdown(limit)
	quit()
	all.Wait()
	require.ErrorIs(t, d.Drain(ctx), d.Drain(ctx))
	require.NoError(t, d.Close())
	require.Equal(t, accepted.Load(), results.Load())
}
