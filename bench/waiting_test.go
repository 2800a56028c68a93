package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/bench/internal/measure"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// BenchmarkWaiting is the cost of a message while many wait for each other. It should not
// depend on how many do, so as many messages wait in small groups and all in one: the
// memory in use is the same, and what differs is only the pattern. With more messages
// than the window has room for, it should not depend on the window.
func BenchmarkWaiting(b *testing.B) {
	const total = 1 << 16
	for _, pattern := range []struct {
		name  string
		claim func(owner lockkeys.Key, i, size int) lockkeys.Key // of the i-th message of a group
	}{
		{"one-key", func(owner lockkeys.Key, _, _ int) lockkeys.Key { return child(owner, 0) }},
		{"children-and-owner", func(owner lockkeys.Key, i, size int) lockkeys.Key {
			if i == size-1 {
				return owner
			}
			return child(owner, i)
		}},
		{"child-and-owner-in-turn", func(owner lockkeys.Key, i, _ int) lockkeys.Key {
			if i%2 == 0 {
				return owner
			}
			return child(owner, i)
		}},
	} {
		b.Run("pattern="+pattern.name, func(b *testing.B) {
			var race measure.Race
			for _, group := range []int{16, total} {
				keys := make([]lockkeys.Key, total)
				for i := range keys {
					keys[i] = pattern.claim(lockkeys.Must("client", strconv.Itoa(i/group)), i%group, group)
				}
				race.Run(b, fmt.Sprint("groups-of-", group), func(b *testing.B) { behindGate(b, total, keys) })
			}
		})
	}
	b.Run("pattern=any-of-1000-keys", func(b *testing.B) {
		keys := make([]lockkeys.Key, 2*total)
		for i := range keys {
			keys[i] = lockkeys.Must(segments(i * 7919 % 1000)...)
		}
		var race measure.Race
		for _, window := range []int{16, 4096, total} {
			race.Run(b, fmt.Sprint("window-of-", window), func(b *testing.B) { behindGate(b, window, keys) })
		}
	})
}

func child(owner lockkeys.Key, i int) lockkeys.Key {
	k, err := owner.Child(strconv.Itoa(i))
	must(err)
	return k
}

// behindGate submits messages for the keys again and again, as many in all as there are
// iterations, each time behind one that holds a key above all of theirs until the last
// one is there.
func behindGate(b *testing.B, window int, keys []lockkeys.Key) {
	type gated struct {
		key lockkeys.Key
		end chan struct{}
	}
	var done sync.WaitGroup
	d, err := dispatcher.New(dispatcher.Config[gated]{
		Keys: func(m gated, claim *lockkeys.Claim) error {
			claim.Exclusive(m.key)
			return nil
		},
		Handler: func(_ context.Context, m gated) error {
			if m.end != nil {
				<-m.end
			}
			done.Done()
			return nil
		},
		Policy:     dispatcher.LookAhead(window),
		MaxPending: len(keys) + 1,
	})
	must(err)
	pass := func(keys []lockkeys.Key) {
		gate := gated{lockkeys.Must("client"), make(chan struct{})}
		done.Add(len(keys) + 1)
		must(d.Submit(context.Background(), gate))
		for _, k := range keys {
			must(d.Submit(context.Background(), gated{key: k}))
		}
		close(gate.end)
		done.Wait()
	}
	pass(keys) // warms up
	b.ResetTimer()
	for left := b.N; left > 0; left -= len(keys) {
		pass(keys[:min(left, len(keys))])
	}
	b.StopTimer()
	must(d.Close())
}
