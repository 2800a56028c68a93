package core

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Action is something that the caller of [Machine.Step] must do, in the order
// given. Actions that are pointers are answered with an input that names them.
//
// Submit, Tell, Recall, Notify and Stop are carried out by the caller of Step
// as soon as the mutex is free. Replay is only started. The others are for the
// store, in two lanes, reads and writes. Each lane has one action of a kind
// under way; the next one follows the answer to it. The caller retries them
// until their result is known; there is no answer for a failure.
type Action interface{ action() }

type (
	// Submit: submit the event to the dispatcher, in the order of these
	// actions. Answered by Ended or NotSubmitted.
	Submit struct{ *Event }
	// Recall: a stream of a submitted event was closed. If its handler has not
	// been called yet, it must not be: the event ends as Recalled.
	Recall struct{ *Event }
	// Tell: report the event's Result and Err to its source, and to those of
	// its copies. The event belongs to the caller again.
	Tell struct{ *Event }
	// Notify: report an unusual occurrence.
	Notify struct{ Notice }
	// Stop: the machine has stopped, for the reason given.
	Stop struct{ Err error }
	// Replay: request missing numbers from the source, and up to so many events
	// that theirs wait for. Link counts the replays before it, each for what an
	// event waits for that the one before has brought. Answered by Replayed.
	Replay struct {
		Range
		Link, Before int
	}
)

// Actions of the store's reading lane.
type (
	// Load: acquire the streams, with all that are parked together with them.
	// Answered by Loaded.
	Load struct{ Keys []lockkeys.Key }
	// Look: numbers of these events are done; ask the store by which events.
	// Answered by Looked.
	Look struct{ Events []*Event }
)

// Actions of the store's writing lane.
type (
	// Hold: store the events, all in one transaction. One that conflicts with a
	// held event gets an error of its own in the answer, HoldDone, and the
	// others are held.
	Hold struct{ Events []*Event }
	// Park: write parkings, in order and all in one transaction, each with those
	// of its streams that have changed, one at least; those that the store has in
	// it already stay. Each takes over the streams of parkings that have become
	// part of it. Answered by ParkDone.
	Park struct {
		Parkings []ParkingChange
		Fences   map[lockkeys.Key]int64
	}
	// Unpark: delete the parkings, all in one transaction; their held events
	// stay. Answered by UnparkDone.
	Unpark struct {
		IDs    []string
		Fences map[lockkeys.Key]int64

		parkings []*parking
	}
	// ReadHeld: read held events of a stream. It is in the writing lane so that
	// it sees all events held before. Answered by HeldRead.
	ReadHeld struct {
		Key   lockkeys.Key
		From  uint64
		Limit int   // number of events
		Bytes int64 // bound of their sizes, unless it is one event

		decision *Decision // that it is for, or
		feed     *stream
	}
	// Skip: mark numbers without events as done. Answered by SkipDone.
	Skip struct {
		Key   lockkeys.Key
		Fence int64
		Known uint64 // every number up to it is done
		Parts []Span
		Why   error
		Cause error  // why the stream is parked, if it is
		By    string // an operator

		decision *Decision
	}
	// GiveUp: give up a held event: make sure that it was not done, dead-letter
	// it, and mark the numbers of Slots as done. Answered by GiveUpDone.
	GiveUp struct {
		Event *Event
		Slots []Slot // those of its slots that nothing else has
		Why   error
		Cause error  // why the stream is parked, if it is
		By    string // an operator

		decision *Decision
	}
	// Forget: delete the store's copy of an event that will not run. If Why is
	// not nil, the event can never run and must be dead-lettered first, since
	// its source was told that it is held. Answered by ForgetDone.
	Forget struct {
		Event  *Event
		Fences map[lockkeys.Key]int64
		Why    error
		By     string

		decision *Decision // that it is for, or nil
	}
	// Decided: report the end of an operator's decision; Err says why it was not
	// carried out.
	Decided struct {
		*Decision
		Err error
	}
)

func (Submit) action()    {}
func (Recall) action()    {}
func (Tell) action()      {}
func (Notify) action()    {}
func (Stop) action()      {}
func (Replay) action()    {}
func (*Load) action()     {}
func (*Look) action()     {}
func (*Hold) action()     {}
func (*Park) action()     {}
func (*Unpark) action()   {}
func (*ReadHeld) action() {}
func (*Skip) action()     {}
func (*GiveUp) action()   {}
func (*Forget) action()   {}
func (Decided) action()   {}

// ParkingChange is a parking of a [Park].
type ParkingChange struct {
	ParkingState
	All int  // how many streams it has
	Log bool // it is new, or has twice as many streams as when this was set last

	parking *parking
	ids     int // len(parking.ids) at that time
}

// Notice is an unusual occurrence on a stream.
type Notice struct {
	Kind   NoticeKind
	Time   time.Time
	Range  Range  // the missing or skipped numbers, or where the stream is closed
	Event  *Event // with EventRefused; valid until the next step
	Fault  any    // the owner of the fault that a stream is parked for, or nil
	Reason Reason // with StreamParked
	Err    error
}

// NoticeKind is the kind of a notice.
type NoticeKind uint8

// Kinds of notices.
const (
	GapOpened NoticeKind = iota + 1
	ReplayAsked
	GapClosed
	NumbersSkipped
	EventRefused
	StreamParked
	StreamResumed
	EpochBegan // with the numbers before it that were skipped
)
