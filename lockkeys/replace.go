package lockkeys

// Replace replaces the claim of p, which is in the set, with c, which may be
// wider, narrower or equal. It appends to woken the other places that are
// granted as a result, in no particular order; [Place.Granted] reports whether
// p is.
//
// The new claim keeps the position of p in the order of arrival among all that
// wait: behind those that were added before p, and in front of those that were
// added after it and conflict with c, even if these did not wait for p before.
// Claims that are granted, or for which [Set.Hold] was called, keep what they
// hold: p releases its own keys, and waits for those of them that conflict with
// c, even if they were added after it. No claim waits for ever because of this:
// each still waits only for claims that are granted or were added before it.
//
// Its cost is linear in requests × depth, in the claims that conflict with
// either claim of p, and in the waits that end. It panics if p stands in no
// set.
func (s *Set[T]) Replace(p *Place[T], c *Claim, woken []*Place[T]) []*Place[T] {
	if p.seq == 0 {
		panic("lockkeys: Set.Replace of a place that is not in use")
	}
	p.holds = false // nor do those woken now: p may go before them
	return s.move(p, c, woken)
}

// Retake is Replace for a granted place that goes on holding: c goes in front
// of all that wait. The caller guarantees that c conflicts with no other claim
// that holds, for example because c is a part of what p has, or was reserved
// elsewhere. Retake panics if that is not so, or if p is in no set or waits.
func (s *Set[T]) Retake(p *Place[T], c *Claim, woken []*Place[T]) []*Place[T] {
	if p.seq == 0 || p.blocked > 0 {
		panic("lockkeys: Set.Retake of a place that is not granted")
	}
	woken = s.move(p, c, woken)
	if p.blocked > 0 {
		panic("lockkeys: Set.Retake of what another holds")
	}
	return woken
}

// AddAt is Add with a position in the order of arrival that the caller chooses:
// the claim goes behind all that hold, and in front of the waiting ones with a
// greater order, even if these were added before. All claims of such a set must
// be added by AddAt, and no two that wait may have the same order. If order is
// greater than any before, the cost is that of Add, else that of Replace. AddAt
// panics if p is in a set already, or if order is 0.
func (s *Set[T]) AddAt(p *Place[T], c *Claim, order uint64) (granted bool) {
	if p.seq != 0 || order == 0 {
		panic("lockkeys: Set.AddAt of a place that is in use, or without an order")
	}
	if order > s.added {
		s.added = order - 1
		return s.Add(p, c)
	}
	if s.root == nil {
		s.init()
	}
	s.count++
	p.seq = order
	s.put(p, c)
	s.evict()
	return p.holds
}

// put gives p, which has no steps, the steps of c.
func (s *Set[T]) put(p *Place[T], c *Claim) {
	s.makeHeavy(c)
	if p.steps = s.route(p, p.steps[:0], c); len(p.steps) > 0 {
		s.heavy++
	}
	for i := range p.steps {
		s.insert(&p.steps[i])
	}
	p.settle()
}

// move replaces the claim of p with c, and appends to woken the other places
// that are granted as a result.
func (s *Set[T]) move(p *Place[T], c *Claim, woken []*Place[T]) []*Place[T] {
	had := len(woken)
	s.woken = woken
	s.leave(p)
	s.put(p, c)
	woken, s.woken = s.woken, nil
	kept := woken[:had]
	for _, q := range woken[had:] {
		if q.blocked == 0 {
			kept = append(kept, q)
		}
	}
	clear(woken[len(kept):])
	hold(kept[had:])
	s.evict()
	return kept
}

// Hold marks p, which [Set.Behind] returned, as holding although it is not
// granted: its owner runs in one batch with those that it waits for. From now on
// [Set.Replace] inserts nothing in front of p. Replace of p itself, with the
// same claim, undoes Hold and returns p to its position by arrival. Hold panics
// if p is in no set.
func (s *Set[T]) Hold(p *Place[T]) {
	if p.seq == 0 {
		panic("lockkeys: Set.Hold of a place that is not in use")
	}
	p.holds = true
}

// hold marks places just granted as holding.
func hold[T any](granted []*Place[T]) {
	for _, p := range granted {
		p.holds = true
	}
}

// before reports whether the claim of p goes before the one that q is about to
// make.
func (p *Place[T]) before(q *Place[T]) bool { return p.holds || !q.holds && p.seq < q.seq }

// insert puts st into the queue of its node at the position of its place.
// Incompatible steps of claims that go behind it wait from now on, even if they
// were granted.
//
// Its cost is linear in the steps that are incompatible with st: in the lane,
// at least every other run is.
func (s *Set[T]) insert(st *step[T]) {
	n := st.node
	s.arrived(st)
	if st.mode == intentShared {
		s.insertReader(st)
		return
	}
	front, r := s.inFront(st), n.head
	if front != nil {
		s.split(front, st)
		r = front.next
	}
	if r == nil || !r.joins(st.mode) {
		r = s.newRun(n, st.mode, front)
		if r.next != nil && r.next.granted {
			r.next.demote()
		}
		if st.mode == exclusive {
			s.demoteReaders(r, st)
		}
		r.granted = n.free(r)
	}
	st.join(r)
}

// inFront returns the last run in the lane with an incompatible step that goes
// before st, or nil. It searches from both ends: a claim that widens usually
// belongs near the head, one that returns to its position near the tail.
func (s *Set[T]) inFront(st *step[T]) *run[T] {
	n := st.node
	r, last := n.head, n.tail
	for r != nil && (r.granted || r.steps.first().place.before(st.place)) {
		s.looked++
		r = r.next
		if last == nil || !last.joins(st.mode) && !s.goesBehind(last, st) {
			return last
		}
		last = last.prev
	}
	if r == nil {
		r = n.tail
	}
	// Some steps of r may go before st. No run behind r does.
	for r != nil && (r.joins(st.mode) || s.goesBehind(r, st)) {
		s.looked++
		r = r.prev
	}
	return r
}

// goesBehind reports whether all steps of r go behind st. A step that is in no
// list belongs to a claim that holds, and so goes before st.
func (s *Set[T]) goesBehind(r *run[T], st *step[T]) bool {
	late := 0
	for other := r.steps.first(); other != nil; other = other.following() {
		s.looked++
		if !other.place.before(st.place) {
			late++
		} else if !r.granted {
			break // all are in the list
		}
	}
	return late == r.live
}

// split moves the steps of r that go behind st, which are some but not all of
// them, to a new run behind r.
func (s *Set[T]) split(r *run[T], st *step[T]) {
	var late *run[T]
	for other := r.steps.first(); other != nil; {
		s.looked++
		next := other.following()
		if !other.place.before(st.place) {
			if late == nil {
				late = s.newRun(st.node, r.mode, r)
			}
			other.unlist()
			r.live--
			other.join(late)
		}
		other = next
	}
}

// demote makes a granted run wait.
func (r *run[T]) demote() {
	r.granted = false
	for st := r.steps.first(); st != nil; st = st.following() {
		st.wait()
	}
}

// insertReader is insert for an IS step.
func (s *Set[T]) insertReader(st *step[T]) {
	n := st.node
	// Like inFront, from both ends.
	var front *run[T]
	late := n.firstX
	for last := n.lastX; late != nil && late.steps.first().place.before(st.place); last = last.prevX {
		s.looked++
		if last.steps.first().place.before(st.place) {
			front, late = last, last.nextX
			break
		}
		front, late = late, late.nextX
	}
	n.read(st, front)
	if front == nil && late != nil && late.granted {
		late.demote()
	}
}

// demoteReaders makes the IS steps that go behind st, which is the step of the
// X run x, wait at x.
func (s *Set[T]) demoteReaders(x *run[T], st *step[T]) {
	n := st.node
	from := &n.early
	if x.prevX != nil {
		from = &x.prevX.behind
	}
	for reader := from.first(); reader != nil; {
		s.looked++
		next := reader.following()
		if !reader.place.before(st.place) {
			reader.unlist()
			if !reader.waiting {
				n.readers--
			}
			reader.wait()
			x.behind.push(reader)
		}
		reader = next
	}
}
