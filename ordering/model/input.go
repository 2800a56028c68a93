package model

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Reasons of an [*InputError].
var (
	// ErrRate: a rate is not a positive number.
	ErrRate = errors.New("not a positive number of events per second")
	// ErrProbability: a probability is not a number from 0 to 1.
	ErrProbability = errors.New("not a probability from 0 to 1")
	// ErrCount: a count is too small or too large.
	ErrCount = errors.New("count out of range")
	// ErrNegative: a time is negative, or an exponent is negative, infinite or not
	// a number.
	ErrNegative = errors.New("negative or not a number")
	// ErrUnstable: the load exceeds the capacity, so that the answer is infinite.
	ErrUnstable = errors.New("unstable, the answer is infinite: lower the load or raise the capacity")
	// ErrTooLong: the answer does not fit in a time.Duration, 292 years.
	ErrTooLong = errors.New("the answer is longer than 292 years")
)

// InputError names an invalid input of a function.
type InputError struct {
	Name   string  // of the input
	Value  float64 // of the input; durations in seconds
	Reason error   // one of the errors above
}

// Error names the input and what is wrong with it.
func (e *InputError) Error() string {
	return fmt.Sprintf("model: %s is %g: %v", e.Name, e.Value, e.Reason)
}

// Unwrap returns the reason.
func (e *InputError) Unwrap() error { return e.Reason }

// rate checks a rate of events.
func rate(name string, v float64) error {
	if !(v > 0) || math.IsInf(v, 1) {
		return &InputError{name, v, ErrRate}
	}
	return nil
}

func probability(name string, p float64) error {
	if !(p >= 0 && p <= 1) {
		return &InputError{name, p, ErrProbability}
	}
	return nil
}

func count(name string, n, least, most int) error {
	if n < least || n > most {
		return &InputError{name, float64(n), fmt.Errorf("%w: give %d to %d", ErrCount, least, most)}
	}
	return nil
}

func notNegative(name string, d time.Duration) error {
	if d < 0 {
		return &InputError{name, d.Seconds(), ErrNegative}
	}
	return nil
}

// duration converts an answer in seconds, which is not negative.
func duration(name string, seconds float64) (time.Duration, error) {
	if !(seconds*1e9 < math.MaxInt64) {
		return 0, &InputError{name, seconds, ErrTooLong}
	}
	return time.Duration(math.Round(seconds * 1e9)), nil
}

// first returns the first error of several checks.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
