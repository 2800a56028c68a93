package lockkeys

// Behind returns the earliest place that conflicts with p, is directly behind it
// in line, and waits only for p and for places for which with reports true, which
// wait only for each other or not at all. Its message may be processed in one
// batch with theirs.
//
// Behind does not search: its cost is linear in the keys × depth of p and of the
// places directly behind it, one at each key. So it may report false although there
// is such a place: when several wait side by side for p, as readers do, or when it
// waits for a claim that only has an intention mode where the two meet, and that is
// not the claim of p.
func (s *Set[T]) Behind(p *Place[T], with func(*Place[T]) bool) (next *Place[T], ok bool) {
	for i := range p.steps {
		candidate := p.steps[i].behind()
		if candidate != nil && (next == nil || candidate.seq < next.seq) && candidate.waitsOnlyFor(p, with) {
			next = candidate
		}
	}
	return next, next != nil
}

// behind returns the place that waits directly behind st, if there is just one.
func (st *step[T]) behind() *Place[T] {
	if st.node == nil { // shrunk
		return nil
	}
	next := st.node.head // the first of the lane, for a reader
	if st.run != nil {
		if next = st.run.next; st.run.behind.only() != nil {
			return st.run.behind.only().place
		}
	}
	if next == nil || next.live > 1 || next.steps.first() == nil {
		return nil
	}
	return next.steps.first().place
}

// waitsOnlyFor reports whether p waits for last, and each step of p that waits does
// so for a step of last, or of a place for which with reports true. Those places wait
// for nothing else, so it is enough to look at what is directly in front of the step.
func (p *Place[T]) waitsOnlyFor(last *Place[T], with func(*Place[T]) bool) bool {
	if p.blocked == 0 || p.holds {
		return false
	}
	direct := false
	for i := range p.steps {
		st := &p.steps[i]
		if !st.waiting {
			continue
		}
		mine := last.at(st.node) // the step of last at this node, or nil
		if st.mode == intentShared {
			// It waits for the last X in front of it: that of last, if it is in its list.
			if mine == nil || mine.run == nil || mine.run.behind.only() != st {
				return false
			}
			direct = true
			continue
		}
		front := st.run.prev
		readers, most := st.node.readers, 0
		switch {
		case front == nil: // an X that waits for readers: one, last
			if mine == nil || mine.mode != intentShared || mine.waiting {
				return false
			}
			most, direct = 1, true
		case front.mode == exclusive:
			by := front.steps.first().place
			if by != last && !with(by) {
				return false
			}
			direct = direct || by == last
		case mine == nil || mine.run != front || front.live > 1:
			return false
		default:
			direct = true
		}
		if st.mode != exclusive {
			continue
		}
		if x := st.run.prevX; x != nil && x.behind.first() != nil || x == nil && readers > most {
			return false // readers are in front of it, too
		}
	}
	return direct
}

// at returns the step of p at a node, or nil.
func (p *Place[T]) at(n *node[T]) *step[T] {
	for i := range p.steps {
		if p.steps[i].node == n {
			return &p.steps[i]
		}
	}
	return nil
}

// only returns the one step of the list, or nil if it has none or several.
func (l *steps[T]) only() *step[T] {
	if first := l.first(); first != nil && first.following() == nil {
		return first
	}
	return nil
}
