package core

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A set of spans has the numbers that were added, as a plain set does.
func TestSpansAreASet(t *testing.T) {
	const most = 40
	rapid.Check(t, func(t *rapid.T) {
		var set Spans
		plain := map[uint64]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				from := rapid.Uint64Range(1, most).Draw(t, "from")
				r := Span{from, rapid.Uint64Range(from, most).Draw(t, "to")}
				set = set.Add(r)
				for n := r.From; n <= r.To; n++ {
					plain[n] = true
				}
			},
			"absorb": func(t *rapid.T) {
				first := rapid.Uint64Range(1, most).Draw(t, "first")
				next, rest := set.Absorb(first)
				for n := range plain {
					if n < next {
						delete(plain, n)
					}
				}
				require.False(t, plain[next])
				require.GreaterOrEqual(t, next, first)
				set = rest
			},
			"": func(t *rapid.T) {
				for n := range uint64(most + 2) {
					require.Equal(t, plain[n], set.Contains(n), "number %d of %v", n, set)
				}
				for i, r := range set {
					require.LessOrEqual(t, r.From, r.To)
					require.True(t, i == 0 || set[i-1].To+1 < r.From, "%v touch", set)
				}
			},
		})
	})
}
