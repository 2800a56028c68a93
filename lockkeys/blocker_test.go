package lockkeys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Behind finds the same claim directly behind, and nothing else.
func TestSetBehind(t *testing.T) {
	key, pair := []Request{exclusively("a/b")}, []Request{exclusively("a/b"), exclusively("c")}
	mixed := []Request{exclusively("a/b"), sharing("c")}
	for _, tt := range []struct {
		name    string
		p       []Request
		between []Request
		next    []Request
		want    bool
	}{
		{"the same key", key, nil, key, true},
		{"the same keys", pair, nil, pair, true},
		{"with a shared one", mixed, nil, mixed, true},
		{"unrelated between", pair, []Request{exclusively("a/c")}, pair, true},
		{"fewer keys", pair, nil, key, false},
		{"more keys", key, nil, pair, false},
		{"another mode", pair, nil, mixed, false},
		{"shared", []Request{sharing("a")}, nil, []Request{sharing("a")}, false},
		{"no key between", key, []Request{}, key, true},
		{"narrower between", key, []Request{exclusively("a/b/c")}, key, false},
		{"reader between", key, []Request{sharing("a/b/c")}, key, false},
		{"reader of the key between", key, []Request{sharing("a/b")}, key, false},
		{"wider between", key, []Request{exclusively("a")}, key, false},
		{"reader of all between", key, []Request{sharing("/")}, key, false},
		{"writer of the shared one between", mixed, []Request{exclusively("c")}, mixed, false},
		{"nothing claimed", nil, nil, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			s.granted("p", tt.p...)
			if tt.between != nil {
				s.add("between", tt.between...)
			}
			s.add("next", tt.next...)
			next, ok := s.set.Behind(s.places["p"])
			require.Equal(t, tt.want, ok)
			if ok {
				require.Equal(t, "next", next.Owner)
			}
			if tt.want {
				s.add("third", tt.next...)
				third, ok := s.set.Behind(next)
				require.True(t, ok, "and so on down the line")
				require.Equal(t, "third", third.Owner)
			}
		})
	}
}

func TestSetBlocker(t *testing.T) {
	for _, tt := range []struct {
		name    string
		ahead   []Request
		p       []Request
		request Request
	}{
		{"the key itself", []Request{exclusively("a")}, []Request{exclusively("a")}, exclusively("a")},
		{"above", []Request{exclusively("a")}, []Request{sharing("a/b/c")}, exclusively("a")},
		{"below", []Request{exclusively("a/b/c"), exclusively("a-b")}, []Request{exclusively("a")}, exclusively("a/b/c")},
		{"a reader below", []Request{sharing("a/b")}, []Request{exclusively("a")}, sharing("a/b")},
		{"a writer below among readers", []Request{sharing("a"), exclusively("a/b")}, []Request{sharing("a")}, exclusively("a/b")},
		{"everything", []Request{exclusively("/")}, []Request{exclusively("z")}, exclusively("/")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			s.granted("unrelated", exclusively("x"), sharing("y"))
			s.places["unrelated"].Owner = ""
			if tt.name == "everything" {
				s.ends("unrelated")
			}
			s.granted("ahead", tt.ahead...)
			s.waits("p", tt.p...)
			request, by, ok := s.set.Blocker(s.places["p"])
			require.True(t, ok)
			require.Equal(t, tt.request, request)
			require.Equal(t, "ahead", by.Owner)
			_, _, ok = s.set.Blocker(by)
			require.False(t, ok, "it waits for nothing")
		})
	}
}
