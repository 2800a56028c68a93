// Package ofcall marks keys of context values that belong to the call under way, such
// as a transaction. A message that is submitted in the call, with its context, has the
// other values of that context and not these: its handler runs in a call of its own.
package ofcall

// Key marks the type of a key that it is embedded in.
type Key struct{}

func (Key) ofCall() {}

// Is reports whether a key is marked.
func Is(key any) bool {
	_, ok := key.(interface{ ofCall() })
	return ok
}
