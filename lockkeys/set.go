package lockkeys

import (
	"cmp"
	"iter"
	"slices"
	"sync"
)

// Set is the set of claims, in the order in which they were added; each claim
// has a [Place] in it. A claim is granted when it conflicts with no earlier
// claim still in the set; until then it waits. Removing a claim returns the
// places that are granted as a result, so nothing is ever polled or scanned
// again.
//
// # Cost
//
// Adding a claim is linear in requests × depth. Removing one is so too,
// amortised, and linear in the waits that it ends. Neither depends on the
// number of claims in the set, except for the first claim of a key that is
// shared, waits, is waited for, has been there for long or has many keys: that
// takes a look-up in a B-tree. Up to a few thousand of its unused nodes are kept
// for reuse; apart from these, memory is proportional to the claims in the set.
//
// Claims are removed in any order; withdrawing one that waits costs no more
// than any removal.
//
// The zero Set is empty and ready for use. A Set is not safe for concurrent
// use and must not be copied.
type Set[T any] struct {
	// # When neighbours decide
	//
	// If all claims in the set were granted and exclusive, no key in it would
	// contain another. In a B-tree of the keys, an ancestor of k could then only be
	// the key just before k and a descendant only the key just after it, so two
	// neighbour look-ups would decide. With shared keys, which may nest, and with
	// waiting claims, which overlap what they wait for, this no longer holds: a key
	// in between can hide the ancestor, and there may be any number of conflicting
	// descendants. So there are two kinds of claims.
	//
	// Light claims are exclusive, recent and block no other, as is usual. Their
	// keys do not contain each other. Since these usually have one depth, or a few,
	// a key is not even compared with its neighbours: it is looked up in a hash
	// table, and so are its ancestors, at the depths that are in use. The table is
	// small, since only the latest claims are in it, so a request for a subtree can
	// scan all of it, and needs to only if deeper keys are in use.
	//
	// All other claims are heavy: they are shared, wait, are waited for, have been
	// in the set for long, or have many keys. They use the B-tree, which has a node
	// for each of their keys and for all ancestors of it. A claim has a step at
	// each: its own mode at the key, an intention mode at the ancestors. Claims
	// below k can be read at k, and claims above it on the way up the parent
	// pointers. Because the tree is closed under ancestors, the deepest node that
	// contains a new key k is the node just before k, or an ancestor of that: one
	// neighbour look-up finds where any key belongs. A table of all nodes finds the
	// existing ones.

	lights lights[T]

	// Heavy claims have steps at nodes.
	heavy int // how many
	nodes index[*node[T]]
	root  *node[T]
	used  int // nodes that have steps
	// The depths of the requests of heavy claims.
	requests depths

	count int    // places in the set
	added uint64 // places ever added
	stamp uint64 // calls of route ever made

	idleFirst, idleLast *node[T] // the idle nodes, in the order in which they became idle
	idleBytes           int      // of their keys

	spareRuns, spareNodes sync.Pool
	woken                 []*Place[T] // granted by the call under way
	looked                int         // how many steps and nodes it visited, for tests
}

// Bounds on what is kept although no claim uses it.
const (
	maxIdleNodes = 2048    // nodes
	maxIdleBytes = 1 << 18 // of the keys of idle ones
	maxIdleSteps = 256     // steps of a place that is in no set
)

// Place is the position of a claim in a [Set]. The zero Place is in no set. A
// Place may be reused after its claim has been removed, and keeps its memory
// unless the claim was large. It must not be copied, which go vet reports.
type Place[T any] struct {
	_ noCopy
	// Owner is for the caller, to find the owner of a place.
	Owner T

	lights  []light   // or else
	steps   []step[T] // a zero one was removed by Shrink
	uses    map[*node[T]]*use[T]
	blocked int    // steps that wait
	seq     uint64 // order of arrival; 0 when not in a set
	// Whether it keeps what it claims, so that nothing is inserted in front of
	// it: it was granted, or [Set.Hold] was called. It never waits for a place
	// that does not hold.
	holds bool

	older, newer *Place[T] // in lights
}

// Granted reports whether the claim is granted: whether it conflicts with no
// earlier claim in the set.
func (p *Place[T]) Granted() bool { return p.blocked == 0 }

// InSet reports whether the claim is in a set, granted or waiting.
func (p *Place[T]) InSet() bool { return p.seq != 0 }

func (s *Set[T]) init() {
	s.lights.table.init()
	s.lights.max = maxLights
	s.nodes.init()
	s.root = new(node[T])
	s.nodes.put(Key{}, s.root)
}

// Len returns the number of claims in the set.
func (s *Set[T]) Len() int { return s.count }

// Add adds a claim to the set, behind all others, and reports whether it is
// granted. An empty claim always is. Add panics if p is in a set already.
func (s *Set[T]) Add(p *Place[T], c *Claim) (granted bool) {
	if p.seq != 0 {
		panic("lockkeys: Set.Add of a place that is in use")
	}
	if s.root == nil {
		s.init()
	}
	s.count++
	s.added++
	p.seq = s.added
	p.holds = true
	if !s.addLight(p, c) {
		s.makeHeavy(c)
		s.addHeavy(p, c)
	}
	return p.holds
}

// addHeavy gives a claim its steps.
func (s *Set[T]) addHeavy(p *Place[T], c *Claim) {
	s.heavy++
	p.steps = s.route(p, p.steps[:0], c)
	for i := range p.steps {
		s.enqueue(&p.steps[i])
	}
	p.settle()
}

// settle must be called when all steps of p are in their queues.
func (p *Place[T]) settle() {
	p.holds = p.blocked == 0
	for i := range p.steps {
		if st := &p.steps[i]; !p.holds && !st.listed() {
			st.list()
		}
	}
}

// route appends to steps one step for each node that the claim uses: those of
// its requests and their ancestors.
func (s *Set[T]) route(p *Place[T], steps []step[T], c *Claim) []step[T] {
	s.stamp++
	if steps == nil {
		steps = make([]step[T], 0, 8)
	}
	for _, r := range c.Requests() {
		mode, above := exclusive, intentExclusive
		if r.Mode == Shared {
			mode, above = shared, intentShared
		}
		for n := s.node(r.Key); n != nil; n = n.parent {
			if n.stamp == s.stamp {
				st := &steps[n.at]
				if joined := join[st.mode][mode]; joined != st.mode {
					st.mode = joined
				} else if mode == above {
					break // the ancestors have these modes already
				}
			} else {
				n.stamp, n.at = s.stamp, len(steps)
				steps = append(steps, step[T]{node: n, place: p, mode: mode})
			}
			mode = above
		}
	}
	return steps
}

// Remove removes a claim from the set and appends to woken the places that are
// granted as a result, in no particular order. It panics if p is in no set.
func (s *Set[T]) Remove(p *Place[T], woken []*Place[T]) []*Place[T] {
	if p.seq == 0 {
		panic("lockkeys: Set.Remove of a place that is not in use")
	}
	s.count--
	p.seq, p.holds = 0, false
	had := len(woken)
	s.woken = woken
	s.leave(p)
	woken, s.woken = s.woken, nil
	hold(woken[had:])
	s.evict()
	return woken
}

// leave removes the claim of p from the set and grants the steps that waited
// for it.
func (s *Set[T]) leave(p *Place[T]) {
	if len(p.steps) == 0 {
		s.lights.unuse(p)
		return
	}
	s.heavy--
	for i := range p.steps {
		if st := &p.steps[i]; st.node != nil {
			s.dequeue(st)
			st.node, st.place = nil, nil
		}
	}
	p.steps, p.uses = p.steps[:0], nil
	if cap(p.steps) > maxIdleSteps {
		p.steps = nil
	}
}

// node returns the node of k. It makes the missing nodes, of k and its
// ancestors.
func (s *Set[T]) node(k Key) *node[T] {
	if k.path == "" {
		return s.root
	}
	if n, ok := s.nodes.get(k); ok {
		return n
	}
	n := s.deepest(k)
	for len(n.key.path) < len(k.path) {
		start := len(n.key.path)
		if start > 0 {
			start++ // the separator
		}
		child, ok := s.spareNodes.Get().(*node[T])
		if !ok {
			child = new(node[T])
		}
		child.key, child.parent, child.depth = k.owned(k.segmentEnd(start)), n, n.depth+1
		n.kids++
		s.nodes.put(child.key, child)
		n = child
	}
	return n
}

// deepest returns the deepest node that contains k; see "When neighbours
// decide".
func (s *Set[T]) deepest(k Key) *node[T] {
	n := s.nodes.before(k)
	for !n.key.Contains(k) {
		n = n.parent
	}
	return n
}

// listIdle appends n, which has become idle, to the candidates for removal.
func (s *Set[T]) listIdle(n *node[T]) {
	n.listed = true
	s.idleBytes += len(n.key.path)
	n.prevIdle = s.idleLast
	if s.idleLast == nil {
		s.idleFirst = n
	} else {
		s.idleLast.nextIdle = n
	}
	s.idleLast = n
}

// unlistIdle must be called before n is used again or removed.
func (s *Set[T]) unlistIdle(n *node[T]) {
	n.listed = false
	s.idleBytes -= len(n.key.path)
	if n.prevIdle == nil {
		s.idleFirst = n.nextIdle
	} else {
		n.prevIdle.nextIdle = n.nextIdle
	}
	if n.nextIdle == nil {
		s.idleLast = n.prevIdle
	} else {
		n.nextIdle.prevIdle = n.prevIdle
	}
	n.prevIdle, n.nextIdle = nil, nil
}

// evict removes the nodes that have been idle for longest, until few enough
// unused ones are left. Every unused subtree has an idle node.
func (s *Set[T]) evict() {
	for s.idleFirst != nil && (s.nodes.len()-s.used > maxIdleNodes || s.idleBytes > maxIdleBytes) {
		s.looked++
		n := s.idleFirst
		s.unlistIdle(n)
		s.nodes.remove(n.key)
		parent := n.parent
		*n = node[T]{}
		s.spareNodes.Put(n)
		parent.kids--
		if parent.idle() {
			s.listIdle(parent)
		}
	}
}

// All yields the requests in the set with their places, in tree order, and
// those for one key in order of arrival. The set must not change during the
// iteration.
func (s *Set[T]) All() iter.Seq2[Request, *Place[T]] {
	return func(yield func(Request, *Place[T]) bool) {
		if s.root == nil {
			return
		}
		var lights []lightSlot[T]
		for p := s.lights.oldest; p != nil; p = p.newer {
			for _, l := range p.lights {
				lights = append(lights, lightSlot[T]{l, p})
			}
		}
		slices.SortFunc(lights, func(a, b lightSlot[T]) int { return a.key.Compare(b.key) })
		yieldLights := func(before *Key) bool {
			for len(lights) > 0 && (before == nil || lights[0].key.Compare(*before) < 0) {
				l := lights[0]
				lights = lights[1:]
				if !yield(Request{l.key, Exclusive}, l.place) {
					return false
				}
			}
			return true
		}
		more := true
		s.nodes.all(func(n *node[T]) bool {
			more = yieldLights(&n.key) && n.yield(yield)
			return more
		})
		if more {
			yieldLights(nil)
		}
	}
}

// yield yields the requests for n.
func (n *node[T]) yield(yield func(Request, *Place[T]) bool) bool {
	var all []*step[T]
	for r := n.head; r != nil; r = r.next {
		for st := r.steps.first(); st != nil && r.mode.real(); st = st.following() {
			all = append(all, st)
		}
	}
	slices.SortFunc(all, func(a, b *step[T]) int { return cmp.Compare(a.place.seq, b.place.seq) })
	for _, st := range all {
		if !yield(st.request(), st.place) {
			return false
		}
	}
	return true
}
