package ordering

import (
	"context"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Store keeps what must outlive the process: how far each stream has come,
// what became of each event, and the events that are held. Its methods may be
// called from any number of goroutines at once. [NewMemory] makes one that
// ends with the process; package sqlstore has those on SQLite and PostgreSQL.
//
// A method that returns an error has changed nothing, unless the connection to
// a database was lost just then. One that is called with a context that has
// ended returns the context's error, and after Close [ErrStoreClosed]. Times
// are kept to the microsecond. The texts of errors are any bytes; what a
// database cannot keep of them is replaced.
//
// # Low mark and done-set
//
// Of a stream the store knows its last number, up to which every number is
// done, and the numbers above it that are done, which are few: events of one
// stream may end out of order if their lock keys let them run side by side. A
// number is done once and for all, whether its event was processed, was given
// up, or never came. Both are kept for ever, even when the stream has ended,
// so a twin that comes after a year is known.
//
// # Identity
//
// An event is known by its numbers. Its ID and its [Hash] only confirm that two
// events with the same numbers are one, so any number of events may have one ID.
// Job states are kept by the numbers that an event made done, held events by all
// of theirs.
//
// # Fencing
//
// Acquire makes the caller the holder of a stream and gives it a fencing token
// that is larger than any before. Whoever held the stream until then has lost
// it: what he writes with an older token is refused, with an error that wraps
// [ErrFenced].
type Store interface {
	// Acquire takes streams over and returns their states, in the order of
	// the streams, none of which is named twice. A stream that the store has
	// not heard of starts at 0.
	Acquire(ctx context.Context, streams []lockkeys.Key) ([]StreamState, error)

	// Look tells what is known of numbers, for each of the positions, all of
	// one moment. It waits for writes of their streams that are under way, also
	// those of a caller who has lost the connection just then, so what it says is
	// not done will not be made so by a commit that has begun.
	Look(ctx context.Context, positions []Position) ([]NumberState, error)

	// Commit makes all numbers of the record's event done, keeps its job
	// state and forgets its held copy, all or none. When it returns nil that
	// is durable. Calls that come at the same time may share a transaction.
	//
	// The error wraps [ErrDuplicate] if any of the numbers is done already,
	// and [ErrFenced] if a stream has another holder; if both are so, either
	// one. Look tells then what has made it done. A record without an event, or
	// a token for each position, or with no position, is refused.
	Commit(ctx context.Context, r Record) error

	// Skip makes numbers of a stream done for which there is no event, and
	// keeps a record of those that it makes so, which Look gives as job states.
	// Numbers that are done already stay so. A range that has no numbers, or one
	// that is not from 1 to MaxNumber, is refused. The error may wrap [ErrFenced].
	Skip(ctx context.Context, s Skipped) error

	// Hold keeps events that cannot run now, so that the source need not. An
	// event that is held already stays as it is. If one with the same numbers
	// is held that it is not a copy of, see [Event.IsCopy], the error wraps a
	// [*ConflictError]; it wraps [ErrFenced] if the caller has not the token of
	// each of their streams.
	Hold(ctx context.Context, events []*Event, fences Fences) error

	// Held returns held events of a stream, from a number on, in order of
	// their numbers on it, those with the same number as they came: limit of
	// them at most, and no more than have size bytes together, as the store
	// keeps them, but the first in any case.
	Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error)

	// Forget forgets the held copy of an event, if there is one, without making
	// any number done. The error wraps [ErrFenced] if the caller has not the
	// token of each of its streams.
	Forget(ctx context.Context, e *Event, fences Fences) error

	// Park closes the parking's streams at the numbers given, and holds its
	// events, with their attempts. What is held already keeps its contents, and
	// an outline is not held anew. If the parking has an error, each of the
	// events gets a failed job state with it that ended at Since, unless its
	// numbers are done. A parking with the same ID is replaced: streams that it
	// no longer has are open.
	//
	// A stream belongs to one parking at most. One that another parking had
	// is taken from it, and a parking that is left without streams is
	// forgotten. One that has none to begin with is refused.
	//
	// The error wraps [ErrFenced] if the caller has not the token of each of
	// its streams.
	Park(ctx context.Context, p Parking, fences Fences) error

	// Unpark opens the streams of a parking and forgets it. Events that are
	// held stay so. An ID that there is no parking for is no error. The error
	// wraps [ErrFenced] if the caller has not the token of each of its streams,
	// or any other token is not good: with the ID of a parking that is over,
	// that tells whether the streams are the caller's still.
	Unpark(ctx context.Context, id string, fences Fences) error

	// Parked lists what is parked, longest first, with streams in order of
	// their keys; of the IDs given only, if there are any. Events are outlines.
	Parked(ctx context.Context, ids ...string) ([]Parking, error)

	// Backlog lists the streams with held events that are not parked, in any
	// order: what a resumption had not come through when the process ended.
	Backlog(ctx context.Context) ([]lockkeys.Key, error)

	// Prune forgets the job states of what ended before a time, and the
	// records of what was skipped, and returns how many. Those of failed events of a parking stay while it is there.
	// Streams keep their last numbers.
	Prune(ctx context.Context, before time.Time) (int64, error)

	// Close ends the use of the store. Commits that have begun are ended
	// first. To close it again is no error.
	Close() error
}

// Fences are fencing tokens, by their streams.
type Fences map[lockkeys.Key]int64

// StreamState is what a store knows of a stream.
type StreamState struct {
	Last   uint64 // every number up to it is done
	Done   Spans  // what is done above Last+1
	Fence  int64  // the caller's fencing token
	Ended  uint64 // the stream's last number, once the event with End is done; else 0
	HeldAt uint64 // events with this number or a larger one are to be held; 0 for none
	Parked string // the ID of the parking that closes the stream; "" if none does

	// HeldAt is the number at which the parking closes the stream or that of
	// the first event held of it, whichever is smaller: what was held before
	// a parking began is not overtaken after a restart.
}

// NumberState is what a store knows of a number.
type NumberState struct {
	Done  bool
	Fence int64 // the token of the stream's holder, or a number that is none if there was no holder yet
	// Job is the job state that is kept under the number: that of an event under
	// the first of the numbers that it made done, in the order of the text of
	// their streams, or of all its numbers if it has failed; that of a range that
	// was skipped under each number of it. If the number is done, it is not that
	// of an event that has failed.
	Job *JobState
	// Pruned says that Job may be nil since it was pruned: the job state of an
	// event was that has this number or a larger one on the stream. If a number
	// is done without being so, and has no job state, an event has made it done
	// whose job state is kept under another number.
	Pruned bool
}

// Record is the outcome of an event that has run or was given up.
type Record struct {
	Event  *Event  // its positions become done; of one that is given up they may be a part of JobState.Positions
	Fences []int64 // the token for each of the event's positions
	Held   bool    // the store holds a copy of the event with the numbers JobState.Positions, to be forgotten
	JobState
}

// Skipped is a range of numbers of a stream for which no event will come.
type Skipped struct {
	Stream   lockkeys.Key
	From, To uint64 // both included
	Fence    int64
	Reason   string
	Time     time.Time
}

// JobState returns the job state of the range. Its name is that of the stream
// and the range, "client/42=7-9" for example, which no event has by default;
// its positions are the first and the last number.
func (s Skipped) JobState() JobState {
	first := Position{Stream: s.Stream, Number: s.From}
	last := Position{Stream: s.Stream, Number: s.To}
	return JobState{
		Event:     shortName(first.String() + "-" + strconv.FormatUint(s.To, 10)),
		Positions: []Position{first, last},
		Status:    NeverCame,
		Error:     s.Reason,
		Started:   s.Time,
		Ended:     s.Time,
	}
}

// JobState says what became of an event. There is one for each event that was
// processed, failed or was given up, until it is pruned.
type JobState struct {
	Event     string     // the event's name
	Hash      Hash       // of the event; the zero Hash if it is not known
	Positions []Position // its numbers
	Status    Status
	Attempts  int       // how often its handler was called
	Error     string    // of the last attempt that failed; why it was skipped
	Started   time.Time // of the first attempt
	Ended     time.Time // of the last one; with an effect in the store's own transaction, to 5 ms
}

// Status is what became of an event.
type Status uint8

// Statuses.
const (
	Processed Status = iota + 1 // its effect is durable
	Failed                      // it is parked
	GivenUp                     // its numbers are done without its effect
	NeverCame                   // a range of numbers was skipped
)

// String returns "processed", "failed", "given up" or "never came".
func (s Status) String() string {
	switch s {
	case Processed:
		return "processed"
	case Failed:
		return "failed"
	case GivenUp:
		return "given up"
	case NeverCame:
		return "never came"
	}
	return "unknown"
}

// HeldEvent is an event that a store holds.
type HeldEvent struct {
	*Event
	Attempts int       // calls of its handler before it was held
	Started  time.Time // of the first of them
	Outline  bool      `json:",omitempty"` // payload and headers are left out; [Store.Held] has them
}

// AsOutline returns h without what may be large, as lists of parkings have it.
func (h HeldEvent) AsOutline() HeldEvent {
	e := *h.Event
	e.Payload, e.Headers = nil, nil
	h.Event, h.Outline = &e, true
	return h
}

// Failed returns the job state of the event in a parking.
func (h HeldEvent) Failed(p *Parking) JobState {
	return JobState{Event: h.Name(), Positions: h.Positions, Status: Failed,
		Attempts: h.Attempts, Error: p.Error, Started: h.Started, Ended: p.Since}
}

// Parking is a stream, or several that are bound together by their events,
// that cannot go on until something is decided or comes.
type Parking struct {
	// ID tells parkings apart.
	ID string
	// Reason is why.
	Reason Reason
	// Streams are closed, each at its number: what is below goes on.
	Streams []Position
	// Events are those at fault: the one that failed, those that contradict
	// each other; none for a gap. They are held, and in lists they are outlines.
	Events []HeldEvent
	// Gap is the range that is missing, if Reason is Gap.
	Gap Range
	// Error is the text of what happened.
	Error string
	// Since is when.
	Since time.Time
}

// Range is a range of numbers on a stream, both ends included.
type Range struct {
	Stream lockkeys.Key `json:"stream"`
	From   uint64       `json:"from"`
	To     uint64       `json:"to"`
}

// Reason is why streams are parked.
type Reason uint8

// Reasons.
const (
	// Failure: an event's handler failed, for good.
	Failure Reason = iota + 1
	// Gap: numbers are missing that could not be had.
	Gap
	// Waiting: numbers are missing, which are still being asked for, and
	// more events wait for them than may be kept in memory.
	Waiting
	// Contradiction: events each wait for the other, or were numbered
	// against what is done already.
	Contradiction
)

// String returns "failure", "gap", "waiting" or "contradiction".
func (r Reason) String() string {
	switch r {
	case Failure:
		return "failure"
	case Gap:
		return "gap"
	case Waiting:
		return "waiting"
	case Contradiction:
		return "contradiction"
	}
	return "unknown"
}
