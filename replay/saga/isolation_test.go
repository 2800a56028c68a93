package saga_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/replay/saga"
)

// TestIsolated: runs that keep conflicting keys, and functions of Do with such keys, never
// come between each other's steps; others run side by side.
func TestIsolated(t *testing.T) {
	everywhere(t, func(t *testing.T, where string) {
		store := open(t, where)
		var holders [3]atomic.Int32 // by product
		var together sync.Map       // what has been seen side by side
		enter := func(product string) func() {
			p := int(product[0] - '0')
			assert.EqualValues(t, 1, holders[p].Add(1), "two at once have %s", product)
			for other := range holders {
				if other != p && holders[other].Load() > 0 {
					together.Store(p, true)
				}
			}
			return func() { holders[p].Add(-1) }
		}
		var inside sync.Map // by run: what leaves
		d := saga.Definition[order]{Name: "d", Version: 1, Keep: keepProduct, Kept: products, Steps: []saga.Step[order]{
			{Name: "first", Do: func(_ context.Context, call saga.Call, o *order) error {
				inside.Store(call.Saga, enter(o.Product))
				return nil
			}, Undo: func(_ context.Context, call saga.Call, _ *order) error {
				leave, _ := inside.Load(call.Saga)
				leave.(func())()
				return nil
			}},
			{Name: "shared", Under: []lockkeys.Key{lockkeys.Must("printer")}, UndoTx: write("undone"),
				Keys: func(_ *order, c *lockkeys.Claim) error { c.Exclusive(lockkeys.Must("printer")); return nil },
				DoTx: write("printed")},
			{Name: "last", Do: func(_ context.Context, call saga.Call, o *order) error {
				if o.Refused != "" {
					return dispatcher.Permanent(errAway)
				}
				leave, _ := inside.Load(call.Saga)
				leave.(func())()
				return nil
			}},
		}}
		c := coordinator(t, config(store), saga.Register(d))
		const runs = 60
		for i := range runs {
			o := order{Product: fmt.Sprint(i % 3)}
			if i%5 == 0 {
				o.Refused = "no"
			}
			start(t, c, store, fmt.Sprint(i), o)
		}
		var others sync.WaitGroup
		for i := range 30 {
			others.Go(func() {
				p := fmt.Sprint(i % 3)
				assert.NoError(t, c.Do(t.Context(), func(claim *lockkeys.Claim) { claim.Exclusive(product(p)) }, func(ctx context.Context) error {
					defer enter(p)()
					return c.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
						return write("other")(ctx, tx, saga.Call{Saga: "other"}, &order{})
					})
				}))
			})
		}
		others.Wait()
		for i := range runs {
			want := saga.Completed
			if i%5 == 0 {
				want = saga.Compensated
			}
			assert.Equal(t, want, ended(t, c, fmt.Sprint(i)).Status)
		}
		assert.Len(t, effectsOf(t, store, "other"), 30)
		seen := 0
		together.Range(func(any, any) bool { seen++; return true })
		assert.Positive(t, seen, "nothing ran side by side")
	})
}

// TestDo: a function of other code.
func TestDo(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	var c *saga.Coordinator
	nested := make(chan error, 1)
	c = coordinator(t, config(store), saga.Register(saga.Definition[order]{Name: "d", Version: 1, Keep: keepProduct, Kept: products, Steps: []saga.Step[order]{
		{Name: "a", Do: func(ctx context.Context, _ saga.Call, _ *order) error {
			nested <- c.Do(ctx, func(*lockkeys.Claim) {}, func(context.Context) error { return nil })
			return saga.Wait
		}}}}))
	start(t, c, store, "1", order{Product: "7"})
	require.ErrorIs(t, <-nested, dispatcher.ErrNested)
	claim := func(claim *lockkeys.Claim) { claim.Shared(product("7")) }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Do(ctx, claim, func(context.Context) error { panic("it must not run") }), context.DeadlineExceeded)
	waiting := make(chan error, 1)
	go func() { waiting <- c.Do(context.Background(), claim, func(context.Context) error { return errAway }) }()
	until(t, c, "1", func(r saga.Run) bool { return r.Steps[0].Status == saga.Awaiting })
	require.NoError(t, c.Reply(t.Context(), "1", "a", nil))
	require.ErrorIs(t, <-waiting, errAway)
	ended(t, c, "1")
	assert.ErrorAs(t, c.Do(t.Context(), claim, func(context.Context) error { panic("loudly") }), new(*dispatcher.PanicError))
	start(t, c, store, "2", order{Product: "7"})
	<-nested
	go func() { waiting <- c.Do(context.Background(), claim, func(context.Context) error { return nil }) }()
	require.NoError(t, c.Close())
	require.ErrorIs(t, <-waiting, saga.ErrClosed, "what the run keeps is not anybody else's, only because the process ends")
}

// basket is the state of a saga that keeps several keys, and takes others in its steps.
type basket struct {
	Keeps, Takes []string
	Refused      bool
}

// TestNoDeadlock: runs with several keys at random, in a tree, whose steps take further
// ones, and functions with keys of either level, all come to their ends.
func TestNoDeadlock(t *testing.T) {
	store := open(t, t.TempDir()+"/saga.db")
	key := func(root string) string { // from the root itself down to one of six leaves
		switch rand.IntN(8) {
		case 0:
			return root
		case 1:
			return fmt.Sprintf("%s/%d", root, rand.IntN(2))
		}
		return fmt.Sprintf("%s/%d/%d", root, rand.IntN(2), rand.IntN(3))
	}
	keys := func(root string) (list []string) {
		for range 1 + rand.IntN(3) {
			list = append(list, key(root))
		}
		return list
	}
	add := func(claim *lockkeys.Claim, list []string) {
		for i, k := range list {
			if i%3 == 2 {
				claim.Shared(lockkeys.MustParse(k))
			} else {
				claim.Exclusive(lockkeys.MustParse(k))
			}
		}
	}
	takes := func(from, to int) func(s *basket, c *lockkeys.Claim) error {
		return func(s *basket, c *lockkeys.Claim) error {
			add(c, s.Takes[min(from, len(s.Takes)):min(to, len(s.Takes))])
			return nil
		}
	}
	under := []lockkeys.Key{lockkeys.Must("tool")}
	pass := func(context.Context, saga.Call, *basket) error { return nil }
	c := coordinator(t, config(store), saga.Register(saga.Definition[basket]{Name: "basket", Version: 1, Kept: products,
		Keep: func(s *basket, c *lockkeys.Claim) error { add(c, s.Keeps); return nil },
		Steps: []saga.Step[basket]{
			{Name: "a", Do: pass, Undo: pass, Under: under, Keys: takes(0, 2), MaxCalls: 3},
			{Name: "b", Do: pass, Undo: pass, Under: under, Keys: takes(1, 3), After: []string{}, MaxCalls: 2},
			{Name: "c", After: []string{"a", "b"}, Under: under, Keys: takes(0, 3), Do: func(_ context.Context, _ saga.Call, s *basket) error {
				if s.Refused {
					return dispatcher.Permanent(errAway)
				}
				return nil
			}},
		}}))
	const runs = 150
	require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for i := range runs {
			if err := c.Start(ctx, tx, fmt.Sprint(i), basket{keys("product"), keys("tool"), i%4 == 0}); err != nil {
				return err
			}
		}
		return nil
	}))
	c.Notify()
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	defer cancel()
	var others sync.WaitGroup
	for i := range 8 {
		others.Go(func() {
			for range 25 {
				list := keys([]string{"product", "tool"}[i%2])
				assert.NoError(t, c.Do(ctx, func(claim *lockkeys.Claim) { add(claim, list) }, func(context.Context) error { return nil }))
			}
		})
	}
	others.Wait()
	require.Eventually(t, func() bool {
		list, err := c.Active(t.Context(), 1)
		require.NoError(t, err)
		return len(list) == 0
	}, waitAtMost, 5*time.Millisecond)
}
