package ordering

import (
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// HeldEvent is an event that a store holds.
type HeldEvent struct {
	*Event
	Attempts int       // calls of its handler before it was held
	Started  time.Time // of the first of them
	Outline  bool      `json:",omitempty"` // payload and headers are left out; [Reader].Held has them
}

// checkHeld returns an error for an event that no store can hold.
func checkHeld(e *Event) error {
	switch {
	case e == nil:
		return ErrNilEvent
	case len(e.Positions) == 0:
		return &EventError{ID: e.ID, Reason: ErrNoPosition}
	}
	return nil
}

// AsOutline returns h without payload and headers, which may be large, for
// lists of parkings.
func (h HeldEvent) AsOutline() HeldEvent {
	e := *h.Event
	e.Payload, e.Headers = nil, nil
	h.Event, h.Outline = &e, true
	return h
}

// Failed returns the job state of the event in a parking.
func (h HeldEvent) Failed(p *Parking) JobState {
	return JobState{Event: h.Name(), Positions: h.Positions, Status: StatusParked,
		Attempts: h.Attempts, Error: p.Error, Started: h.Started, Ended: p.Since}
}

// Parking is a closed stream, or several that are bound together by their
// events, which cannot go on before an operator decides or missing events come.
type Parking struct {
	// ID identifies the parking.
	ID string
	// Reason is why the streams are parked.
	Reason Reason
	// Streams are the closed streams, each from its number on: smaller numbers
	// go on.
	Streams []ParkedStream
	// Events are the failed event, or those that contradict each other; none
	// for a gap. They are held, and in lists they are outlines.
	Events []HeldEvent
	// Gap is the missing range, if Reason is Gap. Parkings that were bound
	// together may have several: this is the one of them that was found last,
	// and the others begin where Streams without Bound are closed. Whichever
	// comes first resumes the parking, and what is missing still is asked for
	// again.
	Gap Range
	// Error is the text of the error.
	Error string
	// Since is when the streams were parked.
	Since time.Time
}

// Origin returns the stream to decide about: one that is closed for an event that has
// failed, or for a number that is missing. What the others are closed at only waits for
// that. Of several, which parkings have that were bound together, it is the one of the
// missing range, or the first. ok is false for a parking without streams.
func (p *Parking) Origin() (origin ParkedStream, ok bool) {
	for _, st := range p.Streams {
		if !ok || st.Bound == "" && (origin.Bound != "" || p.Reason == Gap && st.Stream == p.Gap.Stream) {
			origin, ok = st, true
		}
	}
	return origin, ok
}

// Validate returns an error for a parking that no store can keep: one without a
// stream, or with an event that has no numbers.
func (p *Parking) Validate() error {
	if len(p.Streams) == 0 {
		return fmt.Errorf("ordering: parking %q closes no stream", p.ID)
	}
	for _, h := range p.Events {
		if err := checkHeld(h.Event); err != nil {
			return err
		}
	}
	return nil
}

// ParkedStream is a stream of a [Parking].
type ParkedStream struct {
	Stream lockkeys.Key
	Epoch  uint16
	Number uint64 // from which on the stream is closed
	// Bound is the name of the event that bound the stream to the parking: one
	// that is behind it on another stream, and has a number on this one as well.
	// It is "" if the stream is closed for one of Parking.Events, or since Number
	// has not come.
	Bound string
	// Waiting is the number of held events of the stream, including those of
	// Parking.Events. The store counts them: [Reader].Parked fills it in.
	Waiting int64
}

// String returns the stream and the number, as [Position].String does.
func (s ParkedStream) String() string { return s.Position().String() }

// Position returns the position from which on the stream is closed.
func (s ParkedStream) Position() Position {
	return Position{Stream: s.Stream, Epoch: s.Epoch, Number: s.Number}
}

func parkedAt(p Position, bound string) ParkedStream {
	return ParkedStream{Stream: p.Stream, Epoch: p.Epoch, Number: p.Number, Bound: bound}
}

// Range is a range of numbers in one epoch of a stream, both ends included.
type Range struct {
	Stream lockkeys.Key `json:"stream"`
	Epoch  uint16       `json:"epoch,omitempty"`
	From   uint64       `json:"from"`
	To     uint64       `json:"to"`
	// Before is only for requests, and is 0 elsewhere: how many other events are
	// welcome in the answer, besides those of the range, of those that these wait
	// for on their other streams, directly or not. With a chain of events, each of
	// which waits for the one before on another stream, there would be a request for
	// each else. It is a hint: an answer may have fewer, or none.
	Before int `json:"-"`
}

// Reason is why streams are parked.
type Reason uint8

// Reasons.
const (
	// Failure: an event's handler failed, for good.
	Failure Reason = iota + 1
	// Gap: numbers are missing, and no source has them.
	Gap
	// Waiting: numbers are missing and still being requested, and more events
	// wait for them than memory may keep.
	Waiting
	// Contradiction: events each wait for the other, or have numbers that
	// contradict done ones.
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
