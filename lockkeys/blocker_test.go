package lockkeys

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
