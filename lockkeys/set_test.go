package lockkeys

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is the plain statement of what a Set does: claims in order of
// arrival, each granted when it conflicts with none before it.
type model struct{ claims []*modelClaim }

type modelClaim struct {
	id    int
	claim *Claim
	place *Place[int]
}

func (m *model) granted(i int) bool {
	for _, earlier := range m.claims[:i] {
		if earlier.claim.Conflicts(m.claims[i].claim) {
			return false
		}
	}
	return true
}

func (m *model) grantedIDs() []int {
	var ids []int
	for i, c := range m.claims {
		if m.granted(i) {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// check compares the set with the model and verifies the invariants of node.
func (m *model) check(t *rapid.T, s *Set[int]) {
	require.Equal(t, len(m.claims), s.Len())
	for i, c := range m.claims {
		require.Equal(t, m.granted(i), c.place.Granted(), "claim %d %v", c.id, c.claim.Requests())
		request, by, blocked := s.Blocker(c.place)
		require.Equal(t, !m.granted(i), blocked, "claim %d is blocked", c.id)
		if blocked {
			j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == by })
			require.True(t, j >= 0 && j < i, "claim %d is blocked by an earlier one, not by %d", c.id, by.Owner)
			require.True(t, c.claim.Conflicts(NewClaim(request)), "claim %d conflicts with %v", c.id, request)
			require.Contains(t, m.claims[j].claim.Requests(), request)
		}
	}
	got := map[int]int{}
	var last Request
	var lastBy *Place[int]
	for r, p := range s.All() {
		j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == p })
		require.GreaterOrEqual(t, j, 0)
		require.Contains(t, m.claims[j].claim.Requests(), r)
		got[p.Owner]++
		if lastBy != nil {
			order := last.Key.Compare(r.Key)
			require.True(t, order < 0 || order == 0 && lastBy.Owner < p.Owner, "All is in order: %v of %d, %v of %d", last, lastBy.Owner, r, p.Owner)
		}
		last, lastBy = r, p
	}
	for _, c := range m.claims {
		require.Equal(t, len(c.claim.Requests()), got[c.id], "All yields the requests of %d", c.id)
	}
	checkNodes(t, s)
	checkLights(t, s, m)
}

// checkNodes verifies what node says of itself, for every node of the tree.
func checkNodes(t require.TestingT, s *Set[int]) {
	if s.root == nil {
		return
	}
	kids := map[*node[int]]int{}
	used := 0
	s.nodes.all(func(n *node[int]) bool {
		if n.parent != nil {
			kids[n.parent]++
			parent, _ := n.key.Parent()
			require.Equal(t, parent, n.parent.key)
		}
		if n.used() {
			used++
		}
		return true
	})
	require.Equal(t, used, s.used)
	s.nodes.all(func(n *node[int]) bool {
		require.Equal(t, kids[n], n.kids, "kids of %v", n.key)
		if n.idle() {
			require.True(t, n.listed, "%v is idle and so listed", n.key)
		}
		checkQueue(t, n)
		return true
	})
}

// checkLights verifies what light says of itself, given the claims in the set.
func checkLights(t require.TestingT, s *Set[int], m *model) {
	if s.root == nil {
		return
	}
	ls := &s.lights
	used, heavy := 0, 0
	for _, c := range m.claims {
		used += len(c.place.lights)
		if len(c.place.steps) > 0 {
			heavy++
			require.Empty(t, c.place.lights)
		} else {
			require.Len(t, c.place.lights, len(c.claim.Requests()))
		}
		for _, l := range c.place.lights {
			require.Same(t, c.place, l.place)
			for _, other := range m.claims {
				require.True(t, other == c || !other.claim.Conflicts(c.claim), "a light claim conflicts with none")
			}
		}
	}
	require.Equal(t, heavy, s.heavy)
	require.Equal(t, used, ls.used)
	var held [MaxDepth + 1]int
	ls.keys.all(func(l *light[int]) bool {
		require.Equal(t, l.key.Depth(), l.depth)
		if l.place != nil {
			held[l.depth]++
		} else {
			require.True(t, l.listed)
		}
		return true
	})
	checkDepths(t, &ls.depths, held)
	held = [MaxDepth + 1]int{}
	for _, c := range m.claims {
		for i := range c.place.steps {
			if st := &c.place.steps[i]; st.mode.real() {
				held[st.node.key.Depth()]++
			}
		}
	}
	checkDepths(t, &s.requests, held)
}

func checkDepths(t require.TestingT, ds *depths, want [MaxDepth + 1]int) {
	require.Equal(t, want, ds.counts)
	for d := 1; d <= MaxDepth; d++ {
		require.Equal(t, want[d] > 0, ds.mask&(1<<(d-1)) != 0)
	}
}

func checkQueue(t require.TestingT, n *node[int]) {
	var firstX, last *run[int]
	for r := n.head; r != nil; last, r = r, r.next {
		require.Same(t, last, r.prev)
		first := last == nil && (r.mode != exclusive || n.readers == 0)
		joins := last != nil && last.granted && last.mode == r.mode && r.mode.groups()
		require.Equal(t, first || joins, r.granted)
		if r.mode == exclusive && firstX == nil {
			firstX = r
		}
		require.Positive(t, r.live)
		if !r.mode.groups() {
			require.Equal(t, 1, r.live)
		}
		listed := checkSteps(t, r.steps, n, r, !r.granted)
		if r.granted && !r.mode.real() {
			require.Zero(t, listed)
		} else {
			require.Equal(t, r.live, listed)
		}
	}
	require.Same(t, last, n.tail)
	require.Same(t, firstX, n.firstX)
	checkSteps(t, n.behindX, n, nil, true)
	if first := n.behindX.first; first != nil {
		require.NotNil(t, firstX)
		require.Greater(t, first.place.seq, firstX.steps.first.place.seq)
	}
}

func checkSteps(t require.TestingT, l steps[int], n *node[int], r *run[int], waiting bool) (count int) {
	var last *step[int]
	for st := l.first; st != nil; last, st = st, st.next {
		require.Same(t, last, st.prev)
		require.Same(t, n, st.node)
		require.Same(t, r, st.run)
		require.Equal(t, waiting, st.waiting)
		if last != nil {
			require.Greater(t, st.place.seq, last.place.seq, "steps are in order of arrival")
		}
		count++
	}
	require.Same(t, last, l.last)
	return count
}

// segmentNames are chosen so that comparing characters instead of segments,
// or sorting by a separator that is not the smallest byte, goes wrong.
var segmentNames = []string{"a", "a-b", "ab", "a/b", "a\x01", "\xff", "4", "42", "счёт", " "}

func genKey(t *rapid.T) Key {
	depth := rapid.SampledFrom([]int{0, 1, 1, 2, 2, 2, 3, 3, 4, 5, MaxDepth}).Draw(t, "depth")
	few := rapid.SampledFrom([]int{1, 2, 3, len(segmentNames)}).Draw(t, "names")
	segments := make([]string, depth)
	for i := range segments {
		segments[i] = rapid.SampledFrom(segmentNames[:few]).Draw(t, "segment")
	}
	return Must(segments...)
}

func genRequest(t *rapid.T) Request {
	return Request{genKey(t), rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")}
}

// A crowded key is one of seven, so that claims of them meet at few nodes and
// long queues with all five modes arise.
func genCrowdedKey(t *rapid.T) Key {
	return MustParse(rapid.SampledFrom([]string{"a/b/c", "a/b", "a/c", "a", "a-b", "b", "/"}).Draw(t, "key"))
}

func genClaim(t *rapid.T, key func(*rapid.T) Key) *Claim {
	c := new(Claim)
	for range rapid.SampledFrom([]int{1, 2, 3, 4, 0}).Draw(t, "requests") {
		mode := rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")
		c.Add(Request{key(t), mode})
	}
	return c
}

func TestSetAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			s    Set[int]
			m    model
			free []*Place[int]
			next int
			key  = rapid.SampledFrom([]func(*rapid.T) Key{genCrowdedKey, genKey}).Draw(t, "keys")
		)
		add := func(claim *Claim) {
			p := new(Place[int])
			if len(free) > 0 {
				p, free = free[0], free[1:]
			}
			next++
			p.Owner = next
			m.claims = append(m.claims, &modelClaim{next, claim, p})
			require.Equal(t, m.granted(len(m.claims)-1), s.Add(p, claim))
		}
		remove := func(i int) {
			c := m.claims[i]
			before := m.grantedIDs()
			m.claims = slices.Delete(m.claims, i, i+1)
			var want []int
			for _, id := range m.grantedIDs() {
				if !slices.Contains(before, id) {
					want = append(want, id)
				}
			}
			var got []int
			for _, p := range s.Remove(c.place, nil) {
				got = append(got, p.Owner)
			}
			slices.Sort(got)
			require.Equal(t, want, got, "granted by removing %d", c.id)
			free = append(free, c.place)
		}
		t.Repeat(map[string]func(*rapid.T){
			"":    func(t *rapid.T) { m.check(t, &s) },
			"add": func(t *rapid.T) { add(genClaim(t, key)) },
			"add an equal one": func(t *rapid.T) {
				if len(m.claims) > 0 {
					like := rapid.SampledFrom(m.claims).Draw(t, "like").claim
					add(NewClaim(like.Requests()...))
				}
			},
			"remove granted": func(t *rapid.T) {
				var granted []int
				for i := range m.claims {
					if m.granted(i) {
						granted = append(granted, i)
					}
				}
				if len(granted) > 0 {
					remove(rapid.SampledFrom(granted).Draw(t, "granted"))
				}
			},
			"withdraw waiting": func(t *rapid.T) {
				var waiting []int
				for i := range m.claims {
					if !m.granted(i) {
						waiting = append(waiting, i)
					}
				}
				if len(waiting) > 0 {
					remove(rapid.SampledFrom(waiting).Draw(t, "waiting"))
				}
			},
			"withdraw any": func(t *rapid.T) {
				if len(m.claims) > 0 {
					remove(rapid.IntRange(0, len(m.claims)-1).Draw(t, "any"))
				}
			},
			"shrink": func(t *rapid.T) {
				for i, c := range m.claims {
					requests := c.claim.Requests()
					if !m.granted(i) || len(requests) < 2 {
						continue
					}
					drop := rapid.IntRange(0, len(requests)-1).Draw(t, "drop")
					less := NewClaim(slices.Delete(slices.Clone(requests), drop, drop+1)...)
					before := m.grantedIDs()
					woken, ok := s.Shrink(c.place, less, nil)
					if !ok {
						require.Empty(t, woken)
						return
					}
					c.claim = less
					for _, p := range woken {
						require.NotContains(t, before, p.Owner)
						before = append(before, p.Owner)
					}
					slices.Sort(before)
					require.Equal(t, m.grantedIDs(), before)
					return
				}
			},
			"behind": func(t *rapid.T) {
				for i, c := range m.claims {
					next, ok := s.Behind(c.place)
					if !ok {
						continue
					}
					j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == next })
					require.Greater(t, j, i)
					require.Equal(t, c.claim.Requests(), m.claims[j].claim.Requests())
					for k, o := range m.claims[:j] {
						if k != i {
							conflicts := o.claim.Conflicts(m.claims[j].claim)
							require.True(t, !conflicts || k < i, "nothing between %d and %d may be passed: %v %v %v", c.id, next.Owner, c.claim.Requests(), o.claim.Requests(), m.claims[j].claim.Requests())
						}
					}
				}
			},
		})
	})
}

// Nodes are kept for reuse, but not more than a bounded number, whatever was
// in the set before.
func TestSetForgetsKeys(t *testing.T) {
	var s Set[int]
	for i := range 3 * maxIdleLights {
		var p Place[int]
		require.True(t, s.Add(&p, NewClaim(Request{Key: Must("client", fmt.Sprint(i), "account", "7")})))
		require.Empty(t, s.Remove(&p, nil))
	}
	require.LessOrEqual(t, s.lights.keys.len(), maxIdleLights)
	for i := range 3 * maxIdleLights {
		var p Place[int]
		require.True(t, s.Add(&p, NewClaim(Request{Key: Must("client", fmt.Sprint(i), "account", "7"), Mode: Shared})))
		require.Empty(t, s.Remove(&p, nil))
	}
	require.LessOrEqual(t, s.nodes.len(), maxIdleNodes+1)
	require.Zero(t, s.used)
	require.Zero(t, s.Len())
}

// A refused Shrink leaves no nodes of the keys it was asked for.
func TestSetForgetsKeysOfRefusedShrinks(t *testing.T) {
	var s Set[int]
	var p Place[int]
	s.Add(&p, NewClaim(Request{Key: Must("a"), Mode: Shared}))
	for i := range 3 * maxIdleLights {
		_, ok := s.Shrink(&p, NewClaim(Request{Key: Must("a", fmt.Sprint(i), "x")}), nil)
		require.False(t, ok)
	}
	require.LessOrEqual(t, s.nodes.len()-s.used, maxIdleNodes)
	checkNodes(t, &s)
}
