package dispatcher

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Backoff configures the wait before each further attempt: Initial at first,
// then Multiplier times as long each time, up to Max, with random Jitter to
// either side. All packages of Interlock use it. The zero value of a field
// means its default.
type Backoff struct {
	// Initial is the wait after the first failed attempt. Default: see the
	// field that has the Backoff.
	Initial time.Duration
	// Max is the longest wait, before Jitter. Default: see the field that has
	// the Backoff, or Initial if that is more.
	Max time.Duration
	// Multiplier is at least 1. Default: 2.
	Multiplier float64
	// Jitter is the fraction of the wait by which it may vary, from 0 to 1;
	// negative for none. Default: 0.5.
	Jitter float64
}

// WithDefaults returns b with defaults in place of zero fields; initial and
// most are those of Initial and Max.
func (b Backoff) WithDefaults(initial, most time.Duration) Backoff {
	if b.Initial == 0 {
		b.Initial = initial
	}
	if b.Max == 0 {
		b.Max = max(most, b.Initial)
	}
	if b.Multiplier == 0 {
		b.Multiplier = 2
	}
	if b.Jitter == 0 {
		b.Jitter = 0.5
	}
	b.Jitter = max(b.Jitter, 0)
	return b
}

// Validate returns an error that names every problem of b, which must have its
// defaults. It refers to b as a field named Backoff.
func (b Backoff) Validate() error {
	var errs []error
	if b.Initial < 0 {
		errs = append(errs, fmt.Errorf("Backoff.Initial is %v: it must not be negative", b.Initial))
	}
	if b.Max < b.Initial {
		errs = append(errs, fmt.Errorf("Backoff.Max is %v: it must not be less than Initial, %v", b.Max, b.Initial))
	}
	if !(b.Multiplier >= 1) {
		errs = append(errs, fmt.Errorf("Backoff.Multiplier is %v: it must be at least 1", b.Multiplier))
	}
	if !(b.Jitter <= 1) {
		errs = append(errs, fmt.Errorf("Backoff.Jitter is %v: it must be at most 1", b.Jitter))
	}
	return errors.Join(errs...)
}

// Wait returns how long to wait after failed consecutive failures, at least 1.
// b must be valid and have its defaults.
func (b Backoff) Wait(failed int) time.Duration {
	wait := min(float64(b.Max), float64(b.Initial)*math.Pow(b.Multiplier, float64(failed-1)))
	wait *= 1 + b.Jitter*(2*rand.Float64()-1)
	if wait >= math.MaxInt64 { // as a float64 it is more than a duration can be
		return math.MaxInt64
	}
	return time.Duration(wait)
}
