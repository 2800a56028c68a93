package replay

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// What a [Source] says by an error. Neither is a failure of the source, so
// they do not open its breaker.
var (
	// ErrNotRetained: the events existed, but the source does not keep them
	// any more. It is not asked for them again in the same replay.
	ErrNotRetained = errors.New("replay: events are not retained any more")
	// ErrNotAssigned: the producer has not given these numbers to events, but
	// may do so. Where a later event was seen, the source lags behind or has
	// lost its counter.
	ErrNotAssigned = errors.New("replay: numbers are not assigned yet")
)

// Errors of a [Replayer].
var (
	// ErrConfig is wrapped by the error of [New] for an invalid configuration;
	// the text names every problem.
	ErrConfig = errors.New("replay: bad configuration")
	// ErrRange is wrapped by the error of Replay for an invalid range.
	ErrRange = errors.New("replay: bad range")
)

// Reasons why a source did not answer, wrapped by a [*SourceError].
var (
	// ErrNoAnswer: the source answered for nothing, or for later numbers only.
	ErrNoAnswer = errors.New("no answer for the first of the numbers")
	// ErrCopy: a source marked as Copy says that the numbers never existed,
	// which it cannot know.
	ErrCopy = errors.New("a copy cannot know that numbers never existed")
	// ErrAnswer: the answer cannot be used; the text says what is wrong.
	ErrAnswer = errors.New("bad answer")
	// ErrResting: the source was not asked, since its breaker is open or it
	// wanted to be asked later.
	ErrResting = errors.New("not asked: the source is given a rest after failures")
)

// SourceError is the error of a source that did not answer for a range.
type SourceError struct {
	Source string         // its name
	Range  ordering.Range // what it was asked for
	Err    error
}

// Error names the source and the range.
func (e *SourceError) Error() string {
	return fmt.Sprintf("replay: %s: %v: %v", e.Source, e.Range, e.Err)
}

// Unwrap returns the cause.
func (e *SourceError) Unwrap() error { return e.Err }

// UnansweredError is the error of Replay for numbers that no source has
// answered for.
type UnansweredError struct {
	// Missing are the numbers that no source answered for.
	Missing []ordering.Range
	// Attempts is the number of requests made.
	Attempts int
	// Errs has the last error of each source that gave one, in the order of
	// the sources.
	Errs []error
}

// Error names the first few ranges and what each source said last.
func (e *UnansweredError) Error() string {
	const few = 4
	var b strings.Builder
	fmt.Fprintf(&b, "replay: no answer after %d requests for", e.Attempts)
	for i, r := range e.Missing {
		if i == few {
			fmt.Fprintf(&b, " and %d more ranges", len(e.Missing)-few)
			break
		}
		fmt.Fprintf(&b, " (%v)", r)
	}
	for _, err := range e.Errs {
		fmt.Fprintf(&b, "; %v", err)
	}
	return b.String()
}

// Unwrap returns the errors of the sources.
func (e *UnansweredError) Unwrap() []error { return e.Errs }

type retryAfterError struct {
	error
	after time.Duration
}

func (e retryAfterError) Unwrap() error { return e.error }

// RetryAfter marks an error of a source that must not be asked for some time.
// Until then no replay asks it; see also [Config.MaxWait]. RetryAfter(nil, …)
// is nil.
func RetryAfter(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return retryAfterError{err, after}
}

// RetryAfterOf returns the time that [RetryAfter] gave to err, 0 if none.
func RetryAfterOf(err error) time.Duration {
	var r retryAfterError
	if errors.As(err, &r) {
		return r.after
	}
	return 0
}
