package lockkeys

// node is a key that claims in a [Set] use or lie below, with its queue.
//
// Invariant: the queue holds the steps of all claims in the set that use the
// node, in arrival order, such that a step is granted exactly when no earlier
// step still in the queue is incompatible with it:
//
//   - The lane is a list of runs of one mode each, X, SIX, S or IX. Steps of
//     one run do not conflict. Adjacent runs are of two modes, and then they
//     conflict; or of one mode, and then they conflict unless the mode groups,
//     in which case a run that stood between them has been withdrawn.
//   - So what is granted in the lane is its first run and the runs of the same
//     mode right behind it, if that mode groups: unless the first is an X and
//     there are readers.
//   - IS steps conflict with X only. Those before the first X of the lane are
//     granted and counted in readers; the others wait in behindX.
//
// A withdrawn step leaves the others where they are, so that it costs no more
// than the end of a granted one.
type node[T any] struct {
	// What an unhindered claim needs comes first, for the processor's cache.
	key     Key
	parent  *node[T] // nil for the root
	head    *run[T]  // the lane
	tail    *run[T]
	readers int
	own     run[T] // one run for the lane, which mostly needs no more
	ownUsed bool
	listed  bool // in the set's list of idle nodes

	depth   int      // of the key
	kids    int      // nodes whose parent is this one
	firstX  *run[T]  // the first X of the lane
	behindX steps[T] // the IS steps that wait

	nextIdle *node[T]
	stamp    uint64 // of the last Add or Shrink that came by, and
	at       int    // the index of its step for this node
}

// used tells whether a claim in the set uses the node; its ancestors are used
// then as well.
func (n *node[T]) used() bool { return n.head != nil || n.readers > 0 }

// takesIntent tells whether an IX step would be granted.
func (n *node[T]) takesIntent() bool {
	return n.tail == nil || n.tail.granted && n.tail.mode == intentExclusive
}

// idle tells whether nothing needs the node, so that it can go.
func (n *node[T]) idle() bool { return n.kids == 0 && !n.used() && n.parent != nil }

// run is a group of adjacent steps of one mode in a node's lane.
type run[T any] struct {
	live       int // steps in the run, waiting or granted
	mode       nodeMode
	granted    bool
	steps      steps[T] // those of them that wait, or are real
	prev, next *run[T]
}

// step is the use that one claim makes of one node.
type step[T any] struct {
	node    *node[T]
	place   *Place[T]
	run     *run[T] // its run in the lane; nil for IS, which is in none
	mode    nodeMode
	waiting bool

	prev, next *step[T] // in run.steps or node.behindX
}

// steps is a list of steps in arrival order.
type steps[T any] struct{ first, last *step[T] }

func (l *steps[T]) push(s *step[T]) {
	s.prev, s.next = l.last, nil
	if l.last == nil {
		l.first = s
	} else {
		l.last.next = s
	}
	l.last = s
}

func (l *steps[T]) remove(s *step[T]) {
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// replace puts s where old is in the list.
func (l *steps[T]) replace(old, s *step[T]) {
	s.prev, s.next = old.prev, old.next
	if s.prev == nil {
		l.first = s
	} else {
		s.prev.next = s
	}
	if s.next == nil {
		l.last = s
	} else {
		s.next.prev = s
	}
}

// enqueue puts st at the end of its node's queue, granted or waiting.
func (s *Set[T]) enqueue(st *step[T]) {
	n := st.node
	if !n.used() {
		s.used++
	}
	if st.mode.real() {
		s.requests.add(n.depth)
	}
	if st.mode == intentShared {
		if n.firstX == nil {
			n.readers++
			return
		}
		st.wait()
		n.behindX.push(st)
		return
	}
	r := n.tail
	if r == nil || r.mode != st.mode || !st.mode.groups() {
		r = s.newRun(n, st.mode)
		r.granted = r.free(n)
	}
	st.run = r
	r.live++
	if !r.granted {
		st.wait()
		r.steps.push(st)
	} else if st.mode.real() {
		r.steps.push(st)
	}
}

func (st *step[T]) wait() {
	st.waiting = true
	st.place.blocked++
}

// grant ends the waiting of st, and of its place if that was the last one.
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
	switch {
	case st.mode == intentShared && st.waiting:
		n.behindX.remove(st)
	case st.mode == intentShared:
		n.readers--
		s.grantFrom(n, n.head)
	default:
		if st.waiting || st.mode.real() {
			r.steps.remove(st)
		}
		r.live--
		if r.live == 0 {
			s.endRun(n, r)
		}
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

// left is called when a step has left the queue of n.
func (s *Set[T]) left(n *node[T]) {
	if !n.used() {
		s.used--
		if n.idle() {
			s.listIdle(n)
		}
	}
}

// endRun takes an empty run out of the lane. Mostly that is the granted first
// one; a run from the middle is left empty when a claim is withdrawn.
func (s *Set[T]) endRun(n *node[T], r *run[T]) {
	before, behind := r.prev, r.next
	if before == nil {
		n.head = behind
	} else {
		before.next = behind
	}
	if behind == nil {
		n.tail = before
	} else {
		behind.prev = before
	}
	if n.firstX == r {
		s.moveFirstX(n, behind)
	}
	s.freeRun(n, r)
	s.grantFrom(n, behind)
}

// moveFirstX finds the first X of the lane again, at r or behind it, and
// grants the IS steps that arrived before it. No run is gone over twice: what
// is passed here is in front of the first X from now on.
func (s *Set[T]) moveFirstX(n *node[T], r *run[T]) {
	for r != nil && r.mode != exclusive {
		r = r.next
	}
	n.firstX = r
	for st := n.behindX.first; st != nil; st = n.behindX.first {
		if r != nil && r.steps.first.place.seq < st.place.seq {
			return
		}
		n.behindX.remove(st)
		n.readers++
		s.grant(st)
	}
}

// grantFrom grants the run r of the lane, if it waits and can go, and the runs
// behind it that can go with it.
func (s *Set[T]) grantFrom(n *node[T], r *run[T]) {
	for r != nil && !r.granted && r.free(n) {
		r.granted = true
		for st := r.steps.first; st != nil; {
			next := st.next
			s.grant(st)
			if !st.mode.real() {
				r.steps.remove(st)
			}
			st = next
		}
		r = r.next
	}
}

// free tells whether nothing in the queue of n is in the way of its run r.
func (r *run[T]) free(n *node[T]) bool {
	if r.prev == nil {
		return r.mode != exclusive || n.readers == 0
	}
	return r.prev.granted && r.prev.mode == r.mode && r.mode.groups()
}

// newRun appends an empty run to the lane of n.
func (s *Set[T]) newRun(n *node[T], mode nodeMode) *run[T] {
	r := &n.own
	if n.ownUsed {
		var ok bool
		if r, ok = s.spareRuns.Get().(*run[T]); !ok {
			r = new(run[T])
		}
	}
	n.ownUsed = true
	r.mode, r.granted, r.live, r.prev, r.next = mode, false, 0, n.tail, nil
	if n.tail == nil {
		n.head = r
	} else {
		n.tail.next = r
	}
	n.tail = r
	if mode == exclusive && n.firstX == nil {
		n.firstX = r
	}
	return r
}

// freeRun keeps a run, which has no steps any more, for reuse.
func (s *Set[T]) freeRun(n *node[T], r *run[T]) {
	r.prev, r.next = nil, nil
	if r == &n.own {
		n.ownUsed = false
	} else {
		s.spareRuns.Put(r)
	}
}
