package lockkeys

// Conflicting appends to places those of the claims in the set that conflict
// with c, whatever their order of arrival, some of them more than once. It only
// reads. Its cost is linear in requests × depth and in what is claimed at, above
// and below the keys of c.
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
// request for its key, or for one above or below.
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
