package lockkeys

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
	"weak"

	"github.com/stretchr/testify/require"
)

// entries returns how many keys the set knows.
func (s *Set[T]) entries() int { return s.nodes.len() + s.lights.table.len }

// Claims of ever new keys come and go: the memory of the set stays proportional
// to the claims in it, and no call visits more than a bounded number of nodes
// and steps.
func TestSetMemoryAndStepsFollowClaims(t *testing.T) {
	own := func(i int, mode Mode) Request { return Request{Must("order", fmt.Sprint(i), "item"), mode} }
	many := func(i int, mode Mode) (requests []Request) {
		for j := range maxLightClaim + 1 {
			requests = append(requests, own(i*100+j, mode))
		}
		return requests
	}
	tariff, before, hot := sharing("tariff"), sharing("before"), exclusively("hot")
	for name, story := range map[string]struct {
		stay  [][]Request // claims that are there all the time
		claim func(i int) []Request
		// Extra steps with each, besides adding and removing it.
		then func(s *Set[int], p *Place[int], i int)
	}{
		"exclusive":              {claim: func(i int) []Request { return []Request{own(i, Exclusive)} }},
		"shared":                 {claim: func(i int) []Request { return []Request{own(i, Shared)} }},
		"exclusive, then shared": {claim: func(i int) []Request { return []Request{own(i, Exclusive), tariff} }},
		"shared, then exclusive": {claim: func(i int) []Request { return []Request{before, own(i, Exclusive)} }},
		"exclusive, then root":   {claim: func(i int) []Request { return []Request{own(i, Exclusive), sharing("/")} }},
		"many":                   {claim: func(i int) []Request { return many(i, Exclusive) }},
		"many shared":            {claim: func(i int) []Request { return many(i, Shared) }},
		"long reader of all":     {[][]Request{{sharing("/")}}, func(i int) []Request { return []Request{own(i, Exclusive)} }, nil},
		"long reader of orders":  {[][]Request{{sharing("order")}}, func(i int) []Request { return []Request{own(i, Exclusive)} }, nil},
		"behind a hot key":       {[][]Request{{hot}}, func(i int) []Request { return []Request{own(i, Exclusive), hot} }, nil},
		"behind a hot key, shared": {
			[][]Request{{hot}}, func(i int) []Request { return []Request{own(i, Shared), exclusively("hot/1")} }, nil,
		},
		"one is always used": {[][]Request{many(-1, Exclusive), {tariff}}, func(i int) []Request { return []Request{own(i, Exclusive)} }, nil},
		"replaced": {
			nil, func(i int) []Request { return []Request{own(i, Exclusive)} },
			func(s *Set[int], p *Place[int], i int) { s.Replace(p, NewClaim(own(-i, Exclusive), tariff), nil) },
		},
		"shrunk": {
			nil, func(i int) []Request { return []Request{own(i, Exclusive), own(-i, Exclusive), tariff} },
			func(s *Set[int], p *Place[int], i int) { s.Shrink(p, []Key{own(i, Exclusive).Key}, nil) },
		},
		"shrunk to nothing": {
			nil, func(i int) []Request { return []Request{own(i, Shared)} },
			func(s *Set[int], p *Place[int], i int) { s.Shrink(p, []Key{own(i, Shared).Key}, nil) },
		},
		"shrunk by another": {
			nil, func(i int) []Request { return []Request{own(i, Shared)} },
			func(s *Set[int], p *Place[int], i int) {
				s.Shrink(p, []Key{own(i, Shared).Key, own(-i, Shared).Key}, nil)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s Set[int]
			var c Claim
			for _, requests := range story.stay {
				s.Add(new(Place[int]), NewClaim(requests...))
			}
			const atOnce = 100
			places := make([]Place[int], atOnce)
			most := 0
			call := func(f func()) {
				s.looked = 0
				f()
				most = max(most, s.looked)
			}
			for i := range 10_000 {
				p := &places[i%atOnce]
				if p.InSet() {
					call(func() { s.Remove(p, nil) })
				}
				c.Reset()
				c.Add(story.claim(i)...)
				call(func() { s.Add(p, &c) })
				if story.then != nil {
					call(func() { story.then(&s, p, i) })
				}
				if i%1000 == 0 {
					require.LessOrEqual(t, s.entries(), maxIdleNodes+(atOnce+1)*4*(maxLightClaim+1))
				}
			}
			for i := range places {
				call(func() { s.Remove(&places[i], nil) })
			}
			call(func() {
				p := new(Place[int])
				s.Add(p, NewClaim(exclusively("x")))
				s.Remove(p, nil)
			})
			require.LessOrEqual(t, most, maxLights+maxLightClaim+100)
			require.Equal(t, len(story.stay), s.Len())
			require.LessOrEqual(t, s.entries()-s.used-s.lights.table.len, maxIdleNodes+1)
			checkNodes(t, &s)
		})
	}
}

// A lock on a key with nothing in use below it takes the same time however many
// others are in use elsewhere, or were below it.
func TestSetParentLockLooksAtConflictsOnly(t *testing.T) {
	looked := func(n int) (most int) {
		var s Set[int]
		for i := range n {
			var p Place[int]
			s.Add(&p, NewClaim(Request{Must("orders", fmt.Sprint(i)), Mode(i % 2)}))
			s.Remove(&p, nil)
			s.Add(new(Place[int]), NewClaim(Request{Must("x", fmt.Sprint(i), "y"), Mode(i / 2 % 2)}))
		}
		for _, r := range []Request{exclusively("orders"), sharing("orders"), exclusively("orders/1"), exclusively("z/1")} {
			for range 3 {
				s.looked = 0
				var p Place[int]
				require.True(t, s.Add(&p, NewClaim(r)))
				s.Remove(&p, nil)
				most = max(most, s.looked)
			}
		}
		return most
	}
	require.LessOrEqual(t, looked(20_000), maxLights+10)
}

// One claim of n keys that conflicts with none of n others, and one that does.
func TestSetLargeClaimsAreLinear(t *testing.T) {
	for _, n := range []int{100, 10_000} {
		var s Set[int]
		var p Place[int]
		var c Claim
		for i := range n {
			s.Add(new(Place[int]), NewClaim(Request{Key: Must("x", fmt.Sprint(i), "y")}))
			c.Exclusive(Must("z", fmt.Sprint(i)))
		}
		s.looked = 0
		require.True(t, s.Add(&p, &c))
		s.Remove(&p, nil)
		require.LessOrEqual(t, s.looked, maxLights+3*n)

		for i := range n {
			c.Shared(Must("x", fmt.Sprint(i)))
		}
		s.looked = 0
		require.False(t, s.Add(&p, &c))
		s.Replace(&p, &c, nil)
		s.Remove(&p, nil)
		require.LessOrEqual(t, s.looked, maxLights+20*n)
	}
}

// Memory kept for reuse is bounded in bytes, not only in number.
func TestSetForgetsLargeThings(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	var s Set[int]
	var p Place[int]
	var c Claim
	for i := range 1000 {
		c.Reset()
		c.Shared(Must("client", fmt.Sprint(i), long+fmt.Sprint(i)), Must(fmt.Sprint(i)+long))
		s.Add(&p, &c)
		s.Remove(&p, nil)
	}
	bytes := 0
	s.nodes.all(func(n *node[int]) bool {
		bytes += len(n.key.path)
		return true
	})
	require.LessOrEqual(t, s.idleBytes, maxIdleBytes)
	require.LessOrEqual(t, bytes, maxIdleBytes+100)

	c.Reset()
	for i := range 10_000 {
		c.Shared(Must(fmt.Sprint(i)))
	}
	s.Add(&p, &c)
	s.Remove(&p, nil)
	require.LessOrEqual(t, cap(p.steps), maxIdleSteps)
	c.Reset()
	c.Shared(Must("few"))
	require.LessOrEqual(t, cap(c.requests), 64)
}

// A node does not keep a long key alive that it was made for.
func TestSetForgetsLongKeys(t *testing.T) {
	var s Set[int]
	hold := new(Place[int])
	path := strings.Repeat("x", 1<<16)
	key := Must("client", "7", path)
	text := weak.Make(unsafe.StringData(key.path))
	p := new(Place[int])
	s.Add(p, NewClaim(Request{key, Shared}))
	s.Add(hold, NewClaim(sharing("client/7")))
	s.Remove(p, nil)
	for i := range maxIdleNodes + 1 { // so that the node of key goes
		s.Add(p, NewClaim(Request{Must(fmt.Sprint(i)), Shared}))
		s.Remove(p, nil)
	}
	key = Key{}
	runtime.GC()
	runtime.GC()
	require.Nil(t, text.Value())
	require.Equal(t, 1, s.Len())
	runtime.KeepAlive(hold)
}
