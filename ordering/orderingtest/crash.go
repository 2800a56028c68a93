package orderingtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/ordering"
)

// Point is when the process ends, in relation to a commit.
type Point uint8

const (
	// Before: the commit comes too late, and the store refuses it. The handler has
	// run: what it did outside its transaction is done.
	Before Point = iota + 1
	// During: the commit is durable, and its answer never comes.
	During
	// After: the commit is durable, and its event is not acknowledged.
	After
)

// String returns "before", "during" or "after".
func (p Point) String() string {
	names := [...]string{"", "before", "during", "after"}
	if p > 0 && int(p) < len(names) {
		return names[p]
	}
	return fmt.Sprintf("Point(%d)", uint8(p))
}

// ErrCrashed is what a sequencer sees of a crash, where it is not refused by the
// store: a sequencer stops at it. It wraps [ordering.ErrFenced].
var ErrCrashed = fmt.Errorf("orderingtest: the process has ended: %w", ordering.ErrFenced)

// EachCrash calls test without a crash, and then with a crash before, during and after
// the first commit, the second, and so on, as many as there were without one: of a
// handler, a chain of them, a parking, or a record of what was given up. Each is a
// subtest; after one that fails there are no more.
//
// The test must begin anew each time, with an empty store or with another
// Config.Consumer.
func EachCrash(t *testing.T, test func(t *testing.T, crash *Crash)) {
	t.Helper()
	none := &Crash{}
	if !t.Run("no crash", func(t *testing.T) { test(t, none) }) {
		return
	}
	for _, point := range []Point{Before, During, After} {
		for commit := 1; commit <= none.commits; commit++ {
			crash := &Crash{Point: point, Commit: commit}
			if !t.Run(fmt.Sprintf("%v commit %d", point, commit), func(t *testing.T) { test(t, crash) }) {
				return
			}
		}
	}
}

// Crash is the moment of a crash, for [Deliver]. The zero Crash never comes.
type Crash struct {
	Point  Point
	Commit int // from 1

	fence func() // ends the use of the store

	mu       sync.Mutex
	commits  int             // begun so far
	armed    *ordering.Event // the commit for this one is the moment
	fenced   bool            // the crash has come, and the next term has begun
	broken   error           // of a store that does not heed that
	happened chan struct{}   // of a sequencer: closed by the crash
}

// over reports whether the process has ended.
func (c *Crash) over() bool {
	select {
	case <-c.happened:
		return true
	default:
		return false
	}
}

// restart is called when a sequencer has ended. The error is that of the store.
func (c *Crash) restart() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fenced, c.armed = false, nil
	return c.broken
}

// next counts a commit, and returns the point at which the process ends, or 0.
func (c *Crash) next() Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commits++; c.commits == c.Commit && c.Point != 0 {
		return c.Point
	}
	return 0
}

// end ends the process.
func (c *Crash) end() {
	close(c.happened)
	c.fence()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fenced = true
}

// isFenced reports whether the store is to refuse all from now on.
func (c *Crash) isFenced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fenced
}

// late is called after a commit that the store had to refuse.
func (c *Crash) late(e *ordering.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = fmt.Errorf("the store has committed event %s in a term that was over", e.Name())
}

// around makes a commit, or what comes with it.
func (c *Crash) around(commit func() error) error {
	point := c.next()
	if point == Before {
		c.end()
	}
	return c.committed(point, commit())
}

// committed is called with the result of a commit.
func (c *Crash) committed(point Point, err error) error {
	if err != nil || point != During && point != After {
		return err
	}
	c.end()
	if point == During {
		return ErrCrashed
	}
	return nil
}

// arm has the process end at the commit for an event.
func (c *Crash) arm(e *ordering.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = e
}

// isArmed reports whether the process is to end at the commit for an event.
func (c *Crash) isArmed(e *ordering.Event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed == nil || c.armed != e {
		return false
	}
	c.armed = nil
	return true
}

// crashing returns a configuration whose sequencer crashes.
func crashing[T any](c *Crash, cfg ordering.Config[T]) ordering.Config[T] {
	cfg.Store = &store{Store: cfg.Store, crash: c}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Handler == nil {
		return cfg // which New refuses
	}
	handler := cfg.Handler
	cfg.Handler = func(ctx context.Context, job ordering.Job[T]) error {
		switch {
		case c.over():
			return ErrCrashed
		case ctx.Value(chainKey{}) != nil: // the commit is that of the chain
			return handler(ctx, job)
		}
		point := c.next()
		if point == Before {
			c.end()
		}
		late := c.isFenced()
		err := handler(ctx, job)
		if late && err == nil && job.IsCommitted() {
			c.late(job.Event)
		}
		if err == nil && !job.IsCommitted() && point != Before && point != 0 {
			c.arm(job.Event)
			return nil
		}
		return c.committed(point, err)
	}
	if together := cfg.Together; together != nil {
		cfg.Together = func(ctx context.Context, run func(context.Context) error) error {
			if c.over() {
				return ErrCrashed
			}
			return c.around(func() error {
				return together(ctx, func(ctx context.Context) error { return run(context.WithValue(ctx, chainKey{}, true)) })
			})
		}
	}
	return cfg
}

type chainKey struct{}

// store is a store whose terms crash.
type store struct {
	ordering.Store
	crash *Crash
	solo  ordering.Solo
}

// Begin begins a term that crashes.
func (s *store) Begin(ctx context.Context, c ordering.Consumer) (ordering.Term, error) {
	t, err := s.Store.Begin(ctx, c)
	if err != nil {
		return nil, err
	}
	return term{t, s.crash}, nil
}

// MaxHandlers is that of the store.
func (s *store) MaxHandlers() int {
	if inner, ok := s.Store.(interface{ MaxHandlers() int }); ok {
		return inner.MaxHandlers()
	}
	return 0
}

// Solo is that of the store.
func (s *store) Solo() *ordering.Solo {
	if inner, ok := s.Store.(interface{ Solo() *ordering.Solo }); ok {
		return inner.Solo()
	}
	return &s.solo
}

// term is a term in which the process may end.
type term struct {
	ordering.Term
	crash *Crash
}

// Commit makes the commit of a handler that has counted it, or one of its own.
func (t term) Commit(ctx context.Context, r ordering.Record) error {
	commit := func() error {
		late := t.crash.isFenced()
		err := t.Term.Commit(ctx, r)
		if late && err == nil {
			t.crash.late(r.Event)
		}
		return err
	}
	switch {
	case t.crash.isArmed(r.Event):
		return t.crash.committed(t.crash.Point, commit())
	case r.Status == ordering.StatusApplied:
		return commit()
	}
	return t.crash.around(commit)
}

// Park closes streams in a commit of its own.
func (t term) Park(ctx context.Context, parkings []ordering.Parking, fences ordering.Fences) error {
	return t.crash.around(func() error { return t.Term.Park(ctx, parkings, fences) })
}
