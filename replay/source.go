package replay

import (
	"context"

	"github.com/interlock-go/interlock/ordering"
)

// Source has events that were sent before. Its methods must be safe for
// concurrent use.
type Source interface {
	// Fetch answers for the numbers of a range, 1 <= From <= To, which is of one
	// epoch of a stream. A producer's mistake can make the range very wide: look
	// up the existing events, do not iterate over the numbers. Answer for as many
	// numbers as fit into an answer of moderate size, the lowest first being
	// the most useful; Fetch is called for the rest then. Answers larger than
	// [Config.MaxEvents] or [Config.MaxBytes] are refused.
	//
	// If asked.Before is not 0, the answer may have up to so many events besides:
	// see [Answer].Before. A source need not care.
	//
	// If it can answer for none it says why: with an error that wraps
	// [ErrNotRetained] or [ErrNotAssigned], or with an empty answer if it
	// does not know. Any other error means that the source failed. One that
	// is marked by [dispatcher.Permanent] says that asking again will not mend
	// it, as a request that is refused: the source is not asked for the range
	// again in the same replay, and its breaker does not count the error. One
	// marked by [RetryAfter] says when to ask again.
	//
	// A panic or runtime.Goexit is a failure of the source.
	//
	// It must return soon after the context has ended. The events are the
	// caller's once returned.
	Fetch(ctx context.Context, asked ordering.Range) (Answer, error)
}

// Answer is what a source answers. What is in neither of its fields is not
// answered for.
type Answer struct {
	// Events are events of the range, in any order, each with a number that
	// was asked for; an answer with others is refused.
	Events []*ordering.Event
	// Before are events that those wait for on streams other than the one asked
	// for, directly or not, as far as there is room: no more than Before of the
	// request. Each comes before one that waits for it, which has a higher number
	// on one of its streams: in the order in which they could run, for example. An
	// answer where that is not so is refused. They are not the answer for
	// any number, so nothing is missed if there are none.
	Before []*ordering.Event
	// NoSuch are ranges of the stream's numbers that never existed and never
	// will: a transaction was rolled back, a counter was lost. They may reach
	// beyond what was asked for. Numbers that existed once and numbers that
	// may yet be given to events are not among them.
	NoSuch []ordering.Range
}

// SourceFunc is a function that is a [Source].
type SourceFunc func(ctx context.Context, asked ordering.Range) (Answer, error)

// Fetch implements [Source].
func (f SourceFunc) Fetch(ctx context.Context, asked ordering.Range) (Answer, error) {
	return f(ctx, asked)
}
