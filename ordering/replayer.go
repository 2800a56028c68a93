package ordering

import (
	"context"

	"github.com/interlock-go/interlock/lockkeys"
)

// Replayer gets events again that did not come. Package replay has one for
// sources that may fail.
type Replayer interface {
	// Replay asks for the events of a range and gives to deliver whatever
	// comes: in any order, in several calls, also events that were not asked
	// for. It makes its attempts and returns when the range was answered for,
	// or cannot be: then with an error. Events are the sequencer's once
	// delivered. An error of deliver ends the replay and is returned.
	//
	// The answer tells which of the numbers never existed. A number of the
	// range that is neither delivered nor in the answer counts as not
	// answered for, whatever the error.
	Replay(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error)
}

// Answer is what a replay tells besides the events.
type Answer struct {
	// NoSuch are the ranges of numbers that never existed, on the authority
	// of the source: the producer rolled back, or lost its counter.
	NoSuch []Range
	// Attempts is how many requests were made.
	Attempts int
}

// ReplayerFunc is a function that is a [Replayer].
type ReplayerFunc func(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error)

// Replay implements [Replayer].
func (f ReplayerFunc) Replay(ctx context.Context, missing Range, deliver func(ctx context.Context, events []*Event) error) (Answer, error) {
	return f(ctx, missing, deliver)
}

// String returns the range as "client/42: 5 to 7".
func (r Range) String() string { return rangeText(r.Stream, r.From, r.To) }

func rangeText(stream lockkeys.Key, from, to uint64) string {
	if from == to {
		return stream.String() + ": " + utoa(from)
	}
	return stream.String() + ": " + utoa(from) + " to " + utoa(to)
}
