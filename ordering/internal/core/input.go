package core

import (
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Input is something that has happened, for [Machine.Step]. Whatever its
// pointers refer to belongs to the machine from then on.
type Input interface{ input() }

type (
	// Began is the first input: the state that the store has from before.
	Began struct {
		Loaded
		Came []string // IDs of parkings whose missing numbers have come since
	}

	// Arrived: a source has delivered an event. The caller has the turn.
	Arrived struct{ *Event }

	// Loaded: the streams of a [Load], with all that are parked together with
	// them. The caller has the turn.
	Loaded struct {
		Streams  []StreamState
		Parkings []ParkingState
	}

	// NotSubmitted: the dispatcher did not accept these events, which are all
	// those with a [Submit] under way, in that order. If Cause is not nil, the
	// first one can never be accepted; else the dispatcher has ended. The
	// caller has the turn.
	NotSubmitted struct {
		Events []*Event
		Cause  error
	}

	// Ended: a submitted event has ended, and has its Outcome. Its lock keys are
	// still held. If the result is Unfinished because a stream has another
	// holder, Err says so.
	Ended struct{ *Event }

	// Looked: the store has answered a [Look].
	Looked struct {
		Events   []*Event
		Verdicts []Verdict
	}

	// HoldDone: the store has the events of a [Hold], except those with an
	// error of their own, which conflict with held events.
	HoldDone struct {
		Events []*Event
		Errs   []error // nil, or one for each event, which may be nil
	}

	// ParkDone: the store has the parking of a [Park].
	ParkDone struct{ *Park }

	// UnparkDone: the store has deleted the parkings of an [Unpark]. The caller
	// has the turn.
	UnparkDone struct{ *Unpark }

	// HeldRead: the held events of a [ReadHeld]. The caller has the turn.
	HeldRead struct {
		*ReadHeld
		Events []*Event // in order of their numbers on the stream; Held is set
	}

	// SkipDone: the numbers of a [Skip] are done. The caller has the turn.
	SkipDone struct{ *Skip }

	// GiveUpDone: the outcome of a [GiveUp]. The caller has the turn.
	GiveUpDone struct {
		*GiveUp
		Result Result // Applied: it was done before; GivenUp; Refused: its numbers belong to another event
		Err    error  // why it was refused
	}

	// ForgetDone: the store has deleted the event of a [Forget].
	ForgetDone struct{ *Forget }

	// Replayed: a [Replay] has ended. Its events have arrived before, though they may
	// not have been processed.
	Replayed struct {
		Range
		NoSuch []Range // numbers that never existed, according to the source
		Err    error   // why the others did not come
	}

	// Ticked: time has passed; see [Machine.Next].
	Ticked struct{}

	// Fenced: a stream, or all of them, has another holder. The machine stops.
	Fenced struct{ Err error }

	// Stopped: a failure or a shutdown stops the machine: no event is accepted
	// or submitted any more, and those that run come to their ends.
	Stopped struct{ Err error }

	// Abandoned: nothing runs any more, and from now on only Tell actions are
	// executed. All accepted events are given back.
	Abandoned struct{ Err error }

	// Decide: an operator's decision about a parked stream.
	Decide struct{ *Decision }
)

func (Began) input()        {}
func (Arrived) input()      {}
func (Loaded) input()       {}
func (NotSubmitted) input() {}
func (Ended) input()        {}
func (Looked) input()       {}
func (HoldDone) input()     {}
func (ParkDone) input()     {}
func (UnparkDone) input()   {}
func (HeldRead) input()     {}
func (SkipDone) input()     {}
func (GiveUpDone) input()   {}
func (ForgetDone) input()   {}
func (Replayed) input()     {}
func (Ticked) input()       {}
func (Fenced) input()       {}
func (Stopped) input()      {}
func (Abandoned) input()    {}
func (Decide) input()       {}

// StreamState is the state of a stream in the store.
type StreamState struct {
	Key    lockkeys.Key
	Last   uint64 // every number up to it is done
	Done   Spans  // done numbers above Last+1
	Fence  int64
	Ended  uint64 // the stream's last number; 0 if it is not known
	HeldAt uint64 // events from this number on are held; 0 for none
	Parked string // the ID of the parking that closes it, or ""
}

// ParkingState is a parking in the store.
type ParkingState struct {
	ID      string
	Reason  Reason
	Streams []Closed // in any order
	Faults  []Fault
	Gap     Range
	Cause   error
	Since   time.Time
}

// Closed is a stream of a parking.
type Closed struct {
	Key    lockkeys.Key
	Number uint64 // the first that does not run
	By     string // the name of the event that is held there; "" if the number is missing or that of a failed event
}

// Fault is an event whose failure has caused a parking.
type Fault struct {
	Owner any // for the caller
	Slots []Slot
	Size  int64 // in bytes; 0 if it was read from the store, which holds the event
}

// Range is a range of numbers on a stream, both ends included.
type Range struct {
	Key      lockkeys.Key
	From, To uint64
}

// Reason is why streams are parked.
type Reason uint8

// Reasons.
const (
	Failure       Reason = iota + 1 // an event failed for good
	Gap                             // numbers are missing, and no replay has brought them
	Waiting                         // numbers are missing, and too many events wait for them
	Contradiction                   // events that can never run
)

// Verdict is the store's answer about an event.
type Verdict struct {
	Kind VerdictKind
	Err  error // why it can never run, with Never
}

// VerdictKind is the kind of a verdict.
type VerdictKind uint8

// Kinds of verdicts.
const (
	Open  VerdictKind = iota // none of its numbers is done
	Done                     // its numbers are done, by itself as far as can be told
	Never                    // some of its numbers are done, and not by itself
)
