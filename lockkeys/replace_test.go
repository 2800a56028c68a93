package lockkeys

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func (s *story) replaces(name string, requests []Request, grants ...string) {
	s.t.Helper()
	s.grants(s.set.Replace(s.places[name], NewClaim(requests...), nil), grants)
}

// A claim that widens goes behind those that are granted, and in front of those
// that wait and came later.
func TestSetReplaceKeepsArrival(t *testing.T) {
	s := tell(t)
	s.granted("first", exclusively("a"))
	s.granted("second", exclusively("b"))
	s.waits("third", exclusively("a"), exclusively("c"))
	s.waits("fourth", exclusively("b"))
	s.waits("fifth", exclusively("c"))
	s.replaces("first", []Request{exclusively("a"), exclusively("b")})
	require.False(t, s.places["first"].Granted())
	s.ends("second", "first")
	s.ends("first", "third", "fourth")
	s.ends("third", "fifth")
	s.ends("fourth")
	s.ends("fifth")
	s.empty()
}

// A step that was granted to a claim that waits elsewhere waits again, or else
// the two would wait for each other.
func TestSetReplaceDemotes(t *testing.T) {
	for _, tt := range []struct{ name, has, its, wider string }{
		{"intention by exclusive", "a/1", "a/2", "a"},
		{"exclusive by intention", "b/1", "a", "a/2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			s.granted("one", exclusively("x"))
			s.granted("two", exclusively("y"), exclusively("z"))
			s.waits("late", exclusively(tt.its), exclusively("x"), exclusively("y"))
			s.replaces("one", []Request{exclusively("x"), exclusively(tt.wider)})
			require.True(t, s.places["one"].Granted())
			s.ends("two")
			s.ends("one", "late")
			s.ends("late")
			s.empty()
		})
	}
}

// Readers below and at a key that wait elsewhere stand back as well.
func TestSetReplaceDemotesReaders(t *testing.T) {
	s := tell(t)
	s.granted("writer", exclusively("x"))
	s.granted("reader", sharing("a/1"))
	s.waits("late reader", sharing("a/2"), exclusively("x"))
	s.waits("late sharer", sharing("a"), exclusively("x"))
	s.replaces("writer", []Request{exclusively("x"), exclusively("a")})
	require.False(t, s.places["writer"].Granted())
	s.ends("reader", "writer")
	s.ends("writer", "late reader")
	s.ends("late reader", "late sharer")
	s.ends("late sharer")
	s.empty()
}

// Two that widen towards each other: the earlier goes first.
func TestSetReplaceTowardsEachOther(t *testing.T) {
	s := tell(t)
	s.granted("one", exclusively("a"))
	s.granted("two", exclusively("b"))
	s.replaces("two", []Request{exclusively("a"), exclusively("b")})
	s.replaces("one", []Request{exclusively("a"), exclusively("b")})
	require.True(t, s.places["one"].Granted())
	s.ends("one", "two")
	s.ends("two")
	s.empty()
}

// Members of a batch that run go before one that widens; those that the handler
// did not get to return behind it.
func TestSetHoldAndLetGo(t *testing.T) {
	s := tell(t)
	b := exclusively("b")
	s.granted("first", exclusively("a"))
	s.granted("second", b)
	s.waits("third", b)
	s.waits("fourth", b)
	s.waits("fifth", b)
	for _, name := range []string{"second", "third"} {
		next, ok := s.set.Behind(s.places[name], func(p *Place[string]) bool { return p.Owner == "second" })
		require.True(t, ok)
		s.set.Hold(next)
	}
	s.replaces("first", []Request{exclusively("a"), b})
	s.ends("second", "third")
	s.replaces("fourth", []Request{b})
	s.ends("third", "first")
	s.ends("first", "fourth")
	s.ends("fourth", "fifth")
	s.ends("fifth")
	s.empty()
}

// A reused place has the order of its new arrival.
func TestSetReplaceByNothing(t *testing.T) {
	s := tell(t)
	s.granted("one", exclusively("a"))
	s.waits("two", exclusively("a"))
	s.replaces("one", nil, "two")
	require.True(t, s.places["one"].Granted())
	require.Equal(t, []string{"a: two"}, s.all())
	s.replaces("one", []Request{exclusively("a")})
	require.False(t, s.places["one"].Granted())
	s.ends("two", "one")
	s.ends("one")
	s.empty()
	require.Zero(t, s.set.heavy)
}

// The cost of Replace does not grow with the claims that do not conflict; of
// these, at most maxLights keys are visited.
func TestSetReplaceLooksAtConflictsOnly(t *testing.T) {
	looked := func(n int) int {
		var s Set[int]
		add := func(requests ...Request) *Place[int] {
			p := new(Place[int])
			s.Add(p, NewClaim(requests...))
			return p
		}
		add(exclusively("busy"))
		add(sharing("a"))
		p := add(sharing("a/1"), exclusively("own"))
		for i := range n {
			add(exclusively("busy"))                               // in another lane
			add(Request{Must("a", fmt.Sprint("w", i)), Exclusive}) // in a run with it
			add(Request{Must("b", fmt.Sprint(i)), Shared}, exclusively("busy/1"))
			add(Request{Must("c", fmt.Sprint(i)), Exclusive})
		}
		s.looked = 0
		s.Replace(p, NewClaim(exclusively("own"), exclusively("a/1")), nil)
		require.False(t, p.Granted())
		s.Replace(p, NewClaim(exclusively("own"), sharing("a/1")), nil)
		require.True(t, p.Granted())
		return s.looked
	}
	require.Equal(t, looked(1000), looked(5000))
	require.Less(t, looked(1000), 2*maxLights+100)
}
