package model

import (
	"fmt"
	"math"
	"time"
)

// ActiveStreams returns the mean number of streams in memory, if a stream leaves
// ttl after its last event: Σ(1-exp(-λ_k·ttl)), those with an event in the last
// ttl. arrivals are the λ_k; 0 is allowed. A bound on active streams, K_max in
// the paper, must be larger.
func ActiveStreams(ttl time.Duration, arrivals []float64) (float64, error) {
	if err := notNegative("ttl", ttl); err != nil {
		return 0, err
	}
	active := 0.0
	for i, a := range arrivals {
		if a == 0 {
			continue
		}
		if err := rate("arrival", a); err != nil {
			return 0, fmt.Errorf("stream %d: %w", i, err)
		}
		active += present(a, ttl)
	}
	return active, nil
}

// ActiveUniform is [ActiveStreams] for streams with equal shares of arrival, the
// total rate.
func ActiveUniform(ttl time.Duration, arrival float64, streams int) (float64, error) {
	return ActiveZipf(ttl, arrival, streams, 0)
}

// ActiveZipf is [ActiveStreams] for streams with Zipf-distributed shares of
// arrival, the total rate: that of the k-th is proportional to 1/k^exponent. Its
// run time is linear in streams.
func ActiveZipf(ttl time.Duration, arrival float64, streams int, exponent float64) (float64, error) {
	if err := first(notNegative("ttl", ttl), rate("arrival", arrival), count("streams", streams, 1, maxCount)); err != nil {
		return 0, err
	}
	if !(exponent >= 0) || math.IsInf(exponent, 1) {
		return 0, &InputError{"exponent", exponent, ErrNegative}
	}
	if exponent == 0 {
		return float64(streams) * present(arrival/float64(streams), ttl), nil
	}
	total := 0.0
	for k := range streams {
		total += math.Pow(float64(k+1), -exponent)
	}
	active := 0.0
	for k := range streams {
		active += present(arrival*math.Pow(float64(k+1), -exponent)/total, ttl)
	}
	return active, nil
}

// present returns the probability of an event within ttl.
func present(arrival float64, ttl time.Duration) float64 {
	return -math.Expm1(-arrival * ttl.Seconds())
}
