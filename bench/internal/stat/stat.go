// Package stat has what the benchmarks reckon with.
package stat

import "slices"

// Median returns the middle of values, or the mean of the two in the middle.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Ratio returns the median of values over bases, pair by pair.
func Ratio(values, bases []float64) float64 {
	ratios := make([]float64, len(values))
	for i := range ratios {
		ratios[i] = values[i] / bases[i]
	}
	return Median(ratios)
}
