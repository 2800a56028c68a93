package ordering

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Notice is something out of the ordinary that happened to a stream.
type Notice struct {
	Kind   NoticeKind
	Time   time.Time
	Stream lockkeys.Key
	Range  Range  // with GapOpened, ReplayAsked, GapClosed, NumbersSkipped
	Event  *Event // with EventSkipped, EventRefused, SameID, StreamParked for a failure
	Reason Reason // with StreamParked
	Err    error  // with all but GapOpened, ReplayAsked, GapClosed and StreamResumed
}

// NoticeKind tells what a notice is about.
type NoticeKind uint8

// Kinds of notices.
const (
	// GapOpened: an event came before one with a smaller number.
	GapOpened NoticeKind = iota + 1
	// ReplayAsked: the replayer was asked for a range.
	ReplayAsked
	// GapClosed: what was missing has come, or was skipped.
	GapClosed
	// NumbersSkipped: numbers are done for which no event came.
	NumbersSkipped
	// EventSkipped: an event failed for good and was skipped.
	EventSkipped
	// EventRefused: an event can never run.
	EventRefused
	// StreamParked: a stream is closed, see [Parking].
	StreamParked
	// StreamResumed: a stream that was parked goes on.
	StreamResumed
	// SameID: an event that is to run has the ID of another one, with other
	// numbers, that came shortly before. It is told once for each ID, and counted
	// in [Stats].
	SameID
)

// String returns the kind in words, "gap opened" for example.
func (k NoticeKind) String() string {
	names := [...]string{"", "gap opened", "replay asked", "gap closed", "numbers skipped",
		"event skipped", "event refused", "stream parked", "stream resumed", "same ID"}
	if int(k) < len(names) && k != 0 {
		return names[k]
	}
	return "unknown"
}
