package lockkeys

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSetShrink(t *testing.T) {
	s := tell(t)
	s.granted("transfer", exclusively("a/1"), exclusively("b/1"))
	s.waits("a", exclusively("a"))
	s.waits("b", exclusively("b"))
	s.shrinks("transfer", keys("a/1", "a/1", "c"), "a")
	require.Equal(t, []string{"a: a", "b: b", "b/1: transfer"}, s.all())
	s.shrinks("transfer", keys("b/1"), "b")
	s.shrinks("transfer", keys("a/1"))
	require.True(t, s.places["transfer"].InSet())
	s.ends("transfer")
	s.ends("a")
	s.ends("b")
	s.empty()
}

// A claim that has been shrunk keeps its place among those who share its key.
func TestSetShrinkKeepsOrder(t *testing.T) {
	s := tell(t)
	s.granted("first", sharing("a"), sharing("b"))
	s.granted("second", sharing("b"))
	s.shrinks("first", keys("a"))
	require.Equal(t, []string{"b (shared): first", "b (shared): second"}, s.all())
	s.waits("writer", exclusively("b"))
	s.ends("first")
	s.ends("second", "writer")
	s.ends("writer")
	s.empty()
}

// A claim whose modes become weaker admits others, those that wait for it now
// and those that come later.
func TestSetShrinkMixed(t *testing.T) {
	for _, tt := range []struct {
		name string
		has  []Request
		drop []Key
		lets []Request // from now on
		not  []Request // still
	}{
		{"shared stays", []Request{sharing("a/1"), exclusively("a/2")}, keys("a/2"), []Request{sharing("a"), exclusively("a/2")}, []Request{exclusively("a")}},
		{"shared above stays", []Request{sharing("a"), exclusively("a/2")}, keys("a/2"), []Request{sharing("a"), sharing("a/2")}, []Request{exclusively("a/3")}},
		{"exclusive below stays", []Request{sharing("a"), exclusively("a/2")}, keys("a"), []Request{exclusively("a/3")}, []Request{sharing("a")}},
		{"shared elsewhere stays", []Request{sharing("b"), exclusively("a/2")}, keys("a/2"), []Request{exclusively("a")}, []Request{exclusively("b/1")}},
		{"exclusive stays", []Request{sharing("a/1"), exclusively("a/2")}, keys("a/1"), []Request{exclusively("a/1/x")}, []Request{sharing("a/2")}},
		{"nothing stays", []Request{sharing("a"), exclusively("a/2"), exclusively("b")}, keys("a/2", "b", "a"), []Request{exclusively("/")}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range tt.lets {
				s := tell(t)
				s.granted("p", tt.has...)
				s.waits("let", r)
				s.shrinks("p", tt.drop, "let")
				s.ends("let")
				s.granted("later", r)
				s.ends("later")
				if tt.not != nil {
					s.waits("not", tt.not...)
					s.ends("p", "not")
					s.ends("not")
				} else {
					s.ends("p")
				}
				s.empty()
				require.Zero(t, s.set.heavy)
			}
		})
	}
}

// Releasing the keys of a claim one by one visits each of them once.
func TestSetShrinkOneByOne(t *testing.T) {
	const n = 50_000
	var s Set[int]
	var p Place[int]
	var c Claim
	var all []Key
	for i := range n {
		all = append(all, Must("client", fmt.Sprint(i%10), fmt.Sprint(i)))
		if i%3 == 0 {
			c.Shared(all[i])
		} else {
			c.Exclusive(all[i])
		}
	}
	require.True(t, s.Add(&p, &c))
	s.looked = 0
	for i := range all {
		s.Shrink(&p, all[i:i+1], nil)
		require.True(t, c.Drop(all[i]))
	}
	require.LessOrEqual(t, s.looked, 5*n+100)
	require.Empty(t, c.Requests())
	require.Zero(t, s.used)
	s.Remove(&p, nil)
	require.Zero(t, s.heavy)
}
