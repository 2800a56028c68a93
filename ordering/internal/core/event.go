package core

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Event is an event in flight in a [Machine], which knows its positions on its
// streams and nothing of its contents. The caller fills in the first group of
// fields and passes it to the machine as [Arrived]; from then on it belongs to
// the machine, until a [Tell] returns it.
type Event struct {
	Owner any    // for the caller
	ID    string // of a command, which has no slots; else unused
	Slots []Slot // its positions: one for each of its streams
	Size  int64  // in bytes, while it waits for the store
	Cost  int64  // in bytes, while it waits in memory for earlier events
	Held  bool   // the store has a copy: it came from a [HeldRead]
	Link  int    // of a [Replay] that has brought it, and one more; else 0

	// Outcome and Cause are what came of its run. They are the caller's, who sets them
	// before [Ended] on whatever goroutine the run is on: the machine reads them in that
	// step alone.
	Outcome Result
	Cause   error
	// Result and Err are the machine's: what it has decided about the event, before a
	// Tell, or that it is the one that ends in this step.
	Result Result
	Err    error
	At     time.Time // about when it ended, if the caller knows
	// Copies arrived while it was in flight, and share its outcome.
	Copies []*Event

	state   EventState
	arrived time.Time
	fedBy   []*stream // streams whose feeding waits until it is over
	fills   *parking  // to resume once this is held: this is the missing event, or nothing is missing before it
	fewSlot [2]Slot   // room for the slots of most events
	rivals  []*Event  // commands with its ID that say something else, as they came
}

// Slot is an event's position on a stream.
type Slot struct {
	Key    lockkeys.Key
	Number uint64
	End    bool   // it is the stream's last one
	Fence  int64  // the stream's fencing token, once it is in memory
	Known  uint64 // every number up to it was known to be done when the event was submitted

	stream *stream
}

// Add gives the event a position on a stream.
func (e *Event) Add(key lockkeys.Key, number uint64, end bool) {
	if e.Slots == nil {
		e.Slots = e.fewSlot[:0]
	}
	e.Slots = append(e.Slots, Slot{Key: key, Number: number, End: end})
}

// State returns the state of the event.
func (e *Event) State() EventState { return e.state }

// EventState is the state of an event.
//
//	from       to         when
//	arriving   checking   a number of it is done: the store is asked by which event
//	arriving   early      an earlier event has not come, or a held one is fed before its turn
//	arriving   submitted  it is the next one on all its streams, or a command
//	arriving   holding    a stream of it is closed
//	arriving   over       it is a copy, or can never run
//	arriving   contending a command with its ID is in flight that says something else
//	contending arriving   nothing of that is kept, or it was refused itself
//	contending over       that has the ID
//	checking   over       the store has answered
//	early      submitted  it is its turn
//	early      holding    a stream of it was closed, or too many wait
//	early      over       it can never run
//	submitted  early      the dispatcher did not take it
//	submitted  holding    it failed and is parked, or was recalled before it ran
//	submitted  over       it has ended
//	holding    over       the store has it
//
// From every state it goes to over when the machine is abandoned.
type EventState uint8

// States of an event.
const (
	// Arriving: its streams are being loaded, or a skip of one of its numbers
	// is being written. Invariant: it is in the machine's arrivals.
	Arriving EventState = iota
	// Checking: the store is being asked about it.
	Checking
	// Early: it waits in memory. Invariant: it is in the early events of each
	// of its streams, under its number there.
	Early
	// Submitted: the dispatcher has it. Invariant: it is in the window of each
	// of its streams, and its numbers there are below next.
	Submitted
	// Holding: it is being written to the store. Invariant: each of its streams
	// is closed at its number or before, and counts it as holding.
	Holding
	// Contending: another command with its ID is in flight. Invariant: it is in the
	// rivals of that.
	Contending
	// Over: its outcome was reported by a Tell.
	Over
)

var eventMoves = moves{
	of:    "an event",
	names: []string{"arriving", "checking", "early", "submitted", "holding", "contending", "over"},
	next: []uint16{
		Arriving:   1<<Checking | 1<<Early | 1<<Submitted | 1<<Holding | 1<<Contending | 1<<Over,
		Checking:   1 << Over,
		Early:      1<<Submitted | 1<<Holding | 1<<Over,
		Submitted:  1<<Early | 1<<Holding | 1<<Over,
		Holding:    1 << Over,
		Contending: 1<<Arriving | 1<<Over,
		Over:       0,
	},
}

// String returns the name of the state, as in the table.
func (s EventState) String() string { return eventMoves.names[s] }

func (e *Event) to(next EventState) { move(&eventMoves, &e.state, next) }

// Result is the outcome of an event.
type Result uint8

// Results. With the first three, the event's numbers are done.
const (
	Applied       Result = iota + 1 // its effect is durable
	Duplicate                       // it was done before
	GivenUp                         // it failed for good, which is recorded
	Held                            // the store keeps it
	Refused                         // it can never run
	Failed                          // it failed for good: the machine parks it; a command ends
	Recalled                        // it was not run because a stream of it was closed: the machine holds it
	Unfinished                      // the machine ended first
	LastOfResults = Unfinished
)

// isDone reports whether the numbers of an event that was submitted are done.
func (r Result) isDone() bool { return r == Applied || r == Duplicate || r == GivenUp }

// isNext reports whether the event is the next one on all its streams, and none
// of them is closed at it.
func (e *Event) isNext() bool {
	for i := range e.Slots {
		s := &e.Slots[i]
		if s.Number != s.stream.next || s.stream.isHeld(s.Number) {
			return false
		}
	}
	return true
}

// isFirst reports whether all numbers before the event on its streams are done
// or submitted.
func (e *Event) isFirst() bool {
	for i := range e.Slots {
		if e.Slots[i].Number != e.Slots[i].stream.next {
			return false
		}
	}
	return true
}

// cost returns the bytes that the event and its copies count for while they
// wait in memory.
func (e *Event) cost() int64 {
	cost := e.Cost
	for _, c := range e.Copies {
		cost += c.Size
	}
	return cost
}
