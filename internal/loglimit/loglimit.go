// Package loglimit keeps what is told often from filling a log: a few lines
// are written in a while, and the others are counted.
package loglimit

import (
	"sync"
	"time"
)

// Limit lets the first Lines lines of each interval through. Its fields are not
// to be changed once it is in use. It may be used from any goroutine, and has
// none itself.
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

// Take reports whether a line may be written, and if so, how many were not
// since the last one that was.
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

// Withheld returns how many lines were not written, once their interval is
// over; it returns each of them once, here or in Take.
func (l *Limit) Withheld() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.mu.began) >= l.Every {
		n, l.mu.withheld = l.mu.withheld, 0
	}
	return n
}
