package lockkeys

// Shrink removes the requests for the given keys from the granted claim of p,
// which goes on holding the others, and appends to woken the places that are
// granted as a result, in no particular order. Keys that p has no request for
// are ignored.
//
// Its cost is linear in keys × depth and in the waits that end; the first
// Shrink of p also visits all its requests. It panics if p is in no set or
// waits.
func (s *Set[T]) Shrink(p *Place[T], keys []Key, woken []*Place[T]) []*Place[T] {
	if p.seq == 0 {
		panic("lockkeys: Set.Shrink of a place that is not in use")
	}
	if p.blocked > 0 {
		panic("lockkeys: Set.Shrink of a place that is not granted")
	}
	had := len(woken)
	s.woken = woken
	for _, k := range keys {
		if len(p.steps) == 0 {
			s.shrinkLight(p, k)
		} else {
			s.shrinkHeavy(p, k)
		}
	}
	woken, s.woken = s.woken, nil
	hold(woken[had:])
	s.evict()
	return woken
}

// shrinkHeavy removes the request for k from the claim of p, which has steps:
// the step at k gets the mode that p's requests below it still need, and so do
// its ancestors.
func (s *Set[T]) shrinkHeavy(p *Place[T], k Key) {
	if p.uses == nil {
		p.countUses()
		s.looked += len(p.steps)
	}
	n, _ := s.nodes.get(k)
	u := p.uses[n]
	if u == nil || !u.step.mode.real() {
		return
	}
	for own := false; u != nil; {
		s.looked++
		n, old := u.step.node, u.step.mode
		mode, any := u.mode(own)
		if any && mode == old {
			break
		}
		above := p.uses[n.parent]
		if above != nil {
			above.count(old, -1)
		}
		if any {
			s.weaken(u.step, mode)
			if above != nil {
				above.count(mode, 1)
			}
		} else {
			delete(p.uses, n)
			s.dequeue(u.step)
			*u.step = step[T]{}
		}
		u = above
		own = u != nil && u.step.mode.ownShared()
	}
}

// use describes a shrunk claim at a node: its step there, and the number of
// child nodes at which its mode is exclusive (X, SIX or IX) or shared (S or
// IS).
type use[T any] struct {
	step              *step[T]
	exclusive, shared int
}

// countUses makes the uses of all steps of p.
func (p *Place[T]) countUses() {
	p.uses = make(map[*node[T]]*use[T], len(p.steps))
	all := make([]use[T], len(p.steps))
	for i := range p.steps {
		all[i].step = &p.steps[i]
		p.uses[p.steps[i].node] = &all[i]
	}
	for i := range p.steps {
		if above := p.uses[p.steps[i].node.parent]; above != nil {
			above.count(p.steps[i].mode, 1)
		}
	}
}

// count adds by to the number of child nodes with this mode.
func (u *use[T]) count(mode nodeMode, by int) {
	if mode == intentShared || mode == shared {
		u.shared += by
	} else {
		u.exclusive += by
	}
}

// mode returns the mode that the step needs for the claim's requests below its
// node and, if own, for a shared request for the node; any is false if it needs
// none.
func (u *use[T]) mode(own bool) (mode nodeMode, any bool) {
	switch {
	case own && u.exclusive > 0:
		return sharedIntent, true
	case own:
		return shared, true
	case u.exclusive > 0:
		return intentExclusive, true
	}
	return intentShared, u.shared > 0
}

// weaken gives a granted step a weaker mode and grants the steps that no longer
// wait for it. The step stays granted, and blocks only fewer steps than before.
func (s *Set[T]) weaken(st *step[T], mode nodeMode) {
	n, r := st.node, st.run
	if st.mode.real() && !mode.real() {
		st.unlist()
		s.requests.drop(n.depth)
	}
	st.mode = mode
	if mode == intentShared {
		st.unlist()
		st.run = nil
		n.readers++
		if r.live--; r.live == 0 {
			s.endRun(n, r)
		}
		return
	}
	r.mode = mode // it was SIX, alone in its run: X and S end with their request, IX becomes IS
	if r.next != nil && r.joins(r.next.mode) {
		s.merge(n, r, r.next)
	}
}
