package main

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/orders/internal/wire"
)

// gate is a method of a service that answers nobody until it is opened.
type gate struct {
	opened chan struct{}

	mu   sync.Mutex
	came map[string]time.Time // when a key came first, since the last look; guarded by mu
	held int                  // calls that wait; likewise
}

func newGate() *gate { return &gate{opened: make(chan struct{}), came: map[string]time.Time{}} }

// before puts the gate before a method of a service.
func (g *gate) before(s wire.Service, method string) wire.Service {
	gated := maps.Clone(s)
	gated[method] = func(ctx context.Context, key string, body []byte) ([]byte, error) {
		g.count(key, 1)
		defer g.count(key, -1)
		select {
		case <-g.opened:
			return s[method](ctx, key, body)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return gated
}

func (g *gate) count(key string, by int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.came[key]; by > 0 && !known {
		g.came[key] = time.Now()
	}
	g.held += by
}

// look returns how many keys have come, when the last one did, and how many calls wait.
func (g *gate) look() (keys int, last time.Time, held int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.came {
		if at.After(last) {
			last = at
		}
	}
	return len(g.came), last, g.held
}

// await waits until a number of keys have come, and returns when the last one did.
func (g *gate) await(t *testing.T, keys int) (last time.Time) {
	t.Helper()
	require.Eventually(t, func() bool {
		var n int
		n, last, _ = g.look()
		return n >= keys
	}, waitAtMost, tick)
	return last
}

// forget waits until nobody waits any more, and forgets who has come.
func (g *gate) forget(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { _, _, held := g.look(); return held == 0 }, waitAtMost, tick)
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.came)
}

func (g *gate) open() { close(g.opened) }
