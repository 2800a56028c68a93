package lockkeys

import (
	"slices"
	"sync"
)

// light is a key, other than the root, of an unhindered claim.
//
// Most claims are exclusive and conflict with nothing from when they are added
// to when they are removed. Such a claim has no steps and leaves no marks on
// the ancestors of its keys: each of them is a light key with its place, and
// that is all.
//
// Invariant: a claim with light keys is granted, and no other claim in the set
// conflicts with it. So none of the light keys in use contains another, and
// nobody waits for one. Before a claim that conflicts is added, those in its
// way are made heavy: they are given the steps that they did without. That
// happens once in the life of a claim.
type light[T any] struct {
	key   Key
	depth int
	place *Place[T] // whose it is; nil if it is only kept for reuse

	listed bool // in lights.first to lights.last
	next   *light[T]
}

// lights is the light keys of a set: those in use, and some that are kept
// because they are likely to be used again.
type lights[T any] struct {
	keys index[*light[T]]

	used   int // keys in use
	depths depths

	first, last *light[T] // candidates for removal, oldest first
	spares      sync.Pool // of *light

	// Used by makeHeavy.
	inWay []*light[T]
	claim Claim
}

// addLight adds an exclusive claim that conflicts with nothing, and reports
// false, having changed nothing, for any other.
func (s *Set[T]) addLight(p *Place[T], c *Claim) bool {
	for _, r := range c.Requests() {
		l := s.unhindered(r)
		if l == nil {
			p.lights = p.lights[:0]
			return false
		}
		p.lights = append(p.lights, l)
	}
	for _, l := range p.lights {
		s.lights.use(l, p)
	}
	return true
}

// unhindered returns the light key for r, or nil if r cannot have one.
func (s *Set[T]) unhindered(r Request) *light[T] {
	if r.Mode != Exclusive || r.Key.path == "" {
		return nil
	}
	ls := &s.lights
	hash := ls.keys.hash(r.Key)
	l := ls.get(r.Key, hash)
	if l.place != nil || !ls.depths.only(l.depth) && ls.related(l.key, l.depth) {
		return nil
	}
	if s.heavy > 0 && s.heavyInWay(l, hash) {
		return nil
	}
	return l
}

// heavyInWay tells whether an exclusive request for the key of l, with this
// hash, conflicts with a claim that has steps.
func (s *Set[T]) heavyInWay(l *light[T], hash uint64) bool {
	if !s.root.takesIntent() {
		return true
	}
	above := s.requests.upTo(l.depth - 1)
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
	n, ok := s.nodes.getHashed(l.key, hash)
	return ok && n.used()
}

// makeHeavy gives steps to the claims with light keys that conflict with c.
func (s *Set[T]) makeHeavy(c *Claim) {
	ls := &s.lights
	for _, r := range c.Requests() {
		ls.gather(r.Key)
	}
	for i, l := range ls.inWay {
		ls.inWay[i] = nil
		p := l.place
		if p == nil {
			continue // another key of its claim came before it
		}
		ls.claim.Reset()
		for _, l := range p.lights {
			ls.claim.Exclusive(l.key)
		}
		s.removeLights(p)
		s.addHeavy(p, &ls.claim)
	}
	ls.claim.Reset()
	ls.inWay = ls.inWay[:0]
}

// removeLights takes the light keys of p out of use.
func (s *Set[T]) removeLights(p *Place[T]) {
	for i, l := range p.lights {
		s.lights.unuse(l)
		p.lights[i] = nil
	}
	p.lights = p.lights[:0]
}

// shrinkLight takes the light key k of p, if it has that, out of use.
func (s *Set[T]) shrinkLight(p *Place[T], k Key) {
	for i, l := range p.lights {
		s.looked++
		if l.key == k {
			s.lights.unuse(l)
			p.lights = slices.Delete(p.lights, i, i+1)
			return
		}
	}
}

// get returns the light key of k, with this hash, made if need be.
func (ls *lights[T]) get(k Key, hash uint64) *light[T] {
	if l, ok := ls.keys.getHashed(k, hash); ok {
		return l
	}
	l, ok := ls.spares.Get().(*light[T])
	if !ok {
		l = new(light[T])
	}
	l.key, l.depth = k.owned(), k.Depth()
	ls.keys.put(l.key, l)
	ls.list(l)
	return l
}

func (ls *lights[T]) use(l *light[T], p *Place[T]) {
	l.place = p
	ls.used++
	ls.depths.add(l.depth)
}

func (ls *lights[T]) unuse(l *light[T]) {
	l.place = nil
	ls.used--
	ls.depths.drop(l.depth)
	ls.list(l)
	ls.evict()
}

// related tells whether a light key in use is above or below k, of this depth.
func (ls *lights[T]) related(k Key, depth int) bool {
	return ls.atOrAbove(k, depth-1) != nil || ls.depths.below(depth) && ls.anyBelow(k)
}

func (ls *lights[T]) anyBelow(k Key) (found bool) {
	ls.keys.below(k, func(l *light[T]) bool {
		found = l.place != nil
		return !found
	})
	return found
}

// atOrAbove returns the light key in use among the ancestors of k, from the
// given depth on, or nil. With the depth of k itself that includes k.
func (ls *lights[T]) atOrAbove(k Key, depth int) *light[T] {
	depths := ls.depths.upTo(depth)
	for d := depths.next(); d > 0; d = depths.next() {
		if l, ok := ls.keys.get(k.Ancestor(d)); ok && l.place != nil {
			return l
		}
	}
	return nil
}

// gather appends to inWay all light keys in use that contain k or that k
// contains.
func (ls *lights[T]) gather(k Key) {
	depth := k.Depth()
	if l := ls.atOrAbove(k, depth); l != nil {
		ls.inWay = append(ls.inWay, l) // and then none is below
	} else if ls.depths.below(depth) {
		ls.keys.below(k, func(l *light[T]) bool {
			if l.place != nil {
				ls.inWay = append(ls.inWay, l)
			}
			return true
		})
	}
}

// list makes l a candidate for removal.
func (ls *lights[T]) list(l *light[T]) {
	if l.listed {
		return
	}
	l.listed = true
	if ls.last == nil {
		ls.first = l
	} else {
		ls.last.next = l
	}
	ls.last = l
}

// evict removes the oldest candidates until few enough unused keys are left.
// One that is in use again is only struck off the list.
func (ls *lights[T]) evict() {
	for ls.first != nil && ls.keys.len()-ls.used > maxIdleLights {
		l := ls.first
		if ls.first = l.next; ls.first == nil {
			ls.last = nil
		}
		l.listed, l.next = false, nil
		if l.place == nil {
			ls.keys.remove(l.key)
			l.key = Key{}
			ls.spares.Put(l)
		}
	}
}
