package interlocktest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// History is what has happened in a [Round].
type History[M any] struct {
	// Attempts are the calls of the handler, in the order in which they began. In a
	// BatchHandler each message has one of its own.
	Attempts []Attempt[M]
	// Errors has the result of each message that failed for good, or is parked, by
	// its ID.
	Errors map[uint64]error
}

// Attempt is a call of the handler for a message.
type Attempt[M any] struct {
	ID      uint64 // of the message: its number in the order of acceptance, from 1
	Message M
	Name    string // of the message, by Config.Name
	Attempt int    // from 1
	// Worker is the lowest number, from 0, that was free when the attempt began. It
	// is not the dispatcher's, which is not the same each time.
	Worker int
	// Batch is the same for messages in one call of a BatchHandler, else 0.
	Batch int
	// Claim is what the message held at the beginning, and Left at the end, when the
	// handler has released keys.
	Claim, Left []lockkeys.Request
	// Begin and End are when it began and returned. None is the same as another, but
	// in a batch.
	Begin, End Moment
	// Err is the error of the attempt.
	Err error
	// Undone: the attempt does not count: it has widened its claim, or the chain that
	// it was in was undone, see dispatcher.Together.
	Undone bool
}

// Moment is a point in a [History].
type Moment struct {
	Step int           // counts what is recorded, from 1
	Time time.Duration // since the beginning of Dispatch
}

// String has one line for each attempt.
func (h *History[M]) String() string {
	var b strings.Builder
	for _, a := range h.Attempts {
		fmt.Fprintf(&b, "%v\n", a)
	}
	return b.String()
}

// String tells of the attempt in one line.
func (a Attempt[M]) String() string {
	text := fmt.Sprintf("steps %d to %d, %v to %v, worker %d: message %d", a.Begin.Step, a.End.Step, a.Begin.Time, a.End.Time, a.Worker, a.ID)
	if a.Name != "" {
		text += " (" + a.Name + ")"
	}
	text += fmt.Sprintf(" %v, attempt %d", a.Claim, a.Attempt)
	if len(a.Left) < len(a.Claim) {
		text += fmt.Sprintf(", left with %v", a.Left)
	}
	if a.Undone {
		text += ", undone"
	}
	if a.Err != nil {
		text += ": " + a.Err.Error()
	}
	return text
}

// disorder returns two attempts of conflicting messages, if there are any, of which
// the one accepted first was not over when the other began. declared has the claims
// with which messages were accepted.
func (h *History[M]) disorder(declared map[uint64]*lockkeys.Claim) (earlier, later Attempt[M], found bool) {
	byID := slices.Clone(h.Attempts)
	slices.SortStableFunc(byID, func(a, b Attempt[M]) int { return cmp.Compare(a.ID, b.ID) })
	for i, a := range byID {
		for _, b := range byID[i+1:] {
			switch {
			case a.ID == b.ID, a.Undone, b.Undone, a.Batch != 0 && a.Batch == b.Batch,
				!declared[a.ID].Conflicts(declared[b.ID]):
				continue
			}
			free := a.End.Step
			if !lockkeys.NewClaim(a.Left...).Conflicts(declared[b.ID]) {
				free = a.Begin.Step // it has released the keys in between
			}
			if b.Begin.Step < free {
				return a, b, true
			}
		}
	}
	return earlier, later, false
}
