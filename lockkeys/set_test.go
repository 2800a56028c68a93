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
	for r, p := range s.All() {
		j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == p })
		require.GreaterOrEqual(t, j, 0)
		require.Contains(t, m.claims[j].claim.Requests(), r)
		got[p.Owner]++
	}
	for _, c := range m.claims {
		require.Equal(t, len(c.claim.Requests()), got[c.id], "All yields the requests of %d", c.id)
	}
	checkNodes(t, s)
}

func checkNodes(t *rapid.T, s *Set[int]) {
	if s.index == nil {
		return
	}
	kids := map[*node[int]]int{}
	s.index.Ascend(func(n *node[int]) bool {
		if n.parent != nil {
			kids[n.parent]++
			parent, _ := n.key.Parent()
			require.Equal(t, parent, n.parent.key)
		}
		return true
	})
	s.index.Ascend(func(n *node[int]) bool {
		require.Equal(t, kids[n], n.kids, "kids of %v", n.key)
		if n.idle() {
			require.True(t, n.listed, "%v is idle and so listed", n.key)
		}
		var lastX *run[int]
		for r := n.head; r != nil; r = r.next {
			require.Positive(t, r.live)
			require.Equal(t, r == n.head && (r.mode != exclusive || n.readers == 0), r.granted)
			if r.next != nil {
				require.False(t, r.mode == r.next.mode && r.mode.groups(), "adjacent runs are incompatible")
				require.Same(t, r, r.next.prev)
			} else {
				require.Same(t, r, n.tail)
			}
			if r.mode == exclusive {
				lastX = r
			}
		}
		require.Same(t, lastX, n.lastX)
		return true
	})
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

func genClaim(t *rapid.T) *Claim {
	c := new(Claim)
	for range rapid.IntRange(0, 4).Draw(t, "requests") {
		mode := rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")
		c.Add(Request{genKey(t), mode})
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
		)
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
			"": func(t *rapid.T) { m.check(t, &s) },
			"add": func(t *rapid.T) {
				p := new(Place[int])
				if len(free) > 0 {
					p, free = free[0], free[1:]
				}
				next++
				p.Owner = next
				c := &modelClaim{next, genClaim(t), p}
				m.claims = append(m.claims, c)
				require.Equal(t, m.granted(len(m.claims)-1), s.Add(p, c.claim))
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

// Nodes are kept for reuse, but not more than maxIdle of them, whatever was
// in the set before.
func TestSetForgetsKeys(t *testing.T) {
	var s Set[int]
	for i := range 3 * maxIdle {
		var p Place[int]
		require.True(t, s.Add(&p, NewClaim(Request{Key: Must("client", fmt.Sprint(i), "account", "7")})))
		require.Empty(t, s.Remove(&p, nil))
	}
	require.LessOrEqual(t, s.index.Len(), maxIdle+1)
	require.Zero(t, s.used)
	require.Zero(t, s.Len())
}
