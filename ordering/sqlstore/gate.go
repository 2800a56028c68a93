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

// enter tells whether the caller may go on, and then has to leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.mu.closed {
		g.inside.Add(1)
	}
	return !g.mu.closed
}

func (g *gate) leave() { g.inside.Done() }

// close lets nobody in any more and waits until all have left. It tells
// whether it was the first to do so.
func (g *gate) close() (first bool) {
	g.mu.Lock()
	first = !g.mu.closed
	g.mu.closed = true
	g.mu.Unlock()
	g.inside.Wait()
	return first
}
