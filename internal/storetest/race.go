package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// inParallel runs the calls side by side and returns the first error.
func inParallel(n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(8)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}

var raceTests = []test{
	{promise: "commits of one stream, of two and of others", run: func(f *fixture) {
		const each = 40
		f.acquire("a", "b", "c")
		f.ok(inParallel(3*each, func(i int) error {
			n := i/3 + 1
			switch i % 3 {
			case 0:
				return f.try(event("", fmt.Sprintf("a=%d, b=%d", n, 2*n)))
			case 1:
				return f.try(event("", fmt.Sprintf("b=%d", 2*n-1)))
			default:
				return f.try(event("", fmt.Sprintf("c=%d", n)))
			}
		}))
		require.Equal(f, []state{{Last: each}, {Last: 2 * each}, {Last: each}}, f.states("a", "b", "c"))
	}},
	{promise: "streams in opposite orders", run: func(f *fixture) {
		const each = 40
		f.acquire("a", "b")
		f.ok(inParallel(2*each, func(i int) error {
			if i%2 == 0 {
				return f.try(event("", fmt.Sprintf("a=%d, b=%d", i+1, i+1)))
			}
			return f.try(event("", fmt.Sprintf("b=%d, a=%d", i+1, i+1)))
		}))
		require.Equal(f, []state{{Last: 2 * each}, {Last: 2 * each}}, f.states("a", "b"))
	}},
	{promise: "of twins one is committed", run: func(f *fixture) {
		const twins, numbers = 6, 8
		f.acquire("a", "b")
		var done, duplicates atomic.Int64
		f.ok(inParallel(twins*numbers, func(i int) error {
			n := i/twins + 1
			err := f.try(event(fmt.Sprint("e", i), fmt.Sprintf("a=%d, b=%d", n, n)))
			switch {
			case err == nil:
				done.Add(1)
			case errors.Is(err, ordering.ErrDuplicate):
				duplicates.Add(1)
			default:
				return err
			}
			return nil
		}))
		require.EqualValues(f, numbers, done.Load())
		require.EqualValues(f, (twins-1)*numbers, duplicates.Load())
		require.Equal(f, []state{{Last: numbers}, {Last: numbers}}, f.states("a", "b"))
	}},
	{promise: "commits, holds, parkings and lists", run: func(f *fixture) {
		f.acquire("a", "b", "c")
		f.ok(inParallel(60, func(i int) (err error) {
			switch n := i/6 + 1; i % 6 {
			case 0:
				return f.try(event("", fmt.Sprintf("a=%d", n)))
			case 1:
				return f.tryHold(event(fmt.Sprint("h", n), fmt.Sprintf("b=%d", n)))
			case 2:
				return f.tryPark(failure("p", at, event("x", "c=1")))
			case 3:
				_, err = f.term.Held(f.ctx, lockkeys.Must("b"), 1, 5, 1<<20)
			case 4:
				_, err = f.term.Parked(f.ctx)
			default:
				_, err = f.term.Backlog(f.ctx)
			}
			return err
		}))
		require.Equal(f, []state{{Last: 10}, {HeldAt: 1}, {HeldAt: 1, Parked: "p"}}, f.states("a", "b", "c"))
		require.Len(f, f.held("b", 1, 99), 10)
	}},
	{promise: "two holders take a stream from each other", run: func(f *fixture) {
		const numbers = 12
		other := f.beside()
		var committed sync.Map // by number: how often
		f.ok(inParallel(2, func(i int) error {
			h := []*holder{f.holder, other}[i]
			for n := 0; n < numbers; {
				states, err := h.term.Acquire(h.ctx, []lockkeys.Key{lockkeys.Must("a")})
				if err != nil {
					return err
				}
				h.fences[lockkeys.Must("a")] = states[0].Fence
				n = int(states[0].Last) + 1
				switch err := h.try(event("", fmt.Sprintf("a=%d", n))); {
				case err == nil:
					_, twice := committed.LoadOrStore(n, true)
					assert.False(f, twice, "number %d", n)
				case !errors.Is(err, ordering.ErrFenced) && !errors.Is(err, ordering.ErrDuplicate):
					return err
				}
			}
			return nil
		}))
		last := f.states("a")[0].Last
		require.GreaterOrEqual(f, last, uint64(numbers))
		for n := range int(last) {
			_, ok := committed.Load(n + 1)
			require.True(f, ok, "number %d", n+1)
		}
	}},
	{promise: "Close waits for commits that have begun", durable: true, run: func(f *fixture) {
		f.acquire("a")
		var done atomic.Uint64
		closed := make(chan error, 1)
		go func() { closed <- f.store.Close() }()
		f.ok(inParallel(20, func(i int) error {
			switch err := f.try(event("", fmt.Sprintf("a=%d", i+1))); {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, ordering.ErrStoreClosed):
				return err
			}
			return nil
		}))
		f.ok(<-closed)
		f.reopen()
		s := f.states("a")[0]
		total := s.Last
		for _, span := range s.Done {
			total += span.To - span.From + 1
		}
		require.Equal(f, done.Load(), total)
	}},
}
