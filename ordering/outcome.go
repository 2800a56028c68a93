package ordering

import "fmt"

// Outcome is what became of an event that was offered.
type Outcome struct {
	Result Result
	// Err says why, for DeadLettered, Refused and Unfinished.
	Err error
}

// Ack tells whether the source should acknowledge the event: whether the
// store, or the effect, has it for good. What was refused should be put aside
// where people look, a dead-letter queue for example; what is unfinished should
// be delivered again.
func (o Outcome) Ack() bool { return o.Result <= DeadLettered && o.Result != 0 }

// Result is the kind of an outcome.
type Result uint8

// Results.
const (
	// Applied: the handler succeeded and the event's numbers are done.
	Applied Result = iota + 1
	// Duplicate: the event was done already, or was made so by a copy of it that
	// was still on its way. With a store that has pruned what became of it, its
	// numbers are all there is to go by; see [Config.Retention].
	Duplicate
	// Held: the event cannot run now, since a stream of it is parked, and the
	// store keeps it.
	Held
	// DeadLettered: the handler failed for good under the policy Skip, which
	// was recorded, and the event's numbers are done without its effect. Err
	// is the failure.
	DeadLettered
	// Refused: the event can never run, and was not done. Err wraps
	// [ErrContradiction], by a [*ConflictError] or a [*ContradictionError], or
	// [ErrEnded].
	Refused
	// Unfinished: the sequencer ended first, or lost a stream to another
	// holder. Nothing was recorded.
	Unfinished
)

// String returns "applied", "duplicate", "held", "dead-lettered",
// "refused" or "unfinished".
func (r Result) String() string {
	switch r {
	case Applied:
		return "applied"
	case Duplicate:
		return "duplicate"
	case Held:
		return "held"
	case DeadLettered:
		return "dead-lettered"
	case Refused:
		return "refused"
	case Unfinished:
		return "unfinished"
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Done is told, once, what became of an event that was offered. It may be
// called before the offer returns, from any goroutine, and those of one stream
// that ran one after the other in that order. It should be quick: the lock
// keys are held meanwhile. It must not offer events or wait for others. The
// event is the one that was offered, which stays in memory until then, also as
// the copy of another. A panic is logged.
type Done func(e *Event, o Outcome)
