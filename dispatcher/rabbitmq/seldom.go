package rabbitmq

import (
	"sync"
	"time"
)

// seldom lets through what is worth a line in the log, not more often than every
// seldomEvery. The zero value is ready for use by any goroutine.
type seldom struct {
	mu     sync.Mutex
	next   time.Time
	missed int
}

const seldomEvery = 10 * time.Second

// say calls log, with how many calls it was not called for since the last time,
// if it is time for that.
func (s *seldom) say(log func(missed int)) {
	s.mu.Lock()
	now := time.Now()
	if now.Before(s.next) {
		s.missed++
		s.mu.Unlock()
		return
	}
	missed := s.missed
	s.next, s.missed = now.Add(seldomEvery), 0
	s.mu.Unlock()
	log(missed)
}
