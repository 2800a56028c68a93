package lockkeys

// node is a key that claims in a [Set] use, or that has descendants they use,
// with its queue.
//
// Invariant: the queue holds the steps of all claims in the set that use the
// node: first those of claims that hold (see Place.holds), then the others in
// order of arrival. A step is granted exactly when no step in front of it is
// incompatible with it:
//
//   - The lane is a list of runs of one mode each, X, SIX, S or IX. Steps of
//     one run do not conflict, and are in no order; those of adjacent runs
//     all conflict.
//   - So the first run of the lane is granted and no other, unless it is an X
//     and there are readers: then it waits too.
//   - IS steps conflict with X only. Those in front of the first X of the lane
//     are granted, and counted in readers; each of the others waits at the last
//     X in front of it.
//
// Every step that waits, and every step for a request, is in a list. A granted
// step that is only an intention, as most are, is in none, unless its claim had
// to wait: then another step may still be inserted in front of it.
type node[T any] struct {
	// The fields that an uncontended claim needs come first, to share a cache
	// line.
	key     Key
	parent  *node[T] // nil for the root
	head    *run[T]  // the lane
	tail    *run[T]
	readers int
	own     run[T] // one run for the lane, which usually needs no more
	ownUsed bool
	listed  bool // whether it is in the set's list of idle nodes: if and only if it is idle

	depth  int      // of the key
	kids   int      // nodes whose parent is this one
	firstX *run[T]  // the first and the last X of the lane
	lastX  *run[T]  //
	early  steps[T] // the granted IS steps that are in a list

	prevIdle, nextIdle *node[T] // in that list

	stamp uint64 // of the last call of route that came by, and
	at    int    // the index of its step for this node
}

// used reports whether a claim in the set uses the node; its ancestors are used
// then as well.
func (n *node[T]) used() bool { return n.head != nil || n.readers > 0 }

// takesIntent reports whether a new IX step would be granted.
func (n *node[T]) takesIntent() bool {
	return n.tail == nil || n.tail.granted && n.tail.mode == intentExclusive
}

// idle reports whether nothing needs the node, so that it can be removed.
func (n *node[T]) idle() bool { return n.kids == 0 && !n.used() && n.parent != nil }

// run is a group of adjacent steps of one mode in a node's lane.
type run[T any] struct {
	live       int // steps in the run, waiting or granted
	mode       nodeMode
	granted    bool
	steps      steps[T] // of these, the ones that are in a list
	prev, next *run[T]

	// For an X only, which is a run of one step.
	prevX, nextX *run[T]
	behind       steps[T] // the IS steps that wait for it, and for no later X
}

// joins reports whether a step of this mode can be one of the run.
func (r *run[T]) joins(mode nodeMode) bool { return r.mode == mode && mode.groups() }

// enqueue puts st at the end of its node's queue, granted or waiting.
func (s *Set[T]) enqueue(st *step[T]) {
	n := st.node
	s.arrived(st)
	if st.mode == intentShared {
		n.read(st, n.lastX)
		return
	}
	r := n.tail
	if r == nil || !r.joins(st.mode) {
		r = s.newRun(n, st.mode, n.tail)
		r.granted = n.free(r)
	}
	st.join(r)
}

// arrived must be called before a step enters the queue of its node.
func (s *Set[T]) arrived(st *step[T]) {
	n := st.node
	if !n.used() {
		s.used++
		if n.listed {
			s.unlistIdle(n)
		}
	}
	if st.mode.real() {
		s.requests.add(n.depth)
	}
}

// read adds an IS step behind the run x, the last X in front of it; x is nil if
// there is none, and the step is granted.
func (n *node[T]) read(st *step[T], x *run[T]) {
	if x == nil {
		n.readers++
	} else {
		st.wait()
		x.behind.push(st)
	}
}

// join makes st one of the steps of r.
func (st *step[T]) join(r *run[T]) {
	st.run = r
	r.live++
	if !r.granted {
		st.wait()
	}
	if st.waiting || st.mode.real() {
		r.steps.push(st)
	}
}

func (st *step[T]) wait() {
	if !st.waiting {
		st.waiting = true
		st.place.blocked++
	}
}

// grant ends the wait of st, and that of its place if no other step of it
// waits.
func (s *Set[T]) grant(st *step[T]) {
	st.waiting = false
	st.place.blocked--
	if st.place.blocked == 0 {
		s.woken = append(s.woken, st.place)
	}
}

// dequeue takes st out of its node's queue and grants what waited for it.
func (s *Set[T]) dequeue(st *step[T]) {
	n, r := st.node, st.run
	st.unlist()
	if st.mode == intentShared {
		if !st.waiting {
			n.readers--
			s.grantHead(n)
		}
	} else if r.live--; r.live == 0 {
		s.endRun(n, r)
	}
	if st.waiting {
		st.waiting = false
		st.place.blocked--
	}
	if st.mode.real() {
		s.requests.drop(n.depth)
	}
	st.run = nil
	s.left(n)
}

// left must be called after a step has left the queue of n.
func (s *Set[T]) left(n *node[T]) {
	if !n.used() {
		s.used--
		if n.idle() {
			s.listIdle(n)
		}
	}
}

// endRun removes an empty run from the lane. Usually it is the first one, which
// was granted; a run in the middle becomes empty when a waiting claim is
// withdrawn.
func (s *Set[T]) endRun(n *node[T], r *run[T]) {
	before, behind := r.prev, r.next
	if r.mode == exclusive {
		s.endX(n, r)
	}
	s.cut(n, r)
	switch {
	case before == nil:
		s.grantHead(n)
	case behind != nil && before.joins(behind.mode):
		s.merge(n, before, behind)
	}
}

// merge makes one run of two that do not conflict. The run between them, which
// conflicted with both, is gone.
func (s *Set[T]) merge(n *node[T], r, from *run[T]) {
	if !r.granted && r.live < from.live {
		r, from = from, r
	}
	for st := from.steps.first(); st != nil; st = st.following() {
		st.run = r
		if r.granted {
			s.grant(st)
		}
	}
	r.live += from.live
	r.steps.take(&from.steps)
	s.cut(n, from)
}

// cut removes an empty run from the lane and keeps it for reuse.
func (s *Set[T]) cut(n *node[T], r *run[T]) {
	if r.prev == nil {
		n.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		n.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.prev, r.next, r.prevX, r.nextX = nil, nil, nil, nil
	if r == &n.own {
		n.ownUsed = false
	} else {
		s.spareRuns.Put(r)
	}
}

// endX removes an X from the chain of X runs. The IS steps that waited at it
// now wait at the X before it; if there is none, they are granted.
func (s *Set[T]) endX(n *node[T], x *run[T]) {
	if x.nextX == nil {
		n.lastX = x.prevX
	} else {
		x.nextX.prevX = x.prevX
	}
	if x.prevX != nil {
		x.prevX.nextX = x.nextX
		x.prevX.behind.take(&x.behind)
		return
	}
	n.firstX = x.nextX
	for st := x.behind.first(); st != nil; st = st.following() {
		n.readers++
		s.grant(st)
	}
	n.early.take(&x.behind)
}

// grantHead grants the first run of the lane, if it waits and nothing is in its
// way.
func (s *Set[T]) grantHead(n *node[T]) {
	r := n.head
	if r == nil || r.granted || !n.free(r) {
		return
	}
	r.granted = true
	for st := r.steps.first(); st != nil; st = st.following() {
		s.grant(st)
	}
}

// free reports whether nothing in the queue blocks the run r.
func (n *node[T]) free(r *run[T]) bool {
	return r.prev == nil && (r.mode != exclusive || n.readers == 0)
}

// newRun adds an empty run to the lane of n, behind the given one, or at the
// front if that is nil.
func (s *Set[T]) newRun(n *node[T], mode nodeMode, behind *run[T]) *run[T] {
	r := &n.own
	if n.ownUsed {
		var ok bool
		if r, ok = s.spareRuns.Get().(*run[T]); !ok {
			r = new(run[T])
		}
	}
	n.ownUsed = true
	r.mode, r.granted, r.live, r.prev, r.next = mode, false, 0, behind, n.head
	if behind == nil {
		n.head = r
	} else {
		r.next = behind.next
		behind.next = r
	}
	if r.next == nil {
		n.tail = r
	} else {
		r.next.prev = r
	}
	if mode == exclusive {
		n.chain(r)
	}
	return r
}

// chain adds the X run r, which is in the lane, to the chain of X runs.
func (n *node[T]) chain(r *run[T]) {
	x := n.lastX
	if r.next != nil {
		for x = r.prev; x != nil && x.mode != exclusive; x = x.prev {
		}
	}
	r.prevX, r.nextX = x, n.firstX
	if x == nil {
		n.firstX = r
	} else {
		r.nextX = x.nextX
		x.nextX = r
	}
	if r.nextX == nil {
		n.lastX = r
	} else {
		r.nextX.prevX = r
	}
}
