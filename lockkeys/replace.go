package lockkeys

// Replace gives the claim of p, which stands in the set, way to another, c,
// wider or narrower or the same, and appends to woken the other places that are
// granted by that, in no particular order; [Place.Granted] tells whether p is.
//
// The new claim takes the place of p in the order of arrival, among all that
// wait: behind those that were added before p, and in front of those that were
// added after it and conflict with c, whatever they waited for until now. Who
// is granted has what it claims and keeps it, as do those that [Set.Hold] was
// called for: p gives up what it held itself, and waits for such of them as
// conflict with c, even if they were added after it. Nobody waits for ever
// because of that: a claim still waits only for such that are granted and for
// such that were added before it.
//
// Its cost is linear in requests × depth, in the claims that conflict with
// either claim of p, and in the waits that end. It panics if p stands in no
// set.
func (s *Set[T]) Replace(p *Place[T], c *Claim, woken []*Place[T]) []*Place[T] {
	if p.seq == 0 {
		panic("lockkeys: Set.Replace of a place that is not in use")
	}
	p.holds = false // and nor do those woken now: p may go before them
	return s.move(p, c, woken)
}

// Retake is Replace for a place that is granted and goes on holding: c is in
// front of all that wait. The caller vouches that no other that holds conflicts
// with c, as for a part of what p has, or for what was kept for it elsewhere.
// Retake panics if p stands in no set or waits, or if that is not so.
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

// AddAt is Add with a place in the order of arrival that the caller gives: the
// claim goes behind all that hold, and among those that wait before those of a
// greater order, whatever they waited for until now. A set has all its claims
// by AddAt then, and no two that wait with the same order. Where order is
// greater than that of any before, the cost is that of Add, else that of
// Replace. AddAt panics if p stands in a set already, or if order is 0.
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

// put gives p, which has no steps, those of c.
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

// move gives p the claim c in place of its own, and appends to woken who else is
// granted by that.
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

// Hold says of p, the next in line that [Set.Behind] told, that it does not
// wait to be granted: its owner goes on together with the one before it.
// [Set.Replace] puts nothing in front of it from now on; called for p itself,
// with the same claim, it takes that back, and gives p the place again that it
// has by its arrival. Hold panics if p stands in no set.
func (s *Set[T]) Hold(p *Place[T]) {
	if p.seq == 0 {
		panic("lockkeys: Set.Hold of a place that is not in use")
	}
	p.holds = true
}

// hold notes that places just granted hold what they claim.
func hold[T any](granted []*Place[T]) {
	for _, p := range granted {
		p.holds = true
	}
}

// before tells whether what p claims goes before what q is about to claim.
func (p *Place[T]) before(q *Place[T]) bool { return p.holds || !q.holds && p.seq < q.seq }

// insert puts st into the queue of its node where its place belongs. Steps of
// claims that go behind it, and do not get along with it, wait from now on if
// they did not.
//
// What it goes over is linear in the steps that are incompatible with st; in
// the lane, at least every other run is.
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

// inFront returns the last run in the lane that has an incompatible step which
// goes before st, or nil. It looks for it from both ends: who widens mostly
// belongs near the head, and who comes back in order at the tail.
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
	// Some steps of r may go before st. What is behind r does not.
	for r != nil && (r.joins(st.mode) || s.goesBehind(r, st)) {
		s.looked++
		r = r.prev
	}
	return r
}

// goesBehind tells whether all steps of r go behind st. Those of them that are
// in no list hold.
func (s *Set[T]) goesBehind(r *run[T], st *step[T]) bool {
	late := 0
	for other := r.steps.first(); other != nil; other = other.following() {
		s.looked++
		if !other.place.before(st.place) {
			late++
		} else if !r.granted {
			break // for all are in the list
		}
	}
	return late == r.live
}

// split moves the steps of r that go behind st, but not all do, to a run of
// their own behind r.
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

// demoteReaders makes the IS steps that go behind st, the step of the run x
// which is an X, wait at x.
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
