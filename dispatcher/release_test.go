package dispatcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func key(text string) lockkeys.Key { return lockkeys.MustParse(text) }

func TestReleaseErrors(t *testing.T) {
	require.ErrorIs(t, dispatcher.Release(t.Context(), key("a")), dispatcher.ErrNoHandler)
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 1})
		var kept context.Context
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			kept = ctx
			require.NoError(t, dispatcher.Release(ctx))
			// Nothing is given back if one is not there.
			require.ErrorIs(t, dispatcher.Release(ctx, key("a"), key("z")), dispatcher.ErrNotHeld)
			require.ErrorIs(t, dispatcher.Release(ctx, key("/")), dispatcher.ErrNotHeld)
			require.ErrorIs(t, dispatcher.Release(ctx, key("a/b")), dispatcher.ErrNotHeld, "covered by a")
			require.Equal(t, requests("a", "b"), d.Snapshot().Messages[0].Claim)
			derived := context.WithValue(ctx, errBoom, 1)
			require.NoError(t, dispatcher.Release(derived, key("a"), key("a")))
			require.ErrorIs(t, dispatcher.Release(ctx, key("a")), dispatcher.ErrNotHeld)
			require.Equal(t, requests("b"), d.Snapshot().Messages[0].Claim)
			require.NoError(t, dispatcher.Release(ctx, key("b")))
			require.Empty(t, d.Snapshot().Messages[0].Claim)
			return nil
		}, "a", "a/b", "b")))
		require.ErrorIs(t, dispatcher.Release(kept, key("a")), dispatcher.ErrNoHandler, "it runs no more")
		// Nor may it touch the message that the worker runs now.
		require.NoError(t, d.Do(t.Context(), newJob("", func(context.Context) error {
			require.ErrorIs(t, dispatcher.Release(kept, key("a")), dispatcher.ErrNoHandler)
			return nil
		}, "a")))
	})
}

// TestStrictLocking: no key of a message is given back before it has ended, nor is
// it held, and being refused changes nothing.
func TestStrictLocking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{StrictLocking: true, MaxAttempts: 2})
		ended, tries := false, 0
		first := newJob("", func(ctx context.Context) error {
			for _, keys := range [][]lockkeys.Key{{key("a")}, {key("s")}, {key("a"), key("s")}, {key("not held")}, {}} {
				err := dispatcher.Release(context.WithValue(ctx, errBoom, 1), keys...)
				require.ErrorIs(t, err, dispatcher.ErrStrictLocking)
				require.NotErrorIs(t, err, dispatcher.ErrNotHeld)
			}
			_, err := dispatcher.Hold(ctx)
			require.ErrorIs(t, err, dispatcher.ErrStrictLocking)
			require.Equal(t, requests("a", "~s"), d.Snapshot().Messages[0].Claim)
			time.Sleep(time.Second)
			if tries++; tries == 1 {
				return errBoom
			}
			ended = true
			return nil
		}, "a", "~s")
		behind := func(context.Context) error { require.True(t, ended); return nil }
		submit(t, d, first, newJob("", behind, "a"), newJob("", behind, "s"), newJob("", behind, "~a/b"))
		drain(t, d)
		require.ErrorIs(t, dispatcher.Release(t.Context(), key("a")), dispatcher.ErrNoHandler)
	})
}

// TestReleaseOfAnEarlierAttempt: a goroutine left over from the first attempt
// must not give back what the second one holds.
func TestReleaseOfAnEarlierAttempt(t *testing.T) {
	for name, ends := range map[string]error{"retried": errBoom, "widened": dispatcher.Widen(requests("b")...)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := start(t, config{Workers: 1, MaxAttempts: 2})
				var left error
				tries := 0
				require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
					if tries++; tries == 1 {
						go func() {
							time.Sleep(time.Second)
							left = dispatcher.Release(ctx, key("a"))
						}()
						_, _ = dispatcher.InfoFrom(ctx)
						return ends
					}
					time.Sleep(time.Minute)
					return nil
				}, "a")))
				synctest.Wait()
				require.ErrorIs(t, left, dispatcher.ErrNoHandler)
			})
		})
	}
}

// TestReleaseLetsOthersGo: in all mixtures of shared and exclusive keys, what
// conflicts with the rest waits on, and what does not goes.
func TestReleaseLetsOthersGo(t *testing.T) {
	universe := []string{"a", "a/b", "a/b/c", "a/d", "b", "~a", "~a/b", "~a/b/c", "~a/d", "~b"}
	for i, first := range universe {
		for _, second := range universe[i:] {
			t.Run(first+" "+second, func(t *testing.T) {
				claim := lockkeys.NewClaim(requests(first, second)...).Requests()
				for _, given := range claim {
					synctest.Test(t, func(t *testing.T) { releaseOne(t, claim, given, universe) })
				}
			})
		}
	}
}

func releaseOne(t *testing.T, claim []lockkeys.Request, given lockkeys.Request, universe []string) {
	d := start(t, config{Workers: 50})
	rest := new(lockkeys.Claim)
	for _, r := range claim {
		if r != given {
			rest.Add(r)
		}
	}
	submit(t, d, &job{keys: claim, run: func(ctx context.Context) error {
		time.Sleep(time.Second)
		require.NoError(t, dispatcher.Release(ctx, given.Key))
		time.Sleep(time.Second)
		return nil
	}})
	synctest.Wait()
	// All of these wait for the first or for each other, in order.
	var all []*lockkeys.Claim
	for _, k := range universe {
		all = append(all, lockkeys.NewClaim(requests(k)...))
		submit(t, d, newJob(k, takes(time.Minute, nil), k))
	}
	time.Sleep(1500 * time.Millisecond)
	synctest.Wait()
	running := make(map[uint64]bool)
	for _, m := range d.Snapshot().Messages {
		running[m.ID] = m.State == dispatcher.StateRunning
	}
	for i, c := range all {
		free := !c.Conflicts(rest)
		for _, earlier := range all[:i] {
			free = free && !c.Conflicts(earlier)
		}
		require.Equal(t, free, running[uint64(i+2)], "%s after %v gave back %v", universe[i], claim, given)
	}
	drain(t, d)
}

// TestRetryTakesKeysAnew: in the message's place in the order.
func TestRetryTakesKeysAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 3, MaxAttempts: 2, Failure: dispatcher.Park, Backoff: dispatcher.Backoff{Initial: time.Second, Jitter: -1}})
		var order []string
		log := func(name string, d time.Duration) *job {
			return newJob(name, func(context.Context) error {
				order = append(order, name)
				time.Sleep(d)
				return nil
			}, "a")
		}
		mended := false
		submit(t, d, newJob("gives back", func(ctx context.Context) error {
			if mended {
				order = append(order, "gives back")
				require.Equal(t, requests("a", "b"), d.Snapshot().Messages[0].Claim)
				return nil
			}
			require.NoError(t, dispatcher.Release(ctx, key("a")))
			return errBoom
		}, "a", "b"))
		synctest.Wait()
		submit(t, d, log("1", 5*time.Second), log("2", 0), log("3", 0))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		// It waits for "1", which runs, and "2" and "3" for it.
		m := d.Snapshot().Messages
		require.Equal(t, dispatcher.StateWaiting, m[0].State)
		require.EqualValues(t, 2, m[0].Blocker)
		require.EqualValues(t, 1, m[2].Blocker)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"1", "2", "3"}, order, "parked, it has what it has not given back")
		require.Equal(t, requests("b"), d.Parked()[0].Claim)
		mended = true
		submit(t, d, log("4", time.Second), log("5", 0))
		synctest.Wait()
		require.NoError(t, d.Resume(t.Context(), 1))
		drain(t, d)
		require.Equal(t, []string{"1", "2", "3", "4", "gives back", "5"}, order)
	})
}

func TestWiden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 4, MaxAttempts: 1})
		// Step by step down a path of references.
		var seen [][]lockkeys.Request
		require.NoError(t, d.Do(t.Context(), newJob("", func(ctx context.Context) error {
			info, _ := dispatcher.InfoFrom(ctx)
			require.Equal(t, 1, info.Attempt, "it is not counted as an attempt")
			seen = append(seen, d.Snapshot().Messages[0].Claim)
			switch len(seen) {
			case 1:
				return fmt.Errorf("looking: %w", dispatcher.Widen(requests("b/x")...))
			case 2:
				return dispatcher.Widen(requests("b")...)
			case 3:
				return dispatcher.Widen(requests("/")...)
			}
			return nil
		}, "~a")))
		require.Equal(t, [][]lockkeys.Request{requests("~a"), requests("~a", "b/x"), requests("~a", "b"), requests("/")}, seen)

		// What it has, it cannot ask for: that would go on for ever.
		for _, more := range [][]string{{"a"}, {"a/b"}, {"~a"}, {}} {
			err := d.Do(t.Context(), newJob("", takes(0, dispatcher.Widen(requests(more...)...)), "a"))
			require.ErrorContains(t, err, "keys that its message already has")
			require.True(t, dispatcher.IsPermanent(err))
		}
		// A stronger mode is more.
		tries := 0
		require.NoError(t, d.Do(t.Context(), newJob("", func(context.Context) error {
			if tries++; tries == 1 {
				return dispatcher.Widen(requests("a")...)
			}
			return nil
		}, "~a")))
		require.Equal(t, 2, tries)
	})
}

// TestWidenKeepsTheOrder: while others wait, in front of it and behind.
func TestWidenKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 8})
		var mu sync.Mutex
		var order []string
		log := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
		}
		run := func(name string, d time.Duration, keys ...string) *job {
			return newJob(name, func(context.Context) error {
				log(name)
				time.Sleep(d)
				return nil
			}, keys...)
		}
		submit(t, d, run("b1", 3*time.Second, "b"), run("b2", time.Second, "b"))
		tries := 0
		submit(t, d, newJob("wide", func(context.Context) error {
			if tries++; tries == 1 {
				time.Sleep(time.Second)
				return dispatcher.Widen(requests("b", "c")...)
			}
			log("wide")
			return nil
		}, "a"))
		submit(t, d, run("a2", time.Second, "a"), run("b3", time.Second, "b"), run("c1", 5*time.Second, "c"), run("c2", 0, "c/x"))
		drain(t, d)
		// c1 runs already when it asks for c; a2, b3 and c2 come after it.
		require.ElementsMatch(t, []string{"b1", "c1"}, order[:2])
		require.Equal(t, []string{"b2", "wide"}, order[2:4])
		require.ElementsMatch(t, []string{"a2", "b3", "c2"}, order[4:])
	})
}

// TestWidenInAllDirections: any number of messages that widen towards each
// other, with each other's keys, end, the earliest first.
func TestWidenInAllDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Workers: 10})
		var order []int
		for i := range 10 {
			tries := 0
			submit(t, d, newJob("", func(context.Context) error {
				if tries++; tries == 1 {
					time.Sleep(time.Duration(10-i) * time.Second) // the last first
					return dispatcher.Widen(requests("/")...)
				}
				order = append(order, i)
				return nil
			}, fmt.Sprint(i)))
		}
		drain(t, d)
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, order)
	})
}
