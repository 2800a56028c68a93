package lockkeys

import "fmt"

// Mode is the lock mode of a request: exclusive, or shared with others that
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

// Request asks for the subtree of a key in a mode. The zero Request is
// exclusive and for the root, which is everything.
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

// covers reports whether a holder of r needs nothing more to use other.
func (r Request) covers(other Request) bool {
	return r.Key.Contains(other.Key) && (r.Mode != Shared || other.Mode == Shared)
}

// String returns the text form of the key, followed by " (shared)" if the
// request is shared.
func (r Request) String() string {
	if r.Mode == Shared {
		return r.Key.String() + " (shared)"
	}
	return r.Key.String()
}
