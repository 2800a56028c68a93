package ordering

import "fmt"

// Outcome is the outcome of an event that was offered.
type Outcome struct {
	Result Result
	// Err is the reason for DeadLettered, Refused, Failed and Unfinished; for
	// Duplicate it is nil, or a [*GivenUpError] if the event was given up.
	Err error
	// Status is, for Duplicate, the status of the first copy, if it is known.
	Status Status
	// Reply is the handler's reply, for Applied and Duplicate; see [Job.Reply].
	Reply []byte
}

// Ack reports whether the source should acknowledge the event: whether it is
// durable, as an effect or in the store. A refused event should be put aside
// for operators, in a dead-letter queue for example; an unfinished one should
// be redelivered.
func (o Outcome) Ack() bool { return o.Result <= DeadLettered && o.Result != 0 }

// Result is the kind of an outcome.
type Result uint8

// Results.
const (
	// Applied: the handler succeeded and the event's numbers are done.
	Applied Result = iota + 1
	// Duplicate: the event was done already, or by a copy that was still in
	// flight. If the store has pruned its job state, this is known by the
	// numbers alone; see [Config.Retention].
	Duplicate
	// Held: the event cannot run now because a stream of it is parked, and the
	// store keeps it.
	Held
	// DeadLettered: the handler failed for good under the policy DeadLetter,
	// which was recorded, and the event's numbers are done without its effect.
	// Err is the failure.
	DeadLettered
	// Refused: the event can never run, and was not applied. Err wraps
	// [ErrContradiction], as a [*ConflictError] or a [*ContradictionError], or
	// [ErrEnded].
	Refused
	// Failed: a command failed for good under the policy Park: nothing of it is
	// kept, and a repeat runs again. Err is the failure.
	Failed
	// Unfinished: the sequencer ended first. Nothing was recorded, as far as it knows:
	// a commit that was under way then may be durable, which a redelivery finds out.
	Unfinished
)

// String returns "applied", "duplicate", "held", "dead-lettered",
// "refused", "failed" or "unfinished".
func (r Result) String() string {
	names := [...]string{"", "applied", "duplicate", "held", "dead-lettered", "refused", "failed", "unfinished"}
	if int(r) < len(names) && r != 0 {
		return names[r]
	}
	return fmt.Sprintf("Result(%d)", uint8(r))
}

// Done is called once with the outcome of an event that was offered. It may be
// called before the offer returns, from any goroutine; for events of one stream
// that ran one after the other, in that order. It should be quick, since the
// lock keys are held during the call. It must not offer events or wait for
// others. e is the event that was offered, which stays in memory until then,
// also as a copy of another. A panic is logged.
type Done func(e *Event, o Outcome)
