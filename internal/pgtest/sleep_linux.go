package pgtest

import (
	"syscall"
	"time"
)

// sleep is time.Sleep for less than a millisecond, which the runtime's timers round up
// when nothing else runs.
func sleep(d time.Duration) {
	if d > 0 {
		t := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&t, nil)
	}
}
