package ordering

import "sync/atomic"

// turn is a lock that a goroutine can wait for in a select. While nobody waits, it
// takes two atomic operations to take and to pass, which are cheaper than a channel's.
//
// Invariant: a token in passed is the turn, on its way to a goroutine that waits, or
// to the next one that does; taken is true meanwhile. So the turn is not lost if a
// goroutine stops waiting at the moment at which it is passed on.
type turn struct {
	taken   atomic.Bool
	waiting atomic.Int32 // goroutines between await and leave
	passed  chan struct{}
}

func (t *turn) init() { t.passed = make(chan struct{}, 1) }

// try takes the turn if it is free.
func (t *turn) try() bool { return t.taken.CompareAndSwap(false, true) }

// await must be called before the caller waits for passed, from which it takes the
// turn, and leave after that. If await returns true, the caller has the turn already.
func (t *turn) await() bool {
	t.waiting.Add(1)
	return t.try() // whoever has passed it may have seen nobody
}

func (t *turn) leave() { t.waiting.Add(-1) }

// pass gives the turn to the goroutine that has waited longest, if one waits.
func (t *turn) pass() {
	t.taken.Store(false)
	if t.waiting.Load() > 0 && t.try() {
		t.passed <- struct{}{}
	}
}
