package lockkeys

import "fmt"

// Mode is how a request wants its key: for itself, or shared with others who
// only read.
type Mode uint8

const (
	// Exclusive conflicts with every mode. It is the default.
	Exclusive Mode = iota
	// Shared conflicts with Exclusive only.
	Shared
)

// String returns "exclusive" or "shared".
func (m Mode) String() string {
	switch m {
	case Exclusive:
		return "exclusive"
	case Shared:
		return "shared"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Request asks for the subtree of a key in a mode. The zero Request asks for
// everything, exclusively.
type Request struct {
	Key  Key
	Mode Mode
}

// Conflicts is the rule that everything else here follows: two requests
// conflict when one key contains the other and they are not both shared.
func Conflicts(a, b Request) bool {
	related := a.Key.Contains(b.Key) || b.Key.Contains(a.Key)
	return related && !(a.Mode == Shared && b.Mode == Shared)
}

// covers tells whether whoever holds a needs nothing more to use b.
func (r Request) covers(other Request) bool {
	return r.Key.Contains(other.Key) && (r.Mode == Exclusive || other.Mode == Shared)
}

// String returns the key in its text form, with " (shared)" behind it where
// that applies.
func (r Request) String() string {
	if r.Mode == Shared {
		return r.Key.String() + " (shared)"
	}
	return r.Key.String()
}
