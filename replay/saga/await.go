package saga

import (
	"context"
	"slices"
)

// Await waits until a run has ended, by this coordinator, and returns the status with
// which it did. A run that is parked has not ended. The error wraps [ErrNoRun], or is that
// of ctx, of the database, or of [Coordinator.Err].
func (c *Coordinator) Await(ctx context.Context, id string) (Status, error) {
	end := c.expect(id)
	defer c.forget(id, end)
	r, err := c.read(ctx, id) // an end that came before is seen here, and a later one told
	if err != nil {
		return 0, err
	}
	if r.rec.Status.Ended() {
		return r.rec.Status, nil
	}
	select {
	case status := <-end:
		return status, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-c.open.Done():
		return 0, c.Err()
	}
}

// expect returns a channel that gets the status of a run when it ends.
func (c *Coordinator) expect(id string) chan Status {
	end := make(chan Status, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.awaited[id] = append(c.mu.awaited[id], end)
	return end
}

func (c *Coordinator) forget(id string, end chan Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rest := slices.DeleteFunc(c.mu.awaited[id], func(other chan Status) bool { return other == end })
	if c.mu.awaited[id] = rest; len(rest) == 0 {
		delete(c.mu.awaited, id)
	}
}

// tellEnd tells those who await a run that it has ended. The caller has c.mu.
func (c *Coordinator) tellEnd(id string, status Status) {
	for _, end := range c.mu.awaited[id] {
		end <- status
	}
	delete(c.mu.awaited, id)
}
