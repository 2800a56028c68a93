package ordering

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// MaxReply bounds JobState.Reply, in bytes: 64 KiB.
const MaxReply = 64 << 10

// Record is the outcome of an event that has run or was given up.
type Record struct {
	// Event is the event whose numbers become done. If it is given up, they may
	// be a part of JobState.Positions. One without numbers is a command: see
	// [Store].
	Event *Event
	// Term is the term in which the record is written; see [Job.Record].
	Term *TermInfo
	// Fences are the fencing tokens, one for each of the event's positions.
	Fences []int64
	// Known has for each of the positions the place up to which the caller
	// knows the stream to be done, or 0. A store that has less has lost
	// commits, and refuses the record with a [*LostError]. Known may be nil.
	Known []uint64
	// Held reports whether the store holds a copy of the event with the numbers
	// JobState.Positions, which the commit deletes.
	Held bool
	// Marked reports whether [Term].Mark was called for the event with the
	// numbers JobState.Positions, or the command: the commit deletes the count.
	Marked bool
	// Brief is [Config.Brief]: see [Record.IsBrief]. A number whose job state is not kept
	// for that counts as one whose job state was pruned.
	Brief bool

	// JobState is what [Record.State] returns, but for its Hash, which may be
	// missing.
	JobState

	over error // of a job whose handler has returned
}

// State returns the job state for a store to keep. Its Hash, unless it is set, is
// that of the event, computed here: a store that keeps no job states need not pay
// for it.
func (r *Record) State() JobState {
	state := r.JobState
	if state.Hash == (Hash{}) {
		state.Hash = r.Event.Hash()
	}
	return state
}

// IsBrief reports whether a store need keep the job state only until the next number of
// the stream is done: it has Brief, and there is nothing about the event that an operator
// may want to know.
func (r *Record) IsBrief() bool {
	return r.Brief && r.JobState.Status == StatusApplied && r.JobState.Attempts <= 1 && !r.Held && r.By == "" && len(r.JobState.Reply) == 0 &&
		len(r.JobState.Positions) == 1 && !r.JobState.Positions[0].End
}

// IsCommand reports whether the record is that of a command: an event without
// numbers.
func (r Record) IsCommand() bool { return len(r.Event.Positions) == 0 }

// Validate returns an error for an invalid record; see [Term].Commit.
func (r Record) Validate() error {
	if r.Event == nil {
		return ErrNilEvent
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("ordering: commit of %.80q: "+format, append([]any{r.Event.Name()}, args...)...)
	}
	n := len(r.Event.Positions)
	switch {
	case r.over != nil:
		return r.over
	case r.Term == nil:
		return bad("it has no term: commit it by a Term, or take the record of a job that has one")
	case n == 0 && r.Event.ID == "":
		return bad("%w, or, for a command, an ID", ErrNoPosition)
	case len(r.Fences) != n:
		return bad("%d tokens for %d positions", len(r.Fences), n)
	case len(r.Known) != n && len(r.Known) > 0:
		return bad("%d known numbers for %d positions", len(r.Known), n)
	case len(r.Reply) > MaxReply:
		return bad("%w: %d bytes, and at most %d are stored: reply with a reference to the rest", ErrReply, len(r.Reply), MaxReply)
	}
	return nil
}

// MarkOf returns the key under which a store counts the runs of an event: a
// hash of its positions, in any order, or of its ID if it has none.
func MarkOf(positions []Position, id string) Hash {
	if len(positions) == 0 {
		return hashOf("id " + id)
	}
	texts := make([]string, len(positions))
	for i, p := range positions {
		texts[i] = Position{Stream: p.Stream, Epoch: p.Epoch, Number: p.Number}.String()
	}
	slices.Sort(texts)
	return hashOf("numbers " + strings.Join(texts, ", "))
}

func hashOf(text string) Hash {
	sum := sha256.Sum256([]byte(text))
	return Hash(sum[:len(Hash{})])
}

// Skipped is a range of numbers of a stream for which no event will come. It may
// reach from one epoch to the end of a later one.
type Skipped struct {
	Stream   lockkeys.Key
	From, To uint64 // places, see [Position.Place]; both included
	Fence    int64
	Known    uint64 // like Record.Known
	By       string // the operator; "" if none decided it
	Reason   string // why
	Time     time.Time
}

// Validate returns an error for a range that has no numbers.
func (s Skipped) Validate() error {
	if s.From == 0 || s.From > s.To || s.To > MaxPlace {
		return fmt.Errorf("ordering: skip of stream %s, places %d to %d: no such range: it goes from 1 on, upwards", s.Stream, s.From, s.To)
	}
	return nil
}

// EndsEpoch reports whether the range goes on to the end of an epoch: a later one
// has begun. The record of that tells which numbers of the epochs before have never
// come, and is kept as long as the stream's last number is.
func (s Skipped) EndsEpoch() bool { return core.EndsEpoch(s.To) }

// JobState returns the job state of the range. Its name is that of the stream
// and the range, "client/42=7-9" or "client/42=7 until epoch 2" for example, which
// no event has by default; its positions are the first and the last number.
func (s Skipped) JobState() JobState {
	first, last := PositionAt(s.Stream, s.From), PositionAt(s.Stream, s.To)
	until := "-" + strconv.FormatUint(last.Number, 10)
	if s.EndsEpoch() {
		until = fmt.Sprintf(" until epoch %d", core.EpochOf(s.To+1))
	}
	return JobState{
		Event:     shortName(first.String() + until),
		Positions: []Position{first, last},
		Status:    StatusSkipped,
		By:        s.By,
		Reason:    s.Reason,
		Started:   s.Time,
		Ended:     s.Time,
	}
}

// JobState is the outcome of an event. There is one for each event that was
// applied, failed or was given up, until it is pruned.
type JobState struct {
	Event     string     // the event's name
	Hash      Hash       // of the event; the zero Hash if unknown
	Positions []Position // its numbers; none for a command
	Status    Status
	Attempts  int       // calls of its handler
	Error     string    // of the last failed attempt
	Started   time.Time // of the first attempt
	Ended     time.Time // of the last one; with an effect in the store's own transaction, to 5 ms
	By        string    // the operator who gave it up or skipped it; "" if none did
	Reason    string    // why it was given up or skipped
	Reply     []byte    // of its handler, at most [MaxReply] bytes
}

// Status is the status of an event in its job state.
type Status uint8

// Statuses.
const (
	StatusApplied      Status = iota + 1 // its effect is durable
	StatusParked                         // it is parked
	StatusDeadLettered                   // its numbers are done without its effect
	StatusSkipped                        // a range of numbers was skipped
)

// String returns "applied", "parked", "dead-lettered" or "skipped".
func (s Status) String() string {
	switch s {
	case StatusApplied:
		return "applied"
	case StatusParked:
		return "parked"
	case StatusDeadLettered:
		return "dead-lettered"
	case StatusSkipped:
		return "skipped"
	}
	return "unknown"
}
