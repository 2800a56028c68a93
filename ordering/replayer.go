package ordering

import (
	"context"
)

// Replayer fetches missing events. Package replay has one for unreliable
// sources.
type Replayer interface {
	// Replay requests the events of a range, which is of one epoch, and once a
	// later one has begun never of one before. It passes them to deliver: in any
	// order, in several calls, possibly with other events. It makes its
	// attempts and returns when the whole range is answered, or with an error
	// if it cannot be. Delivered events belong to the sequencer. An error of
	// deliver ends the replay and is returned.
	//
	// With missing.Before, events that those of the range wait for on other streams
	// are welcome, and best delivered before them: each one that is not there is a
	// gap, which is asked for at once.
	//
	// The answer lists the numbers that never existed. A number of the range
	// that is neither delivered nor in the answer counts as unanswered,
	// whatever the error.
	Replay(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error)
}

// Answer is the result of a replay besides the events.
type Answer struct {
	// NoSuch are the ranges of numbers that never existed, according to the
	// source: the producer rolled back, or lost its counter.
	NoSuch []Range
	// Attempts is the number of requests made.
	Attempts int
}

// ReplayerFunc is a function that is a [Replayer].
type ReplayerFunc func(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error)

// Replay implements [Replayer].
func (f ReplayerFunc) Replay(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error) {
	return f(ctx, missing, deliver)
}
