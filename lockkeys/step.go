package lockkeys

// step is the use of one node by one claim.
type step[T any] struct {
	node    *node[T]
	place   *Place[T]
	run     *run[T] // its run in the lane; nil for IS, which is in none
	mode    nodeMode
	waiting bool

	link link[T] // in its list, if it is in one
}

// steps is a list of steps: a ring of links with a sentinel, which belongs to
// no step, between the last and the first. So a step can leave its list without
// knowing which it is, and a list can be appended to another, in constant time.
type steps[T any] struct{ ring link[T] }

type link[T any] struct {
	prev, next *link[T]
	step       *step[T]
}

// first returns the first step of the list, or nil.
func (l *steps[T]) first() *step[T] {
	if l.ring.next == nil {
		return nil // never used
	}
	return l.ring.next.step
}

// following returns the step behind st in its list, or nil.
func (st *step[T]) following() *step[T] { return st.link.next.step }

// list puts st, which is granted, into the list of its node or its run.
func (st *step[T]) list() {
	if st.mode == intentShared {
		st.node.early.push(st)
	} else {
		st.run.steps.push(st)
	}
}

// listed reports whether st is in a list.
func (st *step[T]) listed() bool { return st.link.next != nil }

// push puts st at the end of the list.
func (l *steps[T]) push(st *step[T]) {
	if l.ring.next == nil {
		l.ring.prev, l.ring.next = &l.ring, &l.ring
	}
	last := l.ring.prev
	st.link = link[T]{last, &l.ring, st}
	last.next, l.ring.prev = &st.link, &st.link
}

// unlist removes st from its list, if it is in one.
func (st *step[T]) unlist() {
	if st.link.next != nil {
		st.link.prev.next, st.link.next.prev = st.link.next, st.link.prev
		st.link = link[T]{}
	}
}

// take moves all steps of the other list to the end of this one.
func (l *steps[T]) take(other *steps[T]) {
	first, last := other.ring.next, other.ring.prev
	if first == nil || first == &other.ring {
		return
	}
	other.ring.prev, other.ring.next = &other.ring, &other.ring
	if l.ring.next == nil {
		l.ring.prev, l.ring.next = &l.ring, &l.ring
	}
	first.prev, last.next = l.ring.prev, &l.ring
	l.ring.prev.next, l.ring.prev = first, last
}
