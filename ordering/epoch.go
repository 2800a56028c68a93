package ordering

import (
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// MaxPlace is the place of the last number of the last epoch, see [Position.Place].
const MaxPlace = core.MaxPlace

// Place returns the epoch and the number as one number, by which a store keeps
// them: epoch times MaxNumber plus number, so that of number 5 of epoch 2 is
// 200000000000005. [PositionAt] is the way back.
//
// Places are ordered as positions are, by the epoch and then the number, and every
// one from 1 to [MaxPlace] is that of one position. In epoch 0, the only one of a
// producer that has never lost its numbers, the place is the number.
func (p Position) Place() uint64 { return core.Place(p.Epoch, p.Number) }

// PositionAt returns the position on a stream that has a place; of place 0, which is
// none, it has number 0.
func PositionAt(stream lockkeys.Key, place uint64) Position {
	return Position{Stream: stream, Epoch: core.EpochOf(place), Number: core.NumberOf(place)}
}

// number is the number in words, with its epoch unless that is 0.
func (p Position) number() string {
	if p.Epoch == 0 {
		return fmt.Sprint(p.Number)
	}
	return fmt.Sprintf("%d of epoch %d", p.Number, p.Epoch)
}

// Places returns the places of the first and the last number of the range, which
// ends at [MaxNumber] if To is beyond that.
func (r Range) Places() (from, to uint64) {
	return core.Place(r.Epoch, min(r.From, MaxNumber+1)), core.Place(r.Epoch, min(r.To, MaxNumber))
}

// Has reports whether a position on the range's stream is in the range.
func (r Range) Has(p Position) bool {
	return p.Stream == r.Stream && p.Epoch == r.Epoch && r.From <= p.Number && p.Number <= r.To
}

// RangeAt returns the range on a stream from one place to another. Where a later
// epoch begins between them, it is what is left of the first one's.
func RangeAt(stream lockkeys.Key, from, to uint64) Range {
	first, last := PositionAt(stream, from), PositionAt(stream, to)
	if first.Epoch != last.Epoch {
		last.Number = MaxNumber
	}
	return Range{Stream: stream, Epoch: first.Epoch, From: first.Number, To: last.Number}
}

// String returns the range as "client/42: 5 to 7", with its epoch unless that is 0.
func (r Range) String() string {
	text := fmt.Sprintf("%s: %d", r.Stream, r.From)
	switch {
	case r.To == MaxNumber && r.From < r.To:
		return text + fmt.Sprintf(" to the end of epoch %d", r.Epoch)
	case r.From != r.To:
		text += fmt.Sprintf(" to %d", r.To)
	}
	if r.Epoch != 0 {
		text += fmt.Sprintf(" of epoch %d", r.Epoch)
	}
	return text
}

// StaleError says that an event is of an epoch of a stream that is over: a later
// one has begun before it came, and none of the numbers that had not come by then
// will be taken. What the event says has not been done and never will be, under
// this number.
type StaleError struct {
	Event    *Event
	Position Position // of the epoch that is over
	Epoch    uint16   // the one that has begun after it; by now there may be a later one
}

// Error names the event and both epochs.
func (e *StaleError) Error() string {
	return fmt.Sprintf("ordering: event %.80q: stream %.80s, number %s is stale: epoch %d has begun since: if what it says is still to be done, give it a new number in the producer's present epoch",
		e.Event.Name(), e.Position.Stream, e.Position.inEpoch(), e.Epoch)
}

// inEpoch is the number in words, with its epoch even if that is 0.
func (p Position) inEpoch() string { return fmt.Sprintf("%d of epoch %d", p.Number, p.Epoch) }

// Unwrap gives ErrContradiction to errors.Is.
func (e *StaleError) Unwrap() error { return ErrContradiction }

// begins returns the epoch that begins after a range that was skipped, if one does.
func (j *JobState) begins() (epoch uint16, ok bool) {
	if j == nil || j.Status != StatusSkipped || len(j.Positions) == 0 {
		return 0, false
	}
	last := j.Positions[len(j.Positions)-1].Place()
	return core.EpochOf(last + 1), core.EndsEpoch(last)
}
