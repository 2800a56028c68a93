// Package pause waits in tests, also in the bubbles of testing/synctest.
package pause

import (
	"context"
	"time"
)

// For waits for d, which may be zero, and returns nil; or until ctx ends, and
// returns its error.
//
// It is what a select with time.After does, without a timer that has a channel:
// with Go 1.26 and -race, such a timer that is due when a goroutine of a bubble
// receives from it is run by that goroutine in the race detector's context of the
// whole bubble, and two at once corrupt it and end the process with SIGSEGV.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
	return ctx.Err()
}
