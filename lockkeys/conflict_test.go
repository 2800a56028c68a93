package lockkeys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func exclusively(text string) Request { return Request{MustParse(text), Exclusive} }
func sharing(text string) Request     { return Request{MustParse(text), Shared} }

// Whether two keys are related, and so conflict unless both are shared.
func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		a, b    string
		related bool
	}{
		{"a", "a", true},
		{"a", "a/b", true},
		{"a", "a/b/c/d", true},
		{"/", "/", true},
		{"/", "a", true},
		{"/", "client/42/account/7", true},
		{"client/42", "client/42/account/7", true},
		{"счёт", "счёт/7", true},
		{"a%2Fb", "a%2Fb/c", true},

		{"a", "b", false},
		{"a", "a-b", false},
		{"a", "ab", false},
		{"a", "a%01", false},
		{"a", "A", false},
		{"a-b", "a/b", false},
		{"a/b", "a%2Fb", false},
		{"a", "a%2Fb", false},
		{"a/b", "a/c", false},
		{"a/b", "b/a", false},
		{"a/b", "b", false},
		{"client/4", "client/42", false},
		{"client/4", "client/42/account/7", false},
		{"client/42/account/7", "client/42/account/70", false},
		{"client/42/account/7", "client/43/account/7", false},
		{" ", "  ", false},
	} {
		for _, mode := range []struct {
			name     string
			a, b     Mode
			conflict bool
		}{
			{"both exclusive", Exclusive, Exclusive, true},
			{"one shared", Exclusive, Shared, true},
			{"other shared", Shared, Exclusive, true},
			{"both shared", Shared, Shared, false},
		} {
			a, b := Request{MustParse(tt.a), mode.a}, Request{MustParse(tt.b), mode.b}
			want := tt.related && mode.conflict
			require.Equal(t, want, Conflicts(a, b), "%v and %v, %s", a, b, mode.name)
			require.Equal(t, want, Conflicts(b, a), "%v and %v, %s, the other way round", a, b, mode.name)
			require.Equal(t, want, NewClaim(a).Conflicts(NewClaim(b)))

			var s Set[string]
			var first, second Place[string]
			s.Add(&first, NewClaim(a))
			require.Equal(t, !want, s.Add(&second, NewClaim(b)), "%v behind %v in a set", b, a)
		}
	}
}

// The zero request is the widest there is.
func TestZeroRequest(t *testing.T) {
	require.True(t, Conflicts(Request{}, Request{}))
	require.True(t, Conflicts(Request{}, sharing("client/42")))
}
