package lockkeys

import (
	"errors"
	"fmt"
)

// Reasons why a key is refused. A [*KeyError] wraps one of them; tell them
// apart with errors.Is.
var (
	// ErrEmptySegment: a segment has no bytes, as in "client//7", or the text
	// form of a key is empty (the root key is written "/").
	ErrEmptySegment = errors.New("empty segment: remove it, or write \"/\" for the root key")
	// ErrNULSegment: a segment contains a NUL byte, which the encoding of keys
	// uses as separator.
	ErrNULSegment = errors.New("segment with a NUL byte: encode it, in hexadecimal for example")
	// ErrTooDeep: the key has more than MaxDepth segments.
	ErrTooDeep = fmt.Errorf("more than %d segments: join some of them", MaxDepth)
	// ErrBadEscape: in the text form of a key, a '%' is not followed by two
	// hexadecimal digits.
	ErrBadEscape = errors.New("'%' without two hexadecimal digits: write \"%25\" for a percent sign")
)

// KeyError is the error for input that is not a valid key.
type KeyError struct {
	// Input is the offending text, or the offending segment.
	Input string
	// Segment is the index of the offending segment, counted from 0.
	Segment int
	// Reason is one of the errors above.
	Reason error
}

// Error shows the input in quotes, cut after 80 bytes.
func (e *KeyError) Error() string {
	input, cut := e.Input, ""
	if len(input) > 80 {
		input, cut = input[:80], "..."
	}
	return fmt.Sprintf("lockkeys: bad key %q%s at segment %d: %v", input, cut, e.Segment, e.Reason)
}

// Unwrap gives the reason to errors.Is.
func (e *KeyError) Unwrap() error { return e.Reason }
