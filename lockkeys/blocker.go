package lockkeys

// Blocker names one request that the claim of p waits for, and whose it is:
// the nearest one ahead of it. It reports false if p waits for nothing. It
// only reads. Where a claim waits for something below one of its keys, the
// subtree is searched for it in tree order: that is what a snapshot or an
// observer pays, not admission.
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
	r := st.run
	if st.mode != intentShared {
		r = st.run.prev // nil if an X waits for readers only
	}
	if r != nil && r.mode.real() && !(r.mode == sharedIntent && st.mode == shared) {
		if other := r.steps.first; other != nil {
			return other.request(), other.place, true
		}
	}
	// What it waits for has only stated its intention here: it is below.
	var found *step[T]
	s.index.AscendGreaterOrEqual(st.node, func(n *node[T]) bool {
		if !st.node.key.Contains(n.key) {
			return false
		}
		if n != st.node {
			found = n.claimedBefore(st)
		}
		return found == nil
	})
	if found == nil {
		return Request{}, nil, false
	}
	return found.request(), found.place, true
}

// claimedBefore returns the first real step at n, a node below that of st,
// which is of an earlier claim than st and which st waits for.
func (n *node[T]) claimedBefore(st *step[T]) *step[T] {
	for r := n.head; r != nil; r = r.next {
		if !r.mode.real() || st.mode != exclusive && r.mode != exclusive {
			continue
		}
		for other := r.steps.first; other != nil; other = other.next {
			if other.place.seq < st.place.seq && other.place != st.place {
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

// Behind returns the place, if there is one, whose claim equals that of p, is
// exclusive, and waits for p alone: the next of its keys in line. It is what
// may be handed over together with p.
func (s *Set[T]) Behind(p *Place[T]) (next *Place[T], ok bool) {
	for i := range p.steps {
		st := &p.steps[i]
		if st.mode == exclusive {
			if st.run.next == nil || st.run.next.mode != exclusive {
				return nil, false
			}
			next = st.run.next.steps.first.place
			break
		}
	}
	if next == nil || len(next.steps) != len(p.steps) {
		return nil, false
	}
	for i := range next.steps {
		mine, its := &p.steps[i], &next.steps[i]
		if mine.node != its.node || mine.mode != its.mode {
			return nil, false
		}
		if its.waiting && (its.mode != exclusive || its.run.prev != mine.run || mine.run.after.first != nil) {
			return nil, false
		}
	}
	return next, true
}
