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
	// ErrNegative: a time is negative, or an exponent is or is not a number.
	ErrNegative = errors.New("negative or not a number")
	// ErrUnstable: more comes than can be done, so that in the long run the
	// answer grows beyond every bound.
	ErrUnstable = errors.New("unstable, the answer is infinite: lower what comes or raise what is done")
	// ErrTooLong: the answer does not fit a time.Duration, 292 years.
	ErrTooLong = errors.New("the answer is longer than 292 years")
)

// InputError says which input a function could not use.
type InputError struct {
	Name   string  // of the input
	Value  float64 // of the input; durations in seconds
	Reason error   // one of the errors above
}

// Error names the input and what is wrong with it.
func (e *InputError) Error() string {
	return fmt.Sprintf("model: %s is %g: %v", e.Name, e.Value, e.Reason)
}

// Unwrap gives the reason to errors.Is.
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

// duration returns the time of an answer in seconds, which is not negative.
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
