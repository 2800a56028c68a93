package lockkeys

import (
	"github.com/stretchr/testify/require"
)

// checkNodes verifies the invariant of node, for every node of the tree.
func checkNodes(t require.TestingT, s *Set[int]) {
	if s.root == nil {
		return
	}
	kids := map[*node[int]]int{}
	used, idleBytes := 0, 0
	s.nodes.all(func(n *node[int]) bool {
		if n.parent != nil {
			kids[n.parent]++
			parent, _ := n.key.Parent()
			require.Equal(t, parent, n.parent.key)
		}
		if n.used() {
			used++
		}
		if n.idle() {
			idleBytes += len(n.key.path)
		}
		return true
	})
	require.Equal(t, used, s.used)
	require.Equal(t, idleBytes, s.idleBytes)
	s.nodes.all(func(n *node[int]) bool {
		require.Equal(t, kids[n], n.kids, "kids of %v", n.key)
		require.Equal(t, n.idle(), n.listed)
		checkQueue(t, n)
		return true
	})
}

// checkLights verifies the invariant of light, given the claims in the set.
func checkLights(t require.TestingT, s *Set[int], m *model) {
	if s.root == nil {
		return
	}
	ls := &s.lights
	var held [MaxDepth + 1]int
	used, heavy, linked := 0, 0, 0
	for _, c := range m.claims {
		if len(c.place.steps) > 0 {
			heavy++
			require.Empty(t, c.place.lights)
		} else {
			require.Len(t, c.place.lights, len(c.claim.Requests()))
		}
		if len(c.place.lights) > 0 {
			linked++
		}
		for _, l := range c.place.lights {
			used++
			held[l.depth]++
			require.EqualValues(t, l.key.Depth(), l.depth)
			require.Same(t, c.place, ls.table.get(l))
			for _, other := range m.claims {
				require.True(t, other == c || !other.claim.Conflicts(c.claim), "a light claim conflicts with none")
			}
		}
	}
	require.Equal(t, heavy, s.heavy)
	require.Equal(t, used, ls.table.len)
	var last *Place[int]
	for p := ls.oldest; p != nil; last, p = p, p.newer {
		require.Same(t, last, p.older)
		linked--
	}
	require.Same(t, last, ls.latest)
	require.Zero(t, linked)
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
	var firstX, lastX, last *run[int]
	var front uint64 // the latest of those that went before and do not hold
	for r := n.head; r != nil; last, r = r, r.next {
		require.Same(t, last, r.prev)
		require.Equal(t, last == nil && (r.mode != exclusive || n.readers == 0), r.granted)
		require.True(t, last == nil || !last.joins(r.mode), "adjacent runs conflict")
		if r.mode == exclusive {
			if firstX == nil {
				firstX = r
			} else {
				require.Same(t, r, lastX.nextX)
			}
			require.Same(t, lastX, r.prevX)
			lastX = r
			checkSteps(t, &r.behind, n, nil, true)
			for st := r.behind.first(); st != nil; st = st.following() {
				require.True(t, r.steps.first().place.before(st.place))
				require.True(t, st.place.holds || r.nextX == nil || !r.nextX.steps.first().place.before(st.place))
			}
		} else {
			require.Nil(t, r.behind.first())
		}
		require.Positive(t, r.live)
		if !r.mode.groups() {
			require.Equal(t, 1, r.live)
		}
		listed, late := checkSteps(t, &r.steps, n, r, !r.granted), front
		if r.granted && !r.mode.real() {
			require.LessOrEqual(t, listed, r.live)
		} else {
			require.Equal(t, r.live, listed)
		}
		for st := r.steps.first(); st != nil; st = st.following() {
			if st.place.holds {
				require.Zero(t, front, "those that hold come first")
			} else {
				require.Greater(t, st.place.seq, front, "runs are in order of arrival")
				late = max(late, st.place.seq)
			}
		}
		front = late
	}
	require.Same(t, last, n.tail)
	require.Same(t, firstX, n.firstX)
	require.Same(t, lastX, n.lastX)
	require.LessOrEqual(t, checkSteps(t, &n.early, n, nil, false), n.readers)
	for st := n.early.first(); st != nil && firstX != nil; st = st.following() {
		require.True(t, st.place.before(firstX.steps.first().place))
	}
}

func checkSteps(t require.TestingT, l *steps[int], n *node[int], r *run[int], waiting bool) (count int) {
	for st := l.first(); st != nil; st = st.following() {
		require.Same(t, st, st.link.step)
		require.Same(t, st, st.link.prev.next.step)
		require.Same(t, n, st.node)
		require.Same(t, r, st.run)
		require.Equal(t, waiting, st.waiting)
		count++
	}
	return count
}
