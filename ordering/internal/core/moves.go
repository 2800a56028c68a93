package core

// moves is the transition table of an enumeration: for each state its name, and
// a bit for each state that may follow it.
type moves struct {
	of    string
	names []string
	next  []uint16
	seen  func(from, to uint8) // called with each move in a test; else nil
}

// move changes a state. It panics for a move that the table does not have,
// which is a bug in this package.
func move[S ~uint8](table *moves, state *S, next S) {
	if table.next[*state]>>next&1 == 0 {
		panic("core: " + table.of + " goes from " + table.names[*state] + " to " + table.names[next])
	}
	if table.seen != nil {
		table.seen(uint8(*state), uint8(next))
	}
	*state = next
}
