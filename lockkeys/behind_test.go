package lockkeys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// nobody is the batch of one place.
func nobody(*Place[string]) bool { return false }

// Behind finds what conflicts directly and waits for nothing else.
func TestSetBehind(t *testing.T) {
	key, pair := []Request{exclusively("a/b")}, []Request{exclusively("a/b"), exclusively("c")}
	mixed := []Request{exclusively("a/b"), sharing("c")}
	reader := []Request{sharing("a")}
	for _, tt := range []struct {
		name    string
		p       []Request
		between []Request // waits or not, and came before next
		next    []Request
		want    string
	}{
		{"the same key", key, nil, key, "next"},
		{"the same keys", pair, nil, pair, "next"},
		{"with a shared one", mixed, nil, mixed, "next"},
		{"fewer keys", pair, nil, key, "next"},
		{"more keys, which are free", key, nil, pair, "next"},
		{"more keys, and one is not free", key, []Request{exclusively("c")}, pair, ""},
		{"another mode", pair, nil, mixed, "next"},
		{"a reader behind a writer", key, nil, reader, "next"},
		{"a writer behind a reader", reader, nil, key, "next"},
		{"a writer behind a reader above", []Request{sharing("/")}, nil, key, "next"},
		{"above", key, nil, []Request{exclusively("a")}, "next"},
		{"below", []Request{exclusively("a")}, nil, key, "next"},
		{"above, and another is there", key, []Request{exclusively("a/c")}, []Request{exclusively("a")}, ""},
		{"above, and another reader is there", reader, []Request{sharing("a/c")}, []Request{exclusively("a")}, ""},
		{"two readers do not conflict", reader, nil, reader, ""},
		{"unrelated", key, nil, []Request{exclusively("a/c")}, ""},
		{"nothing claimed", nil, nil, nil, ""},
		{"unrelated between", pair, []Request{exclusively("a/c")}, pair, "next"},
		{"no key between", key, []Request{}, key, "next"},
		{"narrower between", key, []Request{exclusively("a/b/c")}, key, "between"},
		{"reader of below between", key, []Request{sharing("a/b/c")}, key, "between"},
		{"reader of the key between", key, []Request{sharing("a/b")}, key, "between"},
		{"wider between", key, []Request{exclusively("a")}, key, "between"},
		{"reader of all between", key, []Request{sharing("/")}, key, "between"},
		{"writer of the shared one between", mixed, []Request{exclusively("c")}, mixed, "between"},
		{"two at different keys", pair, []Request{exclusively("c")}, key, "between"},
		{"two readers", key, reader, reader, ""},
		{"two below", []Request{exclusively("a")}, []Request{exclusively("a/c")}, key, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t)
			s.granted("p", tt.p...)
			if tt.between != nil {
				s.add("between", tt.between...)
			}
			s.add("next", tt.next...)
			next, ok := s.set.Behind(s.places["p"], nobody)
			require.Equal(t, tt.want != "", ok)
			if ok {
				require.Equal(t, tt.want, next.Owner)
			}
		})
	}
}

// A chain of transfers goes on as long as each waits for those before it alone.
func TestSetBehindInAChain(t *testing.T) {
	s := tell(t)
	pair := func(a, b string) []Request { return []Request{exclusively(a), exclusively(b)} }
	s.granted("other", exclusively("x"))
	s.granted("1", pair("a", "b")...)
	s.waits("2", pair("b", "c")...)
	s.waits("3", pair("a", "c")...) // waits for 1 and 2
	s.waits("4", exclusively("c"))
	s.waits("5", pair("c", "x")...) // waits for "other", too
	s.waits("6", exclusively("c"))
	batch := map[string]bool{"1": true}
	with := func(p *Place[string]) bool { return batch[p.Owner] }
	last := s.places["1"]
	var chain []string
	for next, ok := s.set.Behind(last, with); ok; next, ok = s.set.Behind(last, with) {
		s.set.Hold(next)
		chain = append(chain, next.Owner)
		batch[next.Owner] = true
		last = next
	}
	require.Equal(t, []string{"2", "3", "4"}, chain)
	s.ends("other")
	next, ok := s.set.Behind(last, with)
	require.True(t, ok)
	require.Equal(t, "5", next.Owner)
}
