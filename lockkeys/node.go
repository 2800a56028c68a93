package lockkeys

// node is a key that claims in a [Set] use or lie below, with its queue.
//
// Invariant: the queue holds the steps of all claims in the set that use the
// node, in arrival order, such that a step is granted exactly when no earlier
// step still in the queue is incompatible with it:
//
//   - The lane is a list of runs of one mode each, X, SIX, S or IX. Adjacent
//     runs are incompatible, and so each waits for the one before it: only
//     the first can be granted. Steps of one run do not conflict.
//   - IS steps conflict with X only. Those before the first X of the lane are
//     granted and counted in readers; the others wait in the after list of
//     the last X that arrived before them.
//   - The first run is granted, unless it is an X and there are readers.
type node[T any] struct {
	key     Key
	parent  *node[T] // nil for the root
	kids    int      // nodes whose parent is this one
	head    *run[T]  // the lane
	tail    *run[T]
	lastX   *run[T] // the last X of the lane
	readers int

	listed   bool // in the set's list of idle nodes
	nextIdle *node[T]
	stamp    uint64 // of the last Add or Shrink that came by, and
	at       int    // the index of its step for this node
}

// used tells whether a claim in the set uses the node; its ancestors are used
// then as well.
func (n *node[T]) used() bool { return n.head != nil || n.readers > 0 }

// idle tells whether nothing needs the node, so that it can go.
func (n *node[T]) idle() bool { return n.kids == 0 && !n.used() && n.parent != nil }

// run is a maximal group of adjacent steps of one mode in a node's lane.
type run[T any] struct {
	mode       nodeMode
	granted    bool
	live       int      // steps in the run, waiting or granted
	steps      steps[T] // those of them that wait, or are real
	after      steps[T] // of an X: the IS steps that wait for it
	prev, next *run[T]
}

// step is the use that one claim makes of one node.
type step[T any] struct {
	node    *node[T]
	place   *Place[T]
	run     *run[T] // its run; for an IS step that waits, the X it waits for
	mode    nodeMode
	waiting bool

	prev, next *step[T] // in run.steps or run.after
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

// enqueue puts st at the end of its node's queue, granted or waiting.
func (s *Set[T]) enqueue(st *step[T]) {
	n := st.node
	if !n.used() {
		s.used++
	}
	if st.mode == intentShared {
		if n.lastX == nil {
			n.readers++
			return
		}
		st.run = n.lastX
		st.run.after.push(st)
		st.wait()
		return
	}
	r := n.tail
	if r == nil || r.mode != st.mode || !st.mode.groups() {
		r = s.newRun(n, st.mode)
		r.granted = r.prev == nil && (r.mode != exclusive || n.readers == 0)
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
		r.after.remove(st)
	case st.mode == intentShared:
		n.readers--
		s.grantHead(n)
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
	st.run = nil
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
	if r.mode == exclusive {
		s.endExclusive(n, r)
	}
	s.freeRun(r)
	if before != nil && behind != nil && before.mode == behind.mode && before.mode.groups() {
		s.merge(n, before, behind)
	}
	s.grantHead(n)
}

// endExclusive hands the IS steps that waited for the X run r, which has left
// the lane, to the X before it; if there is none they are granted.
func (s *Set[T]) endExclusive(n *node[T], r *run[T]) {
	x := r.prev
	for x != nil && x.mode != exclusive {
		x = x.prev
	}
	if n.lastX == r {
		n.lastX = x
	}
	for st := r.after.first; st != nil; st = r.after.first {
		r.after.remove(st)
		if x != nil {
			st.run = x
			x.after.push(st)
			continue
		}
		st.run = nil
		n.readers++
		s.grant(st)
	}
}

// merge moves the steps of run b into run a just before it.
func (s *Set[T]) merge(n *node[T], a, b *run[T]) {
	for st := b.steps.first; st != nil; st = b.steps.first {
		b.steps.remove(st)
		st.run = a
		if a.granted {
			s.grant(st)
		}
		if !a.granted || st.mode.real() {
			a.steps.push(st)
		}
	}
	a.live += b.live
	a.next = b.next
	if b.next == nil {
		n.tail = a
	} else {
		b.next.prev = a
	}
	s.freeRun(b)
}

// grantHead grants the first run of the lane if it waits and can go.
func (s *Set[T]) grantHead(n *node[T]) {
	r := n.head
	if r == nil || r.granted || r.mode == exclusive && n.readers > 0 {
		return
	}
	r.granted = true
	for st := r.steps.first; st != nil; {
		next := st.next
		s.grant(st)
		if !st.mode.real() {
			r.steps.remove(st)
		}
		st = next
	}
}

// newRun appends an empty run to the lane of n.
func (s *Set[T]) newRun(n *node[T], mode nodeMode) *run[T] {
	r := s.freeRuns
	if r == nil {
		r = new(run[T])
	} else {
		s.freeRuns = r.next
		s.freeRunCount--
	}
	*r = run[T]{mode: mode, prev: n.tail}
	if n.tail == nil {
		n.head = r
	} else {
		n.tail.next = r
	}
	n.tail = r
	if mode == exclusive {
		n.lastX = r
	}
	return r
}

// maxFreeRuns bounds the runs kept for reuse.
const maxFreeRuns = 1024

func (s *Set[T]) freeRun(r *run[T]) {
	if s.freeRunCount >= maxFreeRuns {
		return
	}
	*r = run[T]{next: s.freeRuns}
	s.freeRuns = r
	s.freeRunCount++
}
