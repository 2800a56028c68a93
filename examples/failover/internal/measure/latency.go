package measure

import (
	"slices"
	"time"
)

// Rounds are the mean latencies of several ways that took turns: the first index
// is the round, the second one the way.
type Rounds [][]time.Duration

// Latency is the median of a way's mean latencies; NaN for no rounds.
func (r Rounds) Latency(way int) float64 {
	return Median(r.each(func(round []time.Duration) float64 { return float64(round[way]) }))
}

// Overhead is by how much larger a way's latency is than that of a base, from
// round to round: the median, the lowest and the highest, as shares of the
// base's. NaN for no rounds.
func (r Rounds) Overhead(way, base int) (median, low, high float64) {
	list := r.each(func(round []time.Duration) float64 { return float64(round[way])/float64(round[base]) - 1 })
	median = Median(list)
	if len(list) == 0 {
		return median, median, median
	}
	return median, slices.Min(list), slices.Max(list)
}

func (r Rounds) each(f func(round []time.Duration) float64) (list []float64) {
	for _, round := range r {
		list = append(list, f(round))
	}
	return list
}
