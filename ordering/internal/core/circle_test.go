package core

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Events that wait for each other in a ring that is longer than what is searched with
// each arrival are found a little later, those of a second ring too. A chain as long
// that is no ring is left alone, and so are those behind the ring's events.
func TestLongRingsAreFound(t *testing.T) {
	const n = searchSteps + 1
	s := &story{t: t}
	s.begin(nil)
	chain := func(name string) {
		for i := range n {
			s.do("arrive", []string{fmt.Sprint(name, i), fmt.Sprintf("%s%d=2", name, i), fmt.Sprintf("%s%d=1", name, i+1)})
		}
	}
	ring := func(name string) {
		for i := range n {
			s.do("arrive", []string{fmt.Sprint(name, i), fmt.Sprintf("%s%d=2", name, i), fmt.Sprintf("%s%d=1", name, (i+1)%n)})
		}
	}
	chain("a")
	s.do("arrive", []string{"behind", "a=1", "r0=3"}) // of the stream that is searched first
	for i, name := range []string{"r", "q"} {
		ring(name)
		s.do("wait", []string{"99ms"})
		require.Len(t, s.w.parkings(), i)
		s.do("wait", []string{"1ms"})
		require.Len(t, s.w.parkings(), i+1)
	}
	for _, p := range s.w.parkings() {
		require.Equal(t, Contradiction, p.Reason)
		require.GreaterOrEqual(t, len(p.Streams), n) // and that of what is behind it
		require.Len(t, p.Faults, n)
	}
	require.Equal(t, n, s.h.m.Stats().Early, "the chain")
	require.Len(t, s.w.store.held, 2*n+1)
	require.Equal(t, 2, s.h.m.Stats().Parkings)
}
