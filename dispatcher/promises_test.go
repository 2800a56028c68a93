package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// The promises of the package documentation, one test each. TestModel checks
// the first ones again, in random runs.

// traffic submits n random jobs that do what act says, records who held what,
// and checks all pairs when they have ended.
func traffic(t *testing.T, cfg config, n int, act func(ctx context.Context, attempt int) error) {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	h, claims := newHistory(), make(map[uint64]*lockkeys.Claim)
	d := start(t, cfg)
	for i := range n {
		id := uint64(i + 1)
		var keys []string
		for range 1 + random.IntN(3) {
			keys = append(keys, planKeys[random.IntN(len(planKeys))])
		}
		j := newJob(fmt.Sprint("m", id), nil, keys...)
		claims[id] = lockkeys.NewClaim(j.keys...)
		j.run = func(ctx context.Context) error {
			info, _ := dispatcher.InfoFrom(ctx)
			h.begin(id, 0, j.keys)
			defer h.end(id)
			return act(ctx, info.Attempt)
		}
		submit(t, d, j)
	}
	drain(t, d)
	require.NoError(t, h.check(claims))
	require.Len(t, h.open, 0)
}

// misbehave does all that can go wrong in a handler, by turns.
func misbehave() func(ctx context.Context, attempt int) error {
	var mu sync.Mutex
	turn := 0
	return func(ctx context.Context, attempt int) error {
		mu.Lock()
		turn++
		how := turn % 8
		mu.Unlock()
		time.Sleep(time.Duration(how%3) * time.Millisecond)
		switch {
		case how == 0:
			panic("boom")
		case how == 1:
			runtime.Goexit()
		case how == 2:
			<-ctx.Done() // the time limit
			time.Sleep(5 * time.Millisecond)
			return ctx.Err()
		case how == 3 && attempt < 3:
			return errBoom
		case how == 4:
			return dispatcher.Permanent(errBoom)
		}
		return nil
	}
}

// TestExclusive: two handlers whose keys conflict never overlap, whatever
// fails, retries or times out.
func TestExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic(t, config{Workers: 8, MaxAttempts: 3, Timeout: 10 * time.Millisecond}, 300, misbehave())
	})
}

// TestOrdered: conflicting messages run in arrival order, under every policy,
// and a retry runs before anything that waited for it.
func TestOrdered(t *testing.T) {
	for _, policy := range []dispatcher.Policy{dispatcher.HeadOnly(), dispatcher.LookAhead(1), dispatcher.LookAhead(4096)} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				traffic(t, config{Workers: 8, MaxAttempts: 3, Policy: policy}, 300, func(_ context.Context, attempt int) error {
					time.Sleep(time.Duration(attempt) * time.Millisecond)
					if attempt < 3 {
						return errBoom
					}
					return nil
				})
			})
		})
	}
}

// TestParallel: while a worker is idle nothing in the window could start, and
// unrelated keys never delay each other: 1,000 messages of 1,000 keys and as
// many workers take as long as one.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1000, Policy: dispatcher.HeadOnly()})
		begun := time.Now()
		for i := range 1000 {
			submit(t, d, newJob("", takes(time.Second, nil), fmt.Sprintf("client/%d", i)))
		}
		drain(t, d)
		require.Equal(t, time.Second, time.Since(begun))
	})
	// 99 messages of one key in front do not keep the others from the workers.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 2, Policy: dispatcher.LookAhead(99)})
		begun := time.Now()
		for range 100 {
			submit(t, d, newJob("slow", takes(time.Second, nil), "k"))
		}
		for i := range 100 {
			submit(t, d, newJob("fast", takes(time.Second, nil), fmt.Sprint("other", i)))
		}
		drain(t, d)
		require.Equal(t, 100*time.Second, time.Since(begun))
	})
}

// TestDeadlockFree: all keys in one step or none, so that requests that
// mirror each other, cover each other or repeat cannot meet half-way. The
// bubble itself would notice a deadlock.
func TestDeadlockFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 16})
		random := rand.New(rand.NewPCG(2, 2))
		for range 2000 {
			a, b := fmt.Sprint("a", random.IntN(4)), fmt.Sprint("b", random.IntN(4))
			pairs := [][]string{{a, b}, {b, a}, {a, a}, {a, a + "/x"}, {b + "/x", a}, {b, a + "/x", "~a0"}, {"~" + a, b, "/"}}
			submit(t, d, newJob("", takes(time.Duration(random.IntN(3))*time.Millisecond, nil), pairs[random.IntN(len(pairs))]...))
		}
		drain(t, d)
		require.EqualValues(t, 2000, d.Stats().Succeeded)
	})
	// Handlers that widen towards each other.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 8})
		for i := range 200 {
			own, other := fmt.Sprint("k", i%4), fmt.Sprint("k", (i+1+i%3)%4)
			tries := 0
			submit(t, d, newJob("", func(context.Context) error {
				time.Sleep(time.Millisecond)
				if tries++; tries == 1 {
					return dispatcher.Widen(requests(other)...)
				}
				return nil
			}, own))
		}
		drain(t, d)
		require.EqualValues(t, 200, d.Stats().Succeeded)
	})
}

// TestLive: every accepted message runs, fails by its policy or is named in
// the list of parked ones, and nobody waits for more than the conflicting work
// that came before it.
func TestLive(t *testing.T) {
	// One message for the whole client in a stream of messages for its
	// accounts: it starts when those before it have ended.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4})
		begun := time.Now()
		stop := make(chan struct{})
		var started time.Duration
		go func() {
			defer close(stop)
			for i := range 1000 {
				submit(t, d, newJob("", takes(10*time.Millisecond, nil), fmt.Sprintf("c/42/a/%d", i%8)))
				if i == 100 {
					submit(t, d, newJob("client", func(context.Context) error {
						started = time.Since(begun)
						return nil
					}, "c/42"))
				}
				time.Sleep(3 * time.Millisecond)
			}
		}()
		<-stop
		drain(t, d)
		// The last of those before it was submitted after 300 ms and takes 10.
		require.Equal(t, 310*time.Millisecond, started)
	})
	// Each of three fates.
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{FailureFor: func(j *job, _ error) dispatcher.FailurePolicy {
			if j.name == "parks" {
				return dispatcher.Park
			}
			return dispatcher.DeadLetter
		}})
		results := make(map[string]error)
		var mu sync.Mutex
		done := dispatcher.OnDone(func(j *job, err error) {
			mu.Lock()
			defer mu.Unlock()
			results[j.name] = err
		})
		for _, name := range []string{"runs", "fails", "parks", "waits"} {
			var err error
			if name == "fails" || name == "parks" {
				err = errBoom
			}
			require.NoError(t, d.Submit(t.Context(), newJob(name, takes(0, err), "k"), done))
		}
		drain(t, d)
		require.Len(t, results, 2)
		require.NoError(t, results["runs"])
		require.ErrorIs(t, results["fails"], errBoom)
		require.Len(t, d.Parked(), 1)
		require.Equal(t, "parks", d.Parked()[0].Message.name)
		require.Equal(t, 1, d.Parked()[0].Behind)
	})
}

// TestBounded: a full queue pushes back, by count and by bytes.
func TestBounded(t *testing.T) {
	for name, cfg := range map[string]config{
		"count": {MaxPending: 10},
		"bytes": {MaxPendingBytes: 100, Size: func(*job) int64 { return 10 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg.Workers = 2
				d := start(t, cfg)
				for range 10 {
					require.NoError(t, d.TrySubmit(t.Context(), newJob("", takes(time.Second, nil), "k")))
				}
				require.ErrorIs(t, d.TrySubmit(t.Context(), newJob("", nil)), dispatcher.ErrFull)
				begun := time.Now()
				for i := range 10 { // one second for each that ends
					submit(t, d, newJob("", takes(time.Second, nil), "k"))
					require.Equal(t, time.Duration(i+1)*time.Second, time.Since(begun))
				}
				s := d.Stats()
				require.Equal(t, 10, s.Queued+s.Waiting+s.Running+s.Ready)
				drain(t, d)
			})
		})
	}
}

// TestExplained: at any moment one can ask who holds what, who waits for whom,
// since when, and what is parked.
func TestExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 3, Failure: dispatcher.Park, Observer: func(event) {}})
		begun := time.Now()
		submit(t, d, newJob("bad", takes(time.Second, errBoom), "a", "~b"))
		submit(t, d, newJob("behind", nil, "b"))
		time.Sleep(2 * time.Second)
		submit(t, d, newJob("runs", takes(time.Minute, nil), "c/1"))
		submit(t, d, newJob("waits", nil, "c"))
		synctest.Wait()

		s := d.Snapshot()
		require.Len(t, s.Messages, 4)
		bad, behind, runs, waits := s.Messages[0], s.Messages[1], s.Messages[2], s.Messages[3]

		require.Equal(t, dispatcher.StateParked, bad.State)
		require.Equal(t, requests("a", "~b"), bad.Claim)
		require.Equal(t, begun.Add(time.Second), bad.Since)
		require.Equal(t, 1, bad.Attempts)
		require.ErrorIs(t, bad.Err, errBoom)
		require.Equal(t, -1, bad.Worker)

		require.Equal(t, dispatcher.StateWaiting, behind.State)
		require.Equal(t, bad.ID, behind.Blocker)
		require.Equal(t, requests("~b")[0], behind.BlockedBy)
		require.True(t, behind.Stalled)
		require.Equal(t, begun, behind.Since)

		require.Equal(t, dispatcher.StateRunning, runs.State)
		require.GreaterOrEqual(t, runs.Worker, 0)
		require.Equal(t, begun.Add(2*time.Second), runs.Since)

		require.Equal(t, dispatcher.StateWaiting, waits.State)
		require.Equal(t, runs.ID, waits.Blocker)
		require.False(t, waits.Stalled)

		parked := d.Parked()
		require.Len(t, parked, 1)
		require.Equal(t, bad.ID, parked[0].ID)
		require.Equal(t, begun.Add(time.Second), parked[0].Since)
		var failed *dispatcher.HandlerError
		require.True(t, errors.As(parked[0].Err, &failed))
		require.Equal(t, 1, parked[0].Behind)

		require.Equal(t, dispatcher.Stats{Accepted: 4, Started: 2, Running: 1, Waiting: 1, Parked: 1, Behind: 1}, d.Stats())
		require.NoError(t, d.Drop(t.Context(), bad.ID))
		drain(t, d)
	})
}

// TestPaper: the example of the paper in every interleaving drawn, with the
// order kept and x and y side by side.
func TestPaper(t *testing.T) {
	keys := map[string][]string{
		"x1": {"X"}, "x2": {"X"}, "x5": {"X"}, "x3": {"X/2"}, "x4": {"X/3", "X/2"},
		"y1": {"Y"}, "y2": {"Y/2"}, "y3": {"Y/2"}, "y4": {"Y/3"}, "xy": {"X", "Y"},
	}
	names := []string{"x1", "y1", "x2", "x3", "y2", "y3", "x4", "xy", "x5", "y4"}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		if seed > 0 {
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		policy := []dispatcher.Policy{dispatcher.HeadOnly(), dispatcher.LookAhead(3), {}}[seed%3]
		synctest.Test(t, func(t *testing.T) {
			h, claims := newHistory(), make(map[uint64]*lockkeys.Claim)
			d := start(t, config{Workers: 4, Policy: policy})
			for i, name := range names {
				id, takes := uint64(i+1), time.Duration(1+random.IntN(5))*time.Millisecond
				j := newJob(name, nil, keys[name]...)
				claims[id] = lockkeys.NewClaim(j.keys...)
				j.run = func(context.Context) error {
					h.begin(id, 0, j.keys)
					defer h.end(id)
					time.Sleep(takes)
					return nil
				}
				submit(t, d, j)
			}
			drain(t, d)
			require.NoError(t, h.check(claims), "%v", names)
		})
	}
}
