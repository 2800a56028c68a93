package lockkeys

// addFree adds an exclusive claim that nothing is in the way of, as mostly
// nothing is, and reports false, having changed nothing, for any other. It
// makes steps for the requests only: the claim's intentions, which are granted
// and will stay so, are just counted in the first runs of the nodes above.
func (s *Set[T]) addFree(p *Place[T], c *Claim) bool {
	steps := p.steps[:0]
	for _, r := range c.Requests() {
		if r.Mode != Exclusive {
			return false
		}
		n := s.node(r.Key)
		if n.used() {
			return false
		}
		for a := n.parent; a != nil; a = a.parent {
			if !a.takesIntent() {
				return false
			}
		}
		steps = append(steps, step[T]{node: n, place: p, mode: exclusive})
	}
	p.steps, p.free = steps, true
	for i := range steps {
		st := &steps[i]
		st.run = s.newFirstRun(st.node, exclusive)
		st.run.steps.push(st)
		for a := st.node.parent; a != nil; a = a.parent {
			if a.head != nil {
				a.head.live++
			} else {
				s.newFirstRun(a, intentExclusive)
			}
		}
	}
	return true
}

// newFirstRun makes the first run of a lane, for one step, granted.
func (s *Set[T]) newFirstRun(n *node[T], mode nodeMode) *run[T] {
	if n.readers == 0 {
		s.used++
	}
	r := s.newRun(n, mode)
	r.granted, r.live = true, 1
	return r
}

// dequeueAbove takes the intentions of a request at n, added by addFree, out
// of the nodes above.
func (s *Set[T]) dequeueAbove(n *node[T]) {
	for a := n.parent; a != nil; a = a.parent {
		if a.head.live--; a.head.live == 0 {
			s.endRun(a, a.head)
			s.left(a)
		}
	}
}
