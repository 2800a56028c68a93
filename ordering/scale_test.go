package ordering

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// scaleStories are cases that were, or could be, of quadratic cost. With n
// events each takes well under a second; squared, it would be minutes.
var scaleStories = map[string]struct {
	cfg  Config[*Event]
	tell func(t *testing.T, r *rig, n int)
}{
	"early, in reverse": {Config[*Event]{MaxEarly: 1 << 20, MaxEarlyTotal: 1 << 20, GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := n; i > 0; i-- {
			r.give(numbered("a", i))
		}
	}},
	"early, in reverse, through the store": {Config[*Event]{GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := n; i > 0; i-- {
			r.give(numbered("a", i))
		}
	}},
	"every other one early": {Config[*Event]{MaxEarly: 1 << 20, MaxEarlyTotal: 1 << 20, GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := 2; i <= n; i += 2 {
			r.give(numbered("a", i))
		}
		for i := 1; i <= n; i += 2 {
			r.give(numbered("a", i))
		}
	}},
	"a chain of events that each wait for the one before": {Config[*Event]{MaxEarly: 1 << 20, MaxEarlyTotal: 1 << 20, GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := 1; i < n; i++ {
			r.give(chained(i))
		}
		r.give(chained(0))
	}},
	"a chain, from its end": {Config[*Event]{MaxEarly: 1 << 20, MaxEarlyTotal: 1 << 20, GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := n - 1; i >= 0; i-- {
			r.give(chained(i))
		}
	}},
	"a chain, through the store": {Config[*Event]{MaxEarlyTotal: 1000, GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		for i := 1; i < n; i++ {
			r.give(chained(i))
		}
		r.give(chained(0))
	}},
	"a hot stream, all delivered again": {Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPending: 1 << 20}}, func(t *testing.T, r *rig, n int) {
		open := r.gate("a1")
		for range 2 {
			for i := 1; i <= n; i++ {
				r.give(numbered("a", i))
			}
		}
		open()
	}},
	"a hot stream that is parked": {Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPending: 1 << 20}}, func(t *testing.T, r *rig, n int) {
		open := r.gate("a1")
		r.failing("a1", errors.New("bad"))
		for i := 1; i <= n; i++ {
			r.give(numbered("a", i))
		}
		open()
		require.Eventually(t, func() bool { return r.seq.Stats().Open == 0 }, time.Minute, time.Millisecond)
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
	}},
	"a hot stream whose first event is slow": {Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPending: 1 << 20}, Keys: func(job Job[*Event], claim *lockkeys.Claim) error {
		e := job.Event
		claim.Exclusive(key(e.ID))
		return nil
	}}, func(t *testing.T, r *rig, n int) {
		open := r.gate("a1")
		for i := 1; i <= n; i++ {
			r.give(numbered("a", i))
		}
		require.Eventually(t, func() bool { return r.seq.Stats().Open == 1 }, time.Minute, time.Millisecond)
		open()
	}},
	"many parkings that become one": {Config[*Event]{GapTimeout: time.Hour}, func(t *testing.T, r *rig, n int) {
		n = min(n, MaxPositions)
		if raceEnabled {
			n = min(n, 1000)
		}
		all := &Event{ID: "all"}
		for i := range n {
			e := ev(fmt.Sprintf("e%d", i), fmt.Sprintf("s%d=1", i))
			r.failing(e.ID, errors.New("bad"))
			r.give(e)
			all.Positions = append(all.Positions, Position{Stream: e.Positions[0].Stream, Number: 2})
		}
		require.Eventually(t, func() bool { return r.seq.Stats().Parkings == n }, time.Minute, time.Millisecond)
		r.give(all)
		require.Eventually(t, func() bool { return r.seq.Stats().Parkings == 1 }, time.Minute, time.Millisecond)
		for i := range n {
			r.failing(fmt.Sprintf("e%d", i), nil)
		}
		require.NoError(t, r.seq.Resume(t.Context(), key("s0")))
	}},
}

func numbered(stream string, i int) *Event {
	return &Event{ID: fmt.Sprintf("%s%d", stream, i), Positions: []Position{{Stream: key(stream), Number: uint64(i)}}}
}

func chained(i int) *Event { return ev(fmt.Sprintf("e%d", i), fmt.Sprintf("s%d=2, s%d=1", i, i+1)) }

// give offers an event and does not wait.
func (r *rig) give(e *Event) {
	r.mu.Lock()
	r.given[e.ID] = true
	r.mu.Unlock()
	require.NoError(r.t, r.seq.Offer(r.t.Context(), e, nil))
}

func TestNothingIsQuadratic(t *testing.T) {
	n := 20_000
	if raceEnabled {
		n = 4000
	}
	for name, story := range scaleStories {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, NewMemory())
			r.start(story.cfg)
			began := time.Now()
			story.tell(t, r, n)
			if name[:7] == "a chain" {
				r.give(ev("start", "s0=1"))
			}
			applied := func() bool { return r.seq.Stats().Applied >= uint64(len(r.given)) }
			require.Eventually(t, applied, time.Minute, time.Millisecond, "%+v", r.seq.Stats())
			t.Log(time.Since(began))
			r.stop()
		})
	}
}
