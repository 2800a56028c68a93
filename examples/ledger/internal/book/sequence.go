package book

import (
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Sequence is the numbers that whoever sent a message gave it, in the form of
// [ordering.FormatSequenceID]. It is empty where the ledger is to number the
// messages, in the order in which they come.
type Sequence []ordering.Position

// OwnStreams is the key below which the ledger itself numbers messages.
var OwnStreams = lockkeys.Must("input")

// MarshalText gives the text form.
func (s Sequence) MarshalText() ([]byte, error) { return []byte(ordering.FormatSequenceID(s)), nil }

// UnmarshalText reads the text form.
func (s *Sequence) UnmarshalText(text []byte) error {
	positions, err := ordering.ParseSequenceID(string(text), lockkeys.Root())
	if err != nil {
		return fmt.Errorf("sequence: %w", err)
	}
	for _, p := range positions {
		if err := CheckStream(p.Stream); err != nil {
			return fmt.Errorf("sequence %.80q: %w", text, err)
		}
	}
	*s = positions
	return nil
}

// CheckStream reports whether a sender may number messages on a stream.
func CheckStream(stream lockkeys.Key) error {
	for segment := range stream.Segments() {
		if err := checkName(segment, maxAccount); err != nil {
			return fmt.Errorf("stream %.80q: %w", stream.String(), err)
		}
	}
	if OwnStreams.Contains(stream) {
		return errOwnStream
	}
	return nil
}

var errOwnStream = errors.New("streams at and below \"input\" are for the ledger's own numbers: call yours otherwise")
