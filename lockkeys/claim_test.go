package lockkeys

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestClaimIsNormalised(t *testing.T) {
	for _, tt := range []struct {
		name      string
		raw, want []Request
	}{
		{"nothing", nil, nil},
		{"one", []Request{exclusively("a")}, []Request{exclusively("a")}},
		{
			"duplicates",
			[]Request{exclusively("a"), sharing("b"), exclusively("a"), sharing("b")},
			[]Request{exclusively("a"), sharing("b")},
		},
		{
			"covered by a wider one",
			[]Request{exclusively("a/b/c"), exclusively("a/b"), exclusively("a"), exclusively("a/d")},
			[]Request{exclusively("a")},
		},
		{
			"shared covered by wider shared",
			[]Request{sharing("a/b"), sharing("a")},
			[]Request{sharing("a")},
		},
		{
			"shared under exclusive",
			[]Request{sharing("a/b"), exclusively("a"), sharing("a")},
			[]Request{exclusively("a")},
		},
		{
			"exclusive under shared is kept",
			[]Request{exclusively("a/b"), sharing("a"), sharing("a/b"), sharing("a/c"), exclusively("a/b/c")},
			[]Request{sharing("a"), exclusively("a/b")},
		},
		{
			"everything under the root",
			[]Request{exclusively("a"), sharing("b/c"), exclusively("/")},
			[]Request{exclusively("/")},
		},
		{
			"in tree order",
			[]Request{exclusively("client/42"), exclusively("b"), exclusively("a-b"), sharing("a/b"), exclusively("client/4")},
			[]Request{sharing("a/b"), exclusively("a-b"), exclusively("b"), exclusively("client/4"), exclusively("client/42")},
		},
		{
			"similar names cover nothing",
			[]Request{exclusively("a"), exclusively("ab"), exclusively("a%2Fb")},
			[]Request{exclusively("a"), exclusively("a%2Fb"), exclusively("ab")},
		},
		{
			"an unknown mode is exclusive",
			[]Request{{Must("a"), Mode(7)}, sharing("a")},
			[]Request{exclusively("a")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, NewClaim(tt.raw...).Requests())
		})
	}
}

func TestClaimGrows(t *testing.T) {
	var c Claim
	require.Empty(t, c.Requests(), "the zero claim")
	c.Exclusive(Must("a", "b"), Must("c"))
	c.Shared(Must("c", "d"))
	require.Equal(t, []Request{exclusively("a/b"), exclusively("c")}, c.Requests())
	c.Exclusive(Must("a"))
	c.Shared(Must("b"))
	require.Equal(t, []Request{exclusively("a"), sharing("b"), exclusively("c")}, c.Requests())
	c.Reset()
	require.Empty(t, c.Requests())
}

// Normalising changes what a claim says, not what it means.
func TestClaimMeansTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOfN(rapid.Custom(genRequest), 0, 8).Draw(t, "raw")
		kept := NewClaim(raw...).Requests()

		any := func(requests []Request, yes func(Request) bool) bool {
			for _, r := range requests {
				if yes(r) {
					return true
				}
			}
			return false
		}
		probe := func(r Request) {
			conflicts := func(with Request) bool { return Conflicts(r, with) }
			require.Equal(t, any(raw, conflicts), any(kept, conflicts), "%v with %v, normalised %v", r, raw, kept)
		}
		for range 10 {
			probe(genRequest(t))
		}
		for _, r := range raw {
			probe(r)
			probe(Request{r.Key, Shared})
			covers := func(k Request) bool { return k.covers(r) }
			require.True(t, any(kept, covers), "%v is covered by %v", r, kept)
		}
		for i, r := range kept {
			require.Contains(t, raw, r)
			for j, other := range kept {
				require.False(t, i != j && r.covers(other), "%v covers %v", r, other)
			}
			if i > 0 {
				require.Negative(t, kept[i-1].Key.Compare(r.Key), "tree order, one request a key")
			}
		}
	})
}

func TestClaimResetKeepsMemory(t *testing.T) {
	var c Claim
	client, account, other := Must("client", "42"), Must("client", "42", "account"), Must("b")
	allocs := testing.AllocsPerRun(100, func() {
		c.Reset()
		c.Exclusive(account, client)
		c.Shared(other)
		c.Add(Request{Key: other})
		c.Requests()
	})
	require.Zero(t, allocs)
	require.Equal(t, []Request{exclusively("b"), exclusively("client/42")}, c.Requests())
}

func TestClaimFindAndDrop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genClaim(t, genCrowdedKey)
		var rest []Request
		var dropped []Key
		for _, r := range slices.Clone(c.Requests()) {
			got, ok := c.Find(r.Key)
			require.True(t, ok)
			require.Equal(t, r, got)
			if rapid.Bool().Draw(t, "drop") {
				require.True(t, c.Drop(r.Key))
				require.False(t, c.Drop(r.Key), "the second time")
				dropped = append(dropped, r.Key)
			} else {
				rest = append(rest, r)
			}
		}
		for _, k := range dropped {
			_, ok := c.Find(k)
			require.False(t, ok)
		}
		added := genClaim(t, genCrowdedKey)
		c.Add(added.Requests()...)
		added.Add(rest...)
		require.True(t, slices.Equal(added.Requests(), c.Requests()), "%v, not %v", c.Requests(), added.Requests())
		_, ok := c.Find(Must("no such key"))
		require.False(t, ok)
		require.False(t, c.Drop(Must("no such key")))
	})
}

// TestClaimCovers: a claim covers a request if adding that changes nothing.
func TestClaimCovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genClaim(t, genCrowdedKey)
		if all := c.Requests(); len(all) > 0 && rapid.Bool().Draw(t, "drop") {
			c.Drop(all[0].Key)
		}
		key := rapid.OneOf(rapid.Custom(genCrowdedKey), rapid.Custom(genKey)).Draw(t, "key")
		for _, r := range []Request{{key, Exclusive}, {key, Shared}, {key, Mode(7)}} {
			covered := c.Covers(r)
			wider := NewClaim(append(slices.Clone(c.Requests()), r)...)
			require.Equal(t, slices.Equal(wider.Requests(), c.Requests()), covered, "%v in %v", r, c.Requests())
		}
	})
}
