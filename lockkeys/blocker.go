package lockkeys

// Blocker names one request that the claim of p waits for, and whose it is. It
// reports false if p waits for nothing. It only reads. Where a claim waits for
// something below one of its keys, the subtree is searched for it in tree
// order: that is what a snapshot or an observer pays, not admission.
func (s *Set[T]) Blocker(p *Place[T]) (request Request, by *Place[T], ok bool) {
	for i := range p.steps {
		if st := &p.steps[i]; st.waiting {
			return s.ahead(st)
		}
	}
	return Request{}, nil, false
}

// ahead names what the step st waits for.
func (s *Set[T]) ahead(st *step[T]) (Request, *Place[T], bool) {
	r := st.node.firstX
	if st.mode != intentShared {
		r = st.run.prev // nil if an X waits for readers only
		for r != nil && r.mode == st.mode && st.mode.groups() {
			r = r.prev
		}
	}
	if r != nil && r.mode.real() && !(r.mode == sharedIntent && st.mode == shared) {
		other := r.steps.first()
		return other.request(), other.place, true
	}
	// What it waits for has only stated its intention here: it is below.
	var found *step[T]
	s.nodes.below(st.node.key, func(n *node[T]) bool {
		found = n.claimedBefore(st)
		return found == nil
	})
	return found.request(), found.place, true
}

// claimedBefore returns a real step at n, a node below that of st, that
// conflicts with st and goes before it, or nil.
func (n *node[T]) claimedBefore(st *step[T]) *step[T] {
	for r := n.head; r != nil; r = r.next {
		if r.mode != exclusive && (st.mode != exclusive || !r.mode.real()) {
			continue
		}
		for other := r.steps.first(); other != nil; other = other.following() {
			if other.place.before(st.place) {
				return other
			}
		}
	}
	return nil
}

func (st *step[T]) request() Request {
	if st.mode == exclusive {
		return Request{st.node.key, Exclusive}
	}
	return Request{st.node.key, Shared}
}

// Behind returns the next in line for what p claims: a place whose claim
// equals that of p and waits for p, and for nothing else but what p waits for
// itself. It is what may be handed over together with p.
//
// Behind answers at a glance, and there may be such a place where it reports
// false: when p waits for a claim of one of its ancestors, or has been shrunk.
func (s *Set[T]) Behind(p *Place[T]) (next *Place[T], ok bool) {
	for i := range p.steps {
		st := &p.steps[i]
		if st.mode == exclusive {
			if st.run.next == nil || st.run.next.mode != exclusive {
				return nil, false
			}
			next = st.run.next.steps.first().place
			break
		}
	}
	if next == nil {
		return nil, false
	}
	mine := p.requested(0)
	for i := range next.steps {
		its := &next.steps[i]
		if !its.mode.real() {
			if its.waiting {
				return nil, false
			}
			continue
		}
		if mine == len(p.steps) || p.steps[mine].node != its.node || p.steps[mine].mode != its.mode {
			return nil, false
		}
		if its.waiting && (its.mode != exclusive || its.run.prev != p.steps[mine].run) {
			return nil, false
		}
		if its.waiting && p.steps[mine].run.behind.first() != nil {
			return nil, false // a reader waits for p, and next for it
		}
		mine = p.requested(mine + 1)
	}
	if mine < len(p.steps) {
		return nil, false
	}
	return next, true
}

// requested returns the index of the first step from i on that is for a
// request, or the number of steps.
func (p *Place[T]) requested(i int) int {
	for i < len(p.steps) && !p.steps[i].mode.real() {
		i++
	}
	return i
}
