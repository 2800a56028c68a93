package lockkeys

// Conflicting appends to places those of all claims in the set that conflict
// with c, in any order of arrival; a place may be appended more than once. It
// does not change the set. Its cost is linear in requests × depth and in the
// number of claims on the keys of c, their ancestors and their descendants.
func (s *Set[T]) Conflicting(c *Claim, places []*Place[T]) []*Place[T] {
	if s.root == nil {
		return places
	}
	places = append(places, s.gather(c)...)
	s.forget()
	for _, r := range c.Requests() {
		for depth := range r.Key.Depth() {
			if n, ok := s.nodes.get(r.Key.Ancestor(depth)); ok {
				places = n.conflicting(r, places)
			}
		}
		if n, ok := s.nodes.get(r.Key); ok {
			places = n.conflicting(r, places)
			s.nodes.below(r.Key, func(n *node[T]) bool {
				places = n.conflicting(r, places)
				return true
			})
		}
	}
	return places
}

// conflicting appends the places of the requests for n that conflict with r, a
// request for the same key, an ancestor or a descendant.
func (n *node[T]) conflicting(r Request, places []*Place[T]) []*Place[T] {
	for lane := n.head; lane != nil; lane = lane.next {
		if !lane.mode.real() || r.Mode == Shared && lane.mode != exclusive {
			continue
		}
		for st := lane.steps.first(); st != nil; st = st.following() {
			places = append(places, st.place)
		}
	}
	return places
}
