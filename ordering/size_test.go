package ordering

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestSizePanics: an event whose size cannot be known is parked when its turn
// comes, and not tried again and again.
func TestSizePanics(t *testing.T) {
	cfg := Config{Dispatcher: dispatcher.Config[Job]{MaxPendingBytes: 1 << 20, Size: func(j Job) int64 {
		if j.Event.ID == "a2" {
			panic(errShaky)
		}
		return 1
	}}}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.offer(series("a", 2, 3)...)
		r.offer(series("a", 1, 1)...)
		require.Equal(t, []string{"a1"}, r.ran())
		require.Len(t, r.parked(), 1)
		r.offer(series("b", 1, 1)...)
		require.Equal(t, []string{"a1", "b1"}, r.ran(), "others go on")
	})
}
