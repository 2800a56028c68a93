package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	. "github.com/interlock-go/interlock/ordering"
)

// Events of one stream whose lock keys let them run side by side end while another one of
// the stream fails and closes it: those before it are applied, those behind it are applied
// or held, and none is both or neither. With the race detector this is also about what
// the core reads of events whose runs are ending.
func TestEventsEndBesideOneThatFails(t *testing.T) {
	for range 30 {
		const events, bad = 60, 20
		var mu sync.Mutex
		applied, told := map[uint64]int{}, map[uint64]Result{}
		var all sync.WaitGroup
		s, err := New(t.Context(), Config[*Event]{
			Store: NewMemory(),
			Keys: func(job Job[*Event], claim *lockkeys.Claim) error {
				claim.Exclusive(lockkeys.Must("event", fmt.Sprint(job.Event.Positions[0].Number)))
				return nil
			},
			Handler: func(_ context.Context, job Job[*Event]) error {
				n := job.Event.Positions[0].Number
				if n == bad {
					return dispatcher.Permanent(errors.New("bad"))
				}
				mu.Lock()
				defer mu.Unlock()
				applied[n]++
				return nil
			},
		})
		require.NoError(t, err)
		all.Add(events)
		for n := range uint64(events) {
			e := &Event{Positions: []Position{{Stream: lockkeys.Must("s"), Number: n + 1}}}
			require.NoError(t, s.Offer(t.Context(), e, func(e *Event, o Outcome) {
				mu.Lock()
				defer mu.Unlock()
				told[e.Positions[0].Number] = o.Result
				all.Done()
			}))
		}
		all.Wait()
		require.NoError(t, s.Close())
		for n := range uint64(events) {
			n++
			switch {
			case n == bad:
				assert.Equal(t, Held, told[n])
			case n < bad:
				assert.Equal(t, Applied, told[n], n)
			}
			want := 0
			if told[n] == Applied {
				want = 1
			}
			assert.Equal(t, want, applied[n], n)
		}
	}
}
