// Package loglimit keeps frequent messages from flooding a log: a few lines are
// written in each interval, and the others are counted.
package loglimit

import (
	"sync"
	"time"
)

// Limit lets the first Lines lines of each interval through. Do not change its
// fields once it is in use. It is safe for concurrent use.
type Limit struct {
	Lines int
	Every time.Duration // the interval, which begins with a line

	mu struct {
		sync.Mutex
		began    time.Time
		lines    int
		withheld int
	}
}

// Take reports whether a line may be written, and if so, the number of lines
// withheld since the last one.
func (l *Limit) Take() (ok bool, withheld int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.mu.began.IsZero() || now.Sub(l.mu.began) >= l.Every {
		l.mu.began, l.mu.lines = now, 0
	}
	if l.mu.lines == l.Lines {
		l.mu.withheld++
		return false, 0
	}
	l.mu.lines++
	withheld, l.mu.withheld = l.mu.withheld, 0
	return true, withheld
}

// Withheld returns the number of withheld lines once their interval is over. Each
// is counted once, here or in Take.
func (l *Limit) Withheld() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.mu.began) >= l.Every {
		n, l.mu.withheld = l.mu.withheld, 0
	}
	return n
}
