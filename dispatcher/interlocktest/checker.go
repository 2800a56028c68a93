package interlocktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Touched returns a function for [dispatcher.Config.Touched], or for
// ordering.Config.Dispatcher.Touched, which checks all that the handlers of one
// dispatcher touch, and fails t at its end for each place that touches
//
//   - a key that the message's claim does not cover in that mode;
//   - anything after its attempt was over;
//   - a resource that nothing protects: that two messages touch, one of them
//     writing, whose claims do not conflict. Both are reported.
//
// A [Round] does this by itself.
func Touched(t testing.TB) func(ctx context.Context, a dispatcher.Access) {
	c := newChecker()
	t.Cleanup(func() {
		for _, p := range c.problems() {
			t.Error("interlocktest: " + p)
		}
	})
	return func(_ context.Context, a dispatcher.Access) { c.add(a) }
}

// checker checks accesses. All of its methods may be called at once.
type checker struct {
	mu        sync.Mutex
	resources map[resourceName]*resource
	faults    map[string]string // by place
}

type resourceName struct {
	key  lockkeys.Key
	data string
}

func newChecker() *checker {
	return &checker{resources: map[resourceName]*resource{}, faults: map[string]string{}}
}

func (c *checker) add(a dispatcher.Access) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Err != nil {
		c.faultLocked(a)
	}
	if errors.Is(a.Err, dispatcher.ErrNoHandler) {
		return
	}
	name := resourceName{a.Key, a.Data}
	r := c.resources[name]
	if r == nil {
		r = &resource{common: []lockkeys.Key{lockkeys.Root()}, seen: map[string]bool{}}
		c.resources[name] = r
	}
	r.add(a)
}

// faultLocked keeps the first fault of each place.
func (c *checker) faultLocked(a dispatcher.Access) {
	place := fmt.Sprint(a.Caller, a.Mode)
	if _, ok := c.faults[place]; ok {
		return
	}
	text := fmt.Sprintf("%v\n\t%v", a, a.Err)
	if errors.Is(a.Err, dispatcher.ErrNoHandler) {
		text = fmt.Sprintf("%s touched at %s by message %d, attempt %d, which was over", a.Resource(), a.Caller, a.ID, a.Attempt)
	}
	c.faults[place] = text
}

// problems returns what is wrong, each with its place.
func (c *checker) problems() (problems []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, place := range sortedKeys(c.faults) {
		problems = append(problems, c.faults[place])
	}
	names := slices.SortedFunc(maps.Keys(c.resources), func(a, b resourceName) int {
		return cmp.Or(a.key.Compare(b.key), cmp.Compare(a.data, b.data))
	})
	reported := map[string]bool{} // the places
	for _, name := range names {
		a, b, found := c.resources[name].unprotected()
		if places := a.Caller + b.Caller; found && !reported[places] {
			reported[places] = true
			problems = append(problems, fmt.Sprintf("nothing keeps these two apart, since their claims do not conflict:\n\t%v\n\t%v\n"+
				"\tdeclare in Config.Keys of both a key for %s, exclusive where it is written", a, b, a.Resource()))
		}
	}
	return problems
}

// resource is something that was touched.
type resource struct {
	common   []lockkeys.Key // what all had that touched it, exclusively if they wrote
	written  bool
	accesses []dispatcher.Access
	seen     map[string]bool // which accesses are kept
}

func (r *resource) add(a dispatcher.Access) {
	r.narrow(a)
	r.written = r.written || a.Mode != lockkeys.Shared
	same := fmt.Sprint(a.ID, a.Mode, a.Claim)
	if !r.seen[same] {
		r.seen[same] = true
		r.accesses = append(r.accesses, a)
	}
}

// narrow intersects the common keys, which stand for their subtrees, with those that
// protect an access.
func (r *resource) narrow(a dispatcher.Access) {
	var common lockkeys.Claim
	for _, k := range r.common {
		for _, q := range a.Claim {
			switch {
			case q.Mode == lockkeys.Shared && a.Mode != lockkeys.Shared:
			case q.Key.Contains(k):
				common.Exclusive(k)
			case k.Contains(q.Key):
				common.Exclusive(q.Key)
			}
		}
	}
	r.common = nil
	for _, q := range common.Requests() {
		r.common = append(r.common, q.Key)
	}
}

// unprotected returns two accesses, one of them writing, that may be at once. If all
// had a key in common there are none. There are none either if any two had another
// key in common.
func (r *resource) unprotected() (a, b dispatcher.Access, found bool) {
	if len(r.common) > 0 || !r.written {
		return a, b, false
	}
	claims := make([]*lockkeys.Claim, len(r.accesses))
	for i, a := range r.accesses {
		claims[i] = lockkeys.NewClaim(a.Claim...)
		for j, b := range r.accesses[:i] {
			writes := a.Mode != lockkeys.Shared || b.Mode != lockkeys.Shared
			if a.ID != b.ID && writes && !claims[i].Conflicts(claims[j]) {
				return b, a, true
			}
		}
	}
	return a, b, false
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
