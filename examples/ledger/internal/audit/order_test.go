package audit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/lockkeys"
)

// ran is a message in the order of arrival.
type ran struct {
	interval audit.Interval
	claim    *lockkeys.Claim
}

func claim(keys ...string) *lockkeys.Claim {
	c := lockkeys.NewClaim()
	for _, k := range keys {
		if k[0] == '?' { // shared
			c.Shared(lockkeys.MustParse(k[1:]))
		} else {
			c.Exclusive(lockkeys.MustParse(k))
		}
	}
	return c
}

func TestOrder(t *testing.T) {
	at := func(begin, end uint64, keys ...string) ran {
		return ran{audit.Interval{Begin: begin, End: end}, claim(keys...)}
	}
	for name, c := range map[string]struct {
		runs  []ran
		pairs uint64
		first string // violation
	}{
		"one after the other":       {[]ran{at(1, 2, "a"), at(3, 4, "a")}, 1, ""},
		"apart":                     {[]ran{at(1, 4, "a"), at(2, 3, "b")}, 0, ""},
		"siblings":                  {[]ran{at(1, 4, "a/b"), at(2, 3, "a/c")}, 0, ""},
		"a name is not a prefix":    {[]ran{at(1, 4, "a"), at(2, 3, "ab")}, 0, ""},
		"readers":                   {[]ran{at(1, 4, "?a"), at(2, 3, "?a/b"), at(5, 6, "?/")}, 0, ""},
		"overlap":                   {[]ran{at(1, 4, "a"), at(2, 3, "a")}, 1, "message 2 overlapped message 1 at a"},
		"overtaken":                 {[]ran{at(3, 4, "a"), at(1, 2, "a")}, 1, "message 2 overtook message 1 at a"},
		"below":                     {[]ran{at(1, 4, "a/b/c"), at(2, 3, "a")}, 1, "message 2 overlapped message 1 at a"},
		"above":                     {[]ran{at(1, 4, "a"), at(2, 3, "a/b/c")}, 1, "message 2 overlapped message 1 at a/b/c"},
		"root":                      {[]ran{at(1, 4, "x"), at(2, 3, "/")}, 1, "message 2 overlapped message 1 at /"},
		"below root":                {[]ran{at(1, 4, "/"), at(2, 3, "x")}, 1, "message 2 overlapped message 1 at x"},
		"reader after writer":       {[]ran{at(1, 4, "a"), at(2, 3, "?a/b")}, 1, "message 2 overlapped message 1 at a/b"},
		"writer after reader":       {[]ran{at(1, 4, "?a/b"), at(2, 3, "a")}, 1, "message 2 overlapped message 1 at a"},
		"hidden behind a later one": {[]ran{at(1, 6, "a/b"), at(2, 3, "?a/c"), at(4, 5, "a")}, 2, "message 3 overlapped message 1 at a"},
		"the second key":            {[]ran{at(1, 4, "b"), at(2, 3, "a", "b")}, 1, "message 2 overlapped message 1 at b"},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := check(c.runs)
			assert.Equal(t, c.pairs, o.Pairs)
			if c.first == "" {
				assert.Empty(t, o.First)
				assert.Zero(t, o.Violations)
				return
			}
			require.Len(t, o.First, 1)
			assert.Equal(t, c.first, o.First[0].String())
		})
	}
}

// check runs the check and, for comparison, the definition: all pairs.
func check(runs []ran) (o audit.Order, violations int) {
	for j := range runs {
		runs[j].interval.ID = uint64(j + 1)
		o.Add(runs[j].interval, runs[j].claim.Requests())
		for i := range j {
			if runs[i].claim.Conflicts(runs[j].claim) && runs[i].interval.End > runs[j].interval.Begin {
				violations++
				break
			}
		}
	}
	return o, violations
}

func TestOrderAgreesWithAllPairs(t *testing.T) {
	keys := []string{"/", "a", "a/b", "a/b/c", "a/d", "b", "b/c", "?/", "?a", "?a/b", "?a/b/c", "?a/d", "?b"}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		ticks := make([]uint64, 2*n)
		for i := range ticks {
			ticks[i] = uint64(i + 1)
		}
		if rapid.Bool().Draw(t, "out of order") {
			ticks = rapid.Permutation(ticks).Draw(t, "ticks")
		}
		runs := make([]ran, n)
		for i := range runs {
			begin, end := ticks[2*i], ticks[2*i+1]
			runs[i] = ran{
				audit.Interval{Begin: min(begin, end), End: max(begin, end)},
				claim(rapid.SliceOfN(rapid.SampledFrom(keys), 1, 3).Draw(t, "keys")...),
			}
		}
		o, violations := check(runs)
		require.Equal(t, violations, o.Violations)
	})
}
