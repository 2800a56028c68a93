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

// Hash is a digest of an event's contents. Together with the event's ID it
// confirms that two events with the same numbers are copies; see [Event.Hash].
// The zero Hash means unknown.
type Hash [16]byte

// Hash returns the digest of the event's type, its payload, and which of its
// streams it ends. Headers, the time, the correlation ID and the causation ID
// are not included, since a copy over another channel may have lost or gained
// some, or have a time of other precision.
func (e *Event) Hash() Hash {
	ends := ""
	if e.ends() {
		for _, p := range sorted(e.Positions) {
			if p.End {
				ends += p.String() + "\x00"
			}
		}
	}
	var room [256]byte // enough for most events, so that nothing is allocated
	said := binary.BigEndian.AppendUint64(room[:0], uint64(len(e.Type)))
	said = append(said, e.Type...)
	said = binary.BigEndian.AppendUint64(said, uint64(len(e.Payload)))
	if len(said)+len(e.Payload)+len(ends) <= len(room) {
		sum := sha256.Sum256(append(append(said, e.Payload...), ends...))
		return Hash(sum[:16])
	}
	h := sha256.New()
	h.Write(said)
	h.Write(e.Payload)
	h.Write([]byte(ends))
	return Hash(h.Sum(nil)[:16])
}

// sorted returns positions in the order of their streams.
func sorted(positions []Position) []Position {
	return slices.SortedFunc(slices.Values(positions), func(p, q Position) int { return p.Stream.Compare(q.Stream) })
}

// SameNumbers reports whether two events have the same positions, in any order:
// numbers identify an event.
func SameNumbers(a, b []Position) bool {
	if len(a) != len(b) {
		return false
	}
	same := func(p, q Position) bool { return p.Stream == q.Stream && p.Place() == q.Place() }
	if slices.EqualFunc(a, b, same) {
		return true
	}
	places := make(map[lockkeys.Key]uint64, len(a))
	for _, p := range a {
		places[p.Stream] = p.Place()
	}
	for _, p := range b {
		if places[p.Stream] != p.Place() {
			return false
		}
	}
	return true
}

// IsCopy reports whether other is a copy of the event: it has the same numbers,
// and ID and contents confirm that. An event without an ID has the default.
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

// IsOf reports whether the job state is that of the event, by the rule of
// [Event.IsCopy]. The contents are not compared if the state has no hash.
func (j *JobState) IsOf(e *Event) bool {
	return j.Status != StatusSkipped && SameNumbers(j.Positions, e.Positions) &&
		(j.Event == e.Name() || e.ID == "" && j.Event == (&Event{Positions: j.Positions}).Name()) &&
		(j.Hash == Hash{} || j.Hash == e.Hash())
}

// ErrContradiction is wrapped by the errors of events that can never run
// because their numbers contradict those of others: a [*ConflictError], a [*StaleError] or a
// [*ContradictionError].
var ErrContradiction = errors.New("ordering: numbered against another event")

// ConflictError is the error for an event with a number that belongs to another
// event: one with another ID, other contents, or other numbers. The producer
// has used a number twice, because it lost its counter for example. The event
// has not been applied and never will be, under this number. It is also the error
// for a command with the ID of another one.
type ConflictError struct {
	Event    *Event   // the one that came later
	Position Position // a number that both have; none of a command
	Other    string   // the ID of the other event; the same if only the contents differ, "" if unknown
	Status   Status   // of the other event; 0 if it is in flight or held
}

// Error names both events.
func (e *ConflictError) Error() string {
	other := "another event"
	switch {
	case e.Status == StatusSkipped:
		other = fmt.Sprintf("none, since it was skipped with %.80q", e.Other)
	case e.Other == e.Event.Name():
		other = "another event with the same ID and other contents or numbers"
	case e.Other != "":
		other = fmt.Sprintf("event %.80q", e.Other)
	}
	became := ""
	if e.Status != 0 && e.Status != StatusSkipped {
		became = ", which was " + e.Status.String()
	}
	if e.Event.IsCommand() {
		return fmt.Sprintf("ordering: command %.80q: its ID is that of another command with other contents%s: give a new command a new ID",
			e.Event.ID, became)
	}
	return fmt.Sprintf("ordering: event %.80q: stream %.80s, number %s is that of %s%s: give a new event a new number",
		e.Event.Name(), e.Position.Stream, e.Position.number(), other, became)
}

// Unwrap returns ErrContradiction.
func (e *ConflictError) Unwrap() error { return ErrContradiction }

// conflict returns the error of e, which has a number of other.
func conflict(e, other *Event) *ConflictError {
	err := &ConflictError{Event: e, Other: other.Name()}
	for _, p := range e.Positions {
		if q, ok := other.On(p.Stream); ok && q.Place() == p.Place() {
			err.Position = p
			break
		}
	}
	return err
}

// firstOf returns the position under which a store keeps a job state: the first
// in the order of the streams' text form.
func firstOf(positions []Position) Position {
	if len(positions) == 1 {
		return positions[0]
	}
	return slices.MinFunc(positions, func(p, q Position) int { return cmp.Compare(p.Stream.String(), q.Stream.String()) })
}
