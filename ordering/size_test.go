package ordering

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestSizePanics: an event whose size cannot be known is refused. If that shows
// only when its turn comes, it is parked, and not tried again and again.
func TestSizePanics(t *testing.T) {
	asked := 0
	cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxPendingBytes: 1 << 20, Size: func(j Job[*Event]) int64 {
		if j.Event.ID == "b2" {
			asked++
		}
		if j.Event.ID == "a1" || asked > 1 {
			panic(errShaky)
		}
		return 1
	}}}
	story(t, cfg, func(t *testing.T, r *rig) {
		err := r.seq.Offer(t.Context(), ev("a1", "a=1"), r.done)
		require.ErrorIs(t, err, errShaky)
		require.True(t, errors.As(err, new(*dispatcher.PanicError)))

		r.offer(series("b", 2, 2)...)
		r.offer(series("b", 1, 1)...)
		require.Equal(t, []string{"b1"}, r.ran())
		require.Len(t, r.parked(), 1)
		require.Equal(t, 2, asked)
	})
}
