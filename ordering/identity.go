package ordering

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// Hash is a digest of what an event says. Together with the event's ID it
// confirms that two events with the same numbers are one; see [Event.Hash].
// The zero Hash is that of an event of which it is not known.
type Hash [16]byte

// Hash returns the digest of the event's type, its payload, and which of its
// streams it ends. Headers, the time, and the IDs of a correlation and a cause do
// not count, since a copy that comes over another channel may have lost or gained
// some, or have its time in another precision.
func (e *Event) Hash() Hash {
	h := sha256.New()
	var size [8]byte
	binary.BigEndian.PutUint64(size[:], uint64(len(e.Type)))
	h.Write(size[:])
	h.Write([]byte(e.Type))
	binary.BigEndian.PutUint64(size[:], uint64(len(e.Payload)))
	h.Write(size[:])
	h.Write(e.Payload)
	if slices.ContainsFunc(e.Positions, func(p Position) bool { return p.End }) {
		for _, p := range sorted(e.Positions) {
			if p.End {
				h.Write([]byte(p.String()))
				h.Write([]byte{0})
			}
		}
	}
	var sum [sha256.Size]byte // its room, so that nothing is allocated
	return Hash(h.Sum(sum[:0])[:16])
}

// sorted returns positions in the order of their streams.
func sorted(positions []Position) []Position {
	return slices.SortedFunc(slices.Values(positions), func(p, q Position) int { return p.Stream.Compare(q.Stream) })
}

// SameNumbers reports whether two events have the same positions, in whatever
// order: the numbers are what an event is known by.
func SameNumbers(a, b []Position) bool {
	if len(a) != len(b) {
		return false
	}
	same := func(p, q Position) bool { return p.Stream == q.Stream && p.Number == q.Number }
	if slices.EqualFunc(a, b, same) {
		return true
	}
	numbers := make(map[lockkeys.Key]uint64, len(a))
	for _, p := range a {
		numbers[p.Stream] = p.Number
	}
	for _, p := range b {
		if numbers[p.Stream] != p.Number {
			return false
		}
	}
	return true
}

// IsCopy reports whether other is the same event once more: the same numbers,
// and the ID and the body confirm it. An event without an ID has its default.
func (e *Event) IsCopy(other *Event) bool {
	if e == other {
		return true
	}
	if !SameNumbers(e.Positions, other.Positions) || e.ID != other.ID && e.Name() != other.Name() {
		return false
	}
	if !e.ends() && !other.ends() {
		return e.Type == other.Type && bytes.Equal(e.Payload, other.Payload)
	}
	return e.Hash() == other.Hash()
}

func (e *Event) ends() bool {
	return slices.ContainsFunc(e.Positions, func(p Position) bool { return p.End })
}

// IsOf reports whether the job state is that of an event, as IsCopy does. The
// body is not compared if the state has no hash.
func (j *JobState) IsOf(e *Event) bool {
	return j.Status != NeverCame && SameNumbers(j.Positions, e.Positions) &&
		(j.Event == e.Name() || e.ID == "" && j.Event == (&Event{Positions: j.Positions}).Name()) &&
		(j.Hash == Hash{} || j.Hash == e.Hash())
}

// ErrContradiction is wrapped by the errors of events that can never run, since
// they are numbered against others: a [*ConflictError] or a [*ContradictionError].
var ErrContradiction = errors.New("ordering: numbered against another event")

// ConflictError says that a number of an event is another event's: one with
// another ID, another body, or other numbers beside it. The producer has given a
// number twice: after it lost its counter, for example. What the event says has
// not been done and never will be, under this number.
type ConflictError struct {
	Event    *Event   // the one that came later
	Position Position // a number that both have
	Other    string   // the ID of the other event; the same if only the body differs, "" if it is not known
	Status   Status   // what became of the other event; 0 if it is still on its way, or held
}

// Error names both events.
func (e *ConflictError) Error() string {
	other := "another event"
	switch {
	case e.Status == NeverCame:
		other = fmt.Sprintf("none, since it was skipped with %.80q", e.Other)
	case e.Other == e.Event.Name():
		other = "another event with the same ID and other contents or numbers"
	case e.Other != "":
		other = fmt.Sprintf("event %.80q", e.Other)
	}
	became := ""
	if e.Status != 0 && e.Status != NeverCame {
		became = ", which was " + e.Status.String()
	}
	return fmt.Sprintf("ordering: event %.80q: stream %.80s, number %d is that of %s%s: give a new event a new number",
		e.Event.Name(), e.Position.Stream, e.Position.Number, other, became)
}

// Unwrap gives ErrContradiction to errors.Is.
func (e *ConflictError) Unwrap() error { return ErrContradiction }

// conflict is the error of e, which has a number of other.
func conflict(e, other *Event) *ConflictError {
	err := &ConflictError{Event: e, Other: other.Name()}
	for _, p := range e.Positions {
		if n, ok := other.On(p.Stream); ok && n == p.Number {
			err.Position = p
			break
		}
	}
	return err
}

// firstOf returns the position that a store keeps a job state under: the first
// in the order of the streams' text.
func firstOf(positions []Position) Position {
	if len(positions) == 1 {
		return positions[0]
	}
	return slices.MinFunc(positions, func(p, q Position) int { return cmp.Compare(p.Stream.String(), q.Stream.String()) })
}
