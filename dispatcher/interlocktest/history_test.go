package interlocktest

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestDisorder: what a dispatcher must not do would be found.
func TestDisorder(t *testing.T) {
	a, b := lockkeys.Request{Key: lockkeys.Must("a")}, lockkeys.Request{Key: lockkeys.Must("b")}
	attempt := func(id uint64, begin, end int, left ...lockkeys.Request) Attempt[int] {
		return Attempt[int]{ID: id, Attempt: 1, Begin: Moment{Step: begin}, End: Moment{Step: end}, Left: left}
	}
	undone, batched := attempt(2, 1, 2, a), []Attempt[int]{attempt(1, 1, 2, a), attempt(2, 1, 2, a)}
	undone.Undone = true
	batched[0].Batch, batched[1].Batch = 1, 1
	declared := map[uint64]*lockkeys.Claim{1: lockkeys.NewClaim(a, b), 2: lockkeys.NewClaim(a), 3: lockkeys.NewClaim(lockkeys.Request{Key: lockkeys.Must("c")})}
	for name, test := range map[string]struct {
		attempts []Attempt[int]
		found    bool
	}{
		"in order":                        {[]Attempt[int]{attempt(1, 1, 2, a, b), attempt(2, 3, 4, a)}, false},
		"the later first":                 {[]Attempt[int]{attempt(2, 1, 2, a), attempt(1, 3, 4, a, b)}, true},
		"before the earlier has ended":    {[]Attempt[int]{attempt(1, 1, 3, a, b), attempt(2, 2, 4, a)}, true},
		"before the second attempt of it": {[]Attempt[int]{attempt(1, 1, 2, a, b), attempt(2, 3, 4, a), attempt(1, 5, 6, a, b)}, true},
		"an attempt that does not count":  {[]Attempt[int]{undone, attempt(1, 3, 4, a, b), attempt(2, 5, 6, a)}, false},
		"after a release":                 {[]Attempt[int]{attempt(1, 1, 4, b), attempt(2, 2, 3, a)}, false},
		"before it has begun":             {[]Attempt[int]{attempt(2, 1, 2, a), attempt(1, 3, 4, b)}, true},
		"no conflict":                     {[]Attempt[int]{attempt(3, 1, 4), attempt(1, 2, 3, a, b)}, false},
		"one batch":                       {batched, false},
	} {
		h := &History[int]{Attempts: test.attempts}
		_, _, found := h.disorder(declared)
		require.Equal(t, test.found, found, name)
	}
}

// TestOverlap: two handlers with conflicting keys at once would be found. They are of
// two dispatchers, since one does not run them.
func TestOverlap(t *testing.T) {
	for _, mode := range []lockkeys.Mode{lockkeys.Shared, lockkeys.Exclusive} {
		s := newStage(dispatcher.Config[int]{}, newRound[int](t, 0), nil)
		one := NewCall(t, lockkeys.Request{Key: account("1"), Mode: lockkeys.Shared}, lockkeys.Request{Key: account("2")})
		two := NewCall(t, lockkeys.Request{Key: account("1"), Mode: mode})
		three := NewCall(t, lockkeys.Request{Key: account("2")})
		first := s.begin(one.Context(), 1, 0)
		s.endCall(s.begin(two.Context(), 1, 0))
		require.NoError(t, dispatcher.Release(one.Context(), account("2")))
		third := s.begin(three.Context(), 1, 0)
		require.Equal(t, 1, third.worker, "the lowest that is free")
		s.endCall(first)
		s.endCall(third)
		_, problems := s.end()
		if mode == lockkeys.Shared {
			require.Empty(t, problems)
			continue
		}
		require.Len(t, problems, 1)
		require.True(t, strings.Contains(problems[0], "message 1 [client/42/account/1] began while the handler of message 1 [client/42/account/1 (shared) client/42/account/2] ran"), problems[0])
	}
}

// TestYield: with a context of no round it does nothing.
func TestYield(t *testing.T) { Yield(context.Background()) }
