package lockkeys

import "slices"

// light is one of the keys of an unhindered claim, with its depth and its hash.
//
// Most claims are exclusive, have few keys and not the root, and conflict with
// nothing from when they are added until they are removed, soon after. Such a
// claim has no steps and leaves no marks on the ancestors of its keys: they are
// in a table, and that is all.
//
// Invariant: a claim with light keys is granted, and no other claim in the set
// conflicts with it. So no light key contains another, and nobody waits for
// one. Before a claim that conflicts is added, those in its way are made heavy:
// they are given the steps that they did without. So are the oldest when there
// are more than maxLights keys: what stays long is heavy, and to go through all
// light keys takes no more than a moment. Either happens once in the life of a
// claim.
type light struct {
	key   Key
	depth int32
	hash  uint32
}

const (
	maxLights     = 256 // keys in use
	maxLightClaim = 16  // of them, those of one claim
)

// lights is the light keys in use of a set.
type lights[T any] struct {
	table  lightTable[T]
	depths depths
	max    int // maxLights, but for tests

	oldest, latest *Place[T] // whose they are, in order of arrival

	inWay []*Place[T] // used by gather
	claim Claim       // used by becomeHeavy
}

// addLight adds an exclusive claim that conflicts with nothing, and reports
// false, having changed nothing, for any other.
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
	for _, r := range requests {
		l := ls.table.light(r.Key, r.Key.Depth())
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

// heavyInWay tells whether an exclusive request for l conflicts with a claim
// that has steps.
func (s *Set[T]) heavyInWay(l light) bool {
	if !s.root.takesIntent() {
		return true
	}
	above := s.requests.upTo(int(l.depth) - 1)
	for d := above.next(); d > 0; d = above.next() {
		n, ok := s.nodes.get(l.key.Ancestor(d))
		if !ok {
			return false // and then there is none below it
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

// anyBelow tells whether one of these keys contains a light key in use other
// than itself.
func (s *Set[T]) anyBelow(keys []light) bool {
	least := keys[0].depth
	for _, k := range keys[1:] {
		least = min(least, k.depth)
	}
	if !s.lights.depths.below(int(least)) {
		return false // as a rule
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

// atOrAbove returns whose the light key in use is that contains l, or nil.
func (ls *lights[T]) atOrAbove(l light) *Place[T] {
	if p := ls.table.get(l); p != nil {
		return p
	}
	depths := ls.depths.upTo(max(int(l.depth)-1, 0))
	for d := depths.next(); d > 0; d = depths.next() {
		if p := ls.table.get(ls.table.light(l.key.Ancestor(d), d)); p != nil {
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

// gather finds the claims with light keys that conflict with c, some of
// them more than once. The slice is to be given up with forget.
func (s *Set[T]) gather(c *Claim) []*Place[T] {
	ls := &s.lights
	if ls.oldest == nil {
		return nil
	}
	least := MaxDepth
	for _, r := range c.Requests() {
		l := ls.table.light(r.Key, r.Key.Depth())
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

// forget empties what gather returned.
func (s *Set[T]) forget() {
	clear(s.lights.inWay)
	s.lights.inWay = s.lights.inWay[:0]
}

// hasAncestor tells whether c has a request for an ancestor of l.
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

// use takes the light keys of p into use.
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

// unuse takes the light keys of p, of which there may be none, out of use.
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

// shrinkLight takes the light key k of p, if it has that, out of use.
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
