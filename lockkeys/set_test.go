package lockkeys

import (
	"cmp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model is a plain specification of Set: the claims that hold, and behind them
// the others in order of arrival. Each is granted, and holds from then on, when
// it conflicts with none before it.
type model struct{ claims []*modelClaim }

type modelClaim struct {
	id    int // in order of arrival
	claim *Claim
	place *Place[int]
	holds bool
}

// order puts those that hold in front of all others, and these in their order.
func (m *model) order() {
	for i, c := range m.claims {
		c.holds = c.holds || m.granted(i)
	}
	slices.SortStableFunc(m.claims, func(a, b *modelClaim) int {
		switch {
		case a.holds && b.holds:
			return 0
		case a.holds:
			return -1
		case b.holds:
			return 1
		}
		return cmp.Compare(a.id, b.id)
	})
}

func (m *model) granted(i int) bool {
	for _, earlier := range m.claims[:i] {
		if earlier.claim.Conflicts(m.claims[i].claim) {
			return false
		}
	}
	return true
}

// waitsForNobody reports whether a claim is granted.
func (m *model) waitsForNobody(c *modelClaim) bool { return m.granted(slices.Index(m.claims, c)) }

// checkBehind checks that next waits, for the last of a batch, and for nothing that
// is not in it.
func (m *model) checkBehind(t *rapid.T, batch []*Place[int], next *Place[int]) {
	i := slices.IndexFunc(m.claims, func(c *modelClaim) bool { return c.place == next })
	waits := m.claims[i]
	require.False(t, waits.holds)
	var last *modelClaim
	for _, o := range m.claims[:i] {
		if o.place == batch[len(batch)-1] {
			last = o
		}
		if !slices.Contains(batch, o.place) {
			require.False(t, o.claim.Conflicts(waits.claim), "%d %v waits for %d %v too", waits.id, waits.claim.Requests(), o.id, o.claim.Requests())
		}
	}
	require.NotNil(t, last)
	require.True(t, last.claim.Conflicts(waits.claim))
}

func (m *model) grantedIDs() []int {
	var ids []int
	for i, c := range m.claims {
		if m.granted(i) {
			ids = append(ids, c.id)
		}
	}
	slices.Sort(ids)
	return ids
}

// check compares the set with the model and verifies the invariants of node.
func (m *model) check(t *rapid.T, s *Set[int]) {
	require.Equal(t, len(m.claims), s.Len())
	for i, c := range m.claims {
		require.Equal(t, m.granted(i), c.place.Granted(), "claim %d %v", c.id, c.claim.Requests())
		request, by, blocked := s.Blocker(c.place)
		require.Equal(t, !m.granted(i), blocked, "claim %d is blocked", c.id)
		if blocked {
			j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == by })
			require.True(t, j >= 0 && j < i, "claim %d is blocked by an earlier one, not by %d", c.id, by.Owner)
			require.True(t, c.claim.Conflicts(NewClaim(request)), "claim %d conflicts with %v", c.id, request)
			require.Contains(t, m.claims[j].claim.Requests(), request)
		}
	}
	if len(m.claims) > 0 {
		require.True(t, m.claims[0].place.Granted(), "somebody can go on")
	}
	got := map[int]int{}
	var last Request
	var lastBy *Place[int]
	for r, p := range s.All() {
		j := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == p })
		require.GreaterOrEqual(t, j, 0)
		require.Contains(t, m.claims[j].claim.Requests(), r)
		got[p.Owner]++
		if lastBy != nil {
			order := last.Key.Compare(r.Key)
			require.True(t, order < 0 || order == 0 && lastBy.Owner < p.Owner, "All is in order: %v of %d, %v of %d", last, lastBy.Owner, r, p.Owner)
		}
		last, lastBy = r, p
	}
	for _, c := range m.claims {
		require.Equal(t, len(c.claim.Requests()), got[c.id], "All yields the requests of %d", c.id)
	}
	checkNodes(t, s)
	checkLights(t, s, m)
}

// segmentNames are chosen so that comparing characters instead of segments,
// or sorting by a separator that is not the smallest byte, goes wrong.
var segmentNames = []string{"a", "a-b", "ab", "a/b", "a\x01", "\xff", "4", "42", "счёт", " "}

func genKey(t *rapid.T) Key {
	depth := rapid.SampledFrom([]int{0, 1, 1, 2, 2, 2, 3, 3, 4, 5, MaxDepth}).Draw(t, "depth")
	few := rapid.SampledFrom([]int{1, 2, 3, len(segmentNames)}).Draw(t, "names")
	segments := make([]string, depth)
	for i := range segments {
		segments[i] = rapid.SampledFrom(segmentNames[:few]).Draw(t, "segment")
	}
	return Must(segments...)
}

func genRequest(t *rapid.T) Request {
	return Request{genKey(t), rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")}
}

// A crowded key is one of seven, so that claims of them meet at few nodes and
// long queues with all five modes arise.
func genCrowdedKey(t *rapid.T) Key {
	return MustParse(rapid.SampledFrom([]string{"a/b/c", "a/b", "a/c", "a", "a-b", "b", "/"}).Draw(t, "key"))
}

func genClaim(t *rapid.T, key func(*rapid.T) Key) *Claim {
	c := new(Claim)
	for range rapid.SampledFrom([]int{1, 2, 3, 4, 0}).Draw(t, "requests") {
		mode := rapid.SampledFrom([]Mode{Exclusive, Shared}).Draw(t, "mode")
		c.Add(Request{key(t), mode})
	}
	return c
}

func TestSetAgainstAllPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			s    Set[int]
			m    model
			free []*Place[int]
			next int
			key  = rapid.SampledFrom([]func(*rapid.T) Key{genCrowdedKey, genKey}).Draw(t, "keys")
		)
		s.init()
		s.lights.max = rapid.SampledFrom([]int{0, 3, maxLights}).Draw(t, "light keys")
		add := func(claim *Claim) {
			p := new(Place[int])
			if len(free) > 0 {
				p, free = free[0], free[1:]
			}
			next++
			p.Owner = next
			m.claims = append(m.claims, &modelClaim{id: next, claim: claim, place: p})
			require.Equal(t, m.granted(len(m.claims)-1), s.Add(p, claim))
			m.order()
		}
		// change applies an operation to the set and asserts that it grants the
		// same claims as in the model.
		change := func(set func() []*Place[int], model func()) {
			before := m.grantedIDs()
			model()
			m.order()
			var want []int
			for _, id := range m.grantedIDs() {
				if !slices.Contains(before, id) {
					want = append(want, id)
				}
			}
			var got []int
			for _, p := range set() {
				got = append(got, p.Owner)
			}
			slices.Sort(got)
			require.Equal(t, want, got, "granted")
		}
		remove := func(i int) {
			c := m.claims[i]
			change(func() []*Place[int] { return s.Remove(c.place, nil) },
				func() { m.claims = slices.Delete(m.claims, i, i+1) })
			free = append(free, c.place)
		}
		// place inserts c at its position by arrival.
		place := func(c *modelClaim) {
			at := 0
			for at < len(m.claims) && (m.claims[at].holds || m.claims[at].id < c.id) {
				at++
			}
			m.claims = slices.Insert(m.claims, at, c)
		}
		replace := func(c *modelClaim, claim *Claim) {
			change(
				func() []*Place[int] {
					had := c.place.Granted()
					woken := s.Replace(c.place, claim, nil)
					if c.place.Granted() && !had {
						woken = append(woken, c.place)
					}
					return woken
				},
				func() {
					c.claim, c.holds = claim, false
					i := slices.Index(m.claims, c)
					m.claims = slices.Delete(m.claims, i, i+1)
					place(c)
				})
		}
		var away []*modelClaim // withdrawn, to return to their places
		t.Repeat(map[string]func(*rapid.T){
			"go away": func(t *rapid.T) {
				if len(m.claims) > 0 {
					i := rapid.IntRange(0, len(m.claims)-1).Draw(t, "who")
					away = append(away, &modelClaim{id: m.claims[i].id, claim: m.claims[i].claim, place: &Place[int]{Owner: m.claims[i].id}})
					remove(i)
				}
			},
			"return": func(t *rapid.T) {
				if len(away) > 0 {
					i := rapid.IntRange(0, len(away)-1).Draw(t, "who")
					c := away[i]
					away = slices.Delete(away, i, i+1)
					change(
						func() (woken []*Place[int]) {
							if s.AddAt(c.place, c.claim, uint64(c.id)) {
								woken = append(woken, c.place)
							}
							return woken
						},
						func() { place(c) })
				}
			},
			"who conflicts": func(t *rapid.T) {
				claim := genClaim(t, key)
				var want, got []int
				for _, c := range m.claims {
					if c.claim.Conflicts(claim) {
						want = append(want, c.id)
					}
				}
				for _, p := range s.Conflicting(claim, nil) {
					got = append(got, p.Owner)
				}
				slices.Sort(want)
				slices.Sort(got)
				require.Equal(t, want, slices.Compact(got))
			},
			"retake": func(t *rapid.T) {
				for i, c := range m.claims {
					claim := genClaim(t, key)
					if !m.granted(i) || slices.ContainsFunc(m.claims, func(o *modelClaim) bool {
						return o != c && o.holds && o.claim.Conflicts(claim)
					}) {
						continue
					}
					change(func() []*Place[int] { return s.Retake(c.place, claim, nil) }, func() { c.claim = claim })
					return
				}
			},
			"":    func(t *rapid.T) { m.check(t, &s) },
			"add": func(t *rapid.T) { add(genClaim(t, key)) },
			"add an equal one": func(t *rapid.T) {
				if len(m.claims) > 0 {
					like := rapid.SampledFrom(m.claims).Draw(t, "like").claim
					add(NewClaim(like.Requests()...))
				}
			},
			"remove granted": func(t *rapid.T) {
				var granted []int
				for i := range m.claims {
					if m.granted(i) {
						granted = append(granted, i)
					}
				}
				if len(granted) > 0 {
					remove(rapid.SampledFrom(granted).Draw(t, "granted"))
				}
			},
			"withdraw waiting": func(t *rapid.T) {
				var waiting []int
				for i := range m.claims {
					if !m.granted(i) {
						waiting = append(waiting, i)
					}
				}
				if len(waiting) > 0 {
					remove(rapid.SampledFrom(waiting).Draw(t, "waiting"))
				}
			},
			"withdraw any": func(t *rapid.T) {
				if len(m.claims) > 0 {
					remove(rapid.IntRange(0, len(m.claims)-1).Draw(t, "any"))
				}
			},
			"shrink": func(t *rapid.T) {
				for i, c := range m.claims {
					requests := c.claim.Requests()
					if !m.granted(i) || len(requests) == 0 {
						continue
					}
					drop := []Key{genKey(t)} // most likely not one of its keys
					less := NewClaim()
					for _, r := range requests {
						if rapid.Bool().Draw(t, "drop") {
							drop = append(drop, r.Key)
						} else if r.Key != drop[0] {
							less.Add(r)
						}
					}
					change(func() []*Place[int] { return s.Shrink(c.place, drop, nil) }, func() { c.claim = less })
					return
				}
			},
			"replace": func(t *rapid.T) {
				if len(m.claims) > 0 {
					replace(rapid.SampledFrom(m.claims).Draw(t, "place"), genClaim(t, key))
				}
			},
			"widen": func(t *rapid.T) {
				if len(m.claims) > 0 {
					c := rapid.SampledFrom(m.claims).Draw(t, "place")
					claim := genClaim(t, key)
					claim.Add(c.claim.Requests()...)
					replace(c, claim)
				}
			},
			"hold": func(t *rapid.T) {
				if len(m.claims) == 0 {
					return
				}
				c := rapid.SampledFrom(m.claims).Draw(t, "first")
				batch := []*Place[int]{c.place}
				with := func(p *Place[int]) bool { return slices.Contains(batch, p) }
				for next, ok := s.Behind(c.place, with); m.waitsForNobody(c) && ok; next, ok = s.Behind(next, with) {
					m.checkBehind(t, batch, next)
					s.Hold(next)
					batch = append(batch, next)
					i := slices.IndexFunc(m.claims, func(o *modelClaim) bool { return o.place == next })
					m.claims[i].holds = true
					m.order()
				}
			},
			"let go": func(t *rapid.T) {
				for _, c := range m.claims {
					if c.holds && !c.place.Granted() && rapid.Bool().Draw(t, "let go") {
						replace(c, NewClaim(c.claim.Requests()...))
						return
					}
				}
			},
			"behind": func(t *rapid.T) {
				for _, c := range m.claims {
					if next, ok := s.Behind(c.place, func(*Place[int]) bool { return false }); ok && m.waitsForNobody(c) {
						m.checkBehind(t, []*Place[int]{c.place}, next)
					}
				}
			},
		})
	})
}
