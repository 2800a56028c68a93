package lockkeys

// Blocker returns one request that the claim of p waits for, and the place of
// its claim. ok is false if p waits for nothing. Blocker does not change the
// set. If the claim waits for a descendant of one of its keys, Blocker searches
// that subtree in tree order: a cost for snapshots and observers, not for
// admission.
func (s *Set[T]) Blocker(p *Place[T]) (request Request, by *Place[T], ok bool) {
	for i := range p.steps {
		if st := &p.steps[i]; st.waiting {
			return s.ahead(st)
		}
	}
	return Request{}, nil, false
}

// ahead returns what the step st waits for.
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
	// What it waits for has only an intention mode here, so the request itself
	// is at a descendant.
	var found *step[T]
	s.nodes.below(st.node.key, func(n *node[T]) bool {
		found = n.claimedBefore(st)
		return found == nil
	})
	return found.request(), found.place, true
}

// claimedBefore returns a real step at n, a descendant of the node of st, that
// conflicts with st and goes before it, or nil.
func (n *node[T]) claimedBefore(st *step[T]) *step[T] {
	for r := n.head; r != nil; r = r.next {
		if r.mode != exclusive && (st.mode != exclusive || !r.mode.real()) {
			continue
		}
		for other := r.steps.first(); other != nil; other = other.following() {
			if other.place.isAheadOf(st.place) {
				return other
			}
		}
	}
	return nil
}

// isAheadOf reports whether q, which waits and conflicts with p, waits for it. Of two
// in one batch, see Hold, the later waits for the earlier.
func (p *Place[T]) isAheadOf(q *Place[T]) bool {
	if q.holds && p.holds && !p.Granted() {
		return p.seq < q.seq
	}
	return p.before(q)
}

func (st *step[T]) request() Request {
	if st.mode == exclusive {
		return Request{st.node.key, Exclusive}
	}
	return Request{st.node.key, Shared}
}
