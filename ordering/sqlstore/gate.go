package sqlstore

import "sync"

// gate lets callers in until it is closed.
type gate struct {
	mu struct {
		sync.Mutex
		closed bool
	}
	inside sync.WaitGroup // grows under mu, while it is open
}

// enter reports whether the gate is open; if it is, the caller must leave it later.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed {
		g.inside.Add(1)
	}
	return !g.mu.closed
}

func (g *gate) leave() { g.inside.Done() }

// close closes the gate and waits until all callers have left. It reports
// whether it was the first call.
func (g *gate) close() (first bool) {
	g.mu.Lock()
	first = !g.mu.closed
	g.mu.closed = true
	g.mu.Unlock()
	g.inside.Wait()
	return first
}
