package lockkeys

import "slices"

// light is one key of a light claim, with its digest.
//
// Most claims are exclusive, have few keys, none of them the root, and conflict
// with nothing from the moment they are added until they are removed soon
// after. Such a claim is light: it has no steps and no intention modes at the
// ancestors of its keys, only entries in a table.
//
// Invariant: a claim with light keys is granted, and no other claim in the set
// conflicts with it. So no light key contains another, and no claim waits for
// one. Before a conflicting claim is added, the light claims in its way are
// made heavy, which means that they are given steps. The oldest are made heavy
// too when there are more than maxLights keys, so a scan of all light keys is
// short. A claim is made heavy at most once.
type light struct {
	key Key
	digest
}

const (
	maxLights     = 256 // keys in use
	maxLightClaim = 16  // of them, those of one claim
)

// lights holds the light keys of a set that are in use.
type lights[T any] struct {
	table  lightTable[T]
	depths depths
	max    int // maxLights, except in tests

	oldest, latest *Place[T] // the light claims, in order of arrival

	inWay []*Place[T] // used by gather
	claim Claim       // used by becomeHeavy
}

// addLight adds a claim if it can be light: exclusive, of few keys, and in
// conflict with no other. Otherwise it returns false and changes nothing.
func (s *Set[T]) addLight(p *Place[T], c *Claim) bool {
	ls, requests := &s.lights, c.Requests()
	if len(requests) == 0 {
		return true
	}
	if len(requests) > maxLightClaim {
		return false
	}
	if p.lights == nil {
		p.lights = make([]light, 0, 2)
	}
	for i, r := range requests {
		l := light{r.Key, c.digest(i)}
		if r.Mode != Exclusive || l.depth == 0 || ls.atOrAbove(l) != nil || s.heavy > 0 && s.heavyInWay(l) {
			p.noLights()
			return false
		}
		p.lights = append(p.lights, l)
	}
	if s.anyBelow(p.lights) {
		p.noLights()
		return false
	}
	ls.use(p)
	for ls.table.len > ls.max {
		s.becomeHeavy(ls.oldest)
	}
	return true
}

// heavyInWay reports whether an exclusive request for l conflicts with a claim
// that has steps.
func (s *Set[T]) heavyInWay(l light) bool {
	if !s.root.takesIntent() {
		return true
	}
	above := s.requests.upTo(int(l.depth) - 1)
	for d := above.next(); d > 0; d = above.next() {
		n, ok := s.nodes.get(l.key.Ancestor(d))
		if !ok {
			return false // then no descendant has a node either
		}
		if !n.takesIntent() {
			return true
		}
	}
	if s.requests.mask>>(l.depth-1) == 0 {
		return false // none as deep as l
	}
	n, ok := s.nodes.get(l.key)
	return ok && n.used()
}

// anyBelow reports whether one of these keys is an ancestor of a light key in
// use.
func (s *Set[T]) anyBelow(keys []light) bool {
	least := keys[0].depth
	for _, k := range keys[1:] {
		least = min(least, k.depth)
	}
	if !s.lights.depths.below(int(least)) {
		return false // the usual case
	}
	for p := s.lights.oldest; p != nil; p = p.newer {
		for _, l := range p.lights {
			s.looked++
			if slices.ContainsFunc(keys, func(k light) bool { return k.depth < l.depth && k.key.Contains(l.key) }) {
				return true
			}
		}
	}
	return false
}

// atOrAbove returns the place whose light key contains l, or nil.
func (ls *lights[T]) atOrAbove(l light) *Place[T] {
	if p := ls.table.get(l); p != nil {
		return p
	}
	depths := ls.depths.upTo(max(int(l.depth)-1, 0))
	for d := depths.next(); d > 0; d = depths.next() {
		k := l.key.Ancestor(d)
		if p := ls.table.get(light{k, digest{int32(d), hashOf(k)}}); p != nil {
			return p
		}
	}
	return nil
}

// makeHeavy gives steps to the claims with light keys that conflict with c.
func (s *Set[T]) makeHeavy(c *Claim) {
	for _, p := range s.gather(c) {
		if len(p.lights) > 0 { // it may be in the way twice
			s.becomeHeavy(p)
		}
	}
	s.forget()
}

// gather returns the light claims that conflict with c; a place may be in the
// result more than once. Call forget when done with the slice.
func (s *Set[T]) gather(c *Claim) []*Place[T] {
	ls := &s.lights
	if ls.oldest == nil {
		return nil
	}
	least := MaxDepth
	for i, r := range c.Requests() {
		l := light{r.Key, c.digest(i)}
		least = min(least, int(l.depth))
		if p := ls.atOrAbove(l); p != nil {
			ls.inWay = append(ls.inWay, p)
		}
	}
	for p := ls.oldest; p != nil && ls.depths.below(least); p = p.newer {
		for _, l := range p.lights {
			s.looked++
			if c.hasAncestor(l) {
				ls.inWay = append(ls.inWay, p)
				break
			}
		}
	}
	return ls.inWay
}

// forget clears the slice that gather returned, so that it keeps no place
// alive.
func (s *Set[T]) forget() {
	clear(s.lights.inWay)
	s.lights.inWay = s.lights.inWay[:0]
}

// hasAncestor reports whether c has a request for an ancestor of l.
func (c *Claim) hasAncestor(l light) bool {
	if requests := c.Requests(); len(requests) <= maxLightClaim {
		return slices.ContainsFunc(requests, func(r Request) bool {
			return len(r.Key.path) < len(l.key.path) && r.Key.Contains(l.key)
		})
	}
	for d := range l.depth {
		if _, ok := c.find(l.key.Ancestor(int(d))); ok {
			return true
		}
	}
	return false
}

// becomeHeavy gives steps to the claim of p, which has light keys.
func (s *Set[T]) becomeHeavy(p *Place[T]) {
	claim := &s.lights.claim
	for _, l := range p.lights {
		claim.Exclusive(l.key)
	}
	s.lights.unuse(p)
	s.addHeavy(p, claim)
	claim.Reset()
}

// use adds the light keys of p to those in use.
func (ls *lights[T]) use(p *Place[T]) {
	for _, l := range p.lights {
		ls.table.put(l, p)
		ls.depths.add(int(l.depth))
	}
	p.older = ls.latest
	if p.older == nil {
		ls.oldest = p
	} else {
		p.older.newer = p
	}
	ls.latest = p
}

// unuse removes the light keys of p, if any, from those in use.
func (ls *lights[T]) unuse(p *Place[T]) {
	if len(p.lights) == 0 {
		return
	}
	for _, l := range p.lights {
		ls.table.remove(l)
		ls.depths.drop(int(l.depth))
	}
	p.noLights()
	if p.older == nil {
		ls.oldest = p.newer
	} else {
		p.older.newer = p.newer
	}
	if p.newer == nil {
		ls.latest = p.older
	} else {
		p.newer.older = p.older
	}
	p.older, p.newer = nil, nil
}

func (p *Place[T]) noLights() {
	clear(p.lights)
	p.lights = p.lights[:0]
}

// shrinkLight removes the light key k of p, if it has that, from those in use.
func (s *Set[T]) shrinkLight(p *Place[T], k Key) {
	i := slices.IndexFunc(p.lights, func(l light) bool { return l.key == k })
	switch {
	case i < 0:
	case len(p.lights) == 1:
		s.lights.unuse(p)
	default:
		s.lights.table.remove(p.lights[i])
		s.lights.depths.drop(int(p.lights[i].depth))
		p.lights = slices.Delete(p.lights, i, i+1)
	}
}
