package rabbitmq

import (
	"sync"
	"time"
)

// seldom limits log lines to one every seldomEvery. The zero value is ready for
// use by any goroutine.
type seldom struct {
	mu     sync.Mutex
	next   time.Time
	missed int
}

const seldomEvery = 10 * time.Second

// say calls log if it is time for that, with the number of calls of say that were
// suppressed since the last time.
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
