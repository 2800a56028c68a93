package measure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRatio(t *testing.T) {
	var times Race
	times.ratio("pool", 50)
	require.InDelta(t, 1, times.ratio("pool", 100), 1e-9)
	require.InDelta(t, 4, times.ratio("interlock", 25), 1e-9, "takes four times as long")
	rates := Race{Rate: "msg/s"}
	rates.ratio("one-by-one", 100)
	require.InDelta(t, 6, rates.ratio("interlock", 600), 1e-9, "is six times as fast")
}

func TestPercentile(t *testing.T) {
	times := []time.Duration{3 * time.Millisecond, time.Millisecond, 2 * time.Millisecond}
	require.InDelta(t, 2, Percentile(times, 0.5), 1e-9)
	require.InDelta(t, 3, Percentile(times, 0.99), 1e-9)
	require.InDelta(t, 3, Percentile(times, 1), 1e-9)
}
