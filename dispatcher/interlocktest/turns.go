package interlocktest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// patience is how long, in the time of the bubble, nothing may go on.
const patience = time.Hour

// turns lets one goroutine of a bubble go on at a time, all others being blocked: the
// one that conducts chooses among those that wait for their turn.
type turns struct {
	rand  *rand.Rand
	pause time.Duration
	free  bool // none waits
	news  chan struct{}

	mu      sync.Mutex
	waiting []*turn
	step    int
	due     time.Time // when the next message is submitted; zero if none is left
}

// turn is that of a goroutine that waits.
type turn struct {
	id   uint64 // of the message, or 0 for the goroutine that submits
	goes chan struct{}
}

func newTurns(rand *rand.Rand, pause time.Duration, free bool) *turns {
	return &turns{rand: rand, pause: pause, free: free, news: make(chan struct{}, 1)}
}

// take waits for the turn.
func (s *turns) take(id uint64) {
	s.mu.Lock()
	if s.free {
		s.mu.Unlock()
		return
	}
	t := &turn{id, make(chan struct{})}
	s.waiting = append(s.waiting, t)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	<-t.goes
}

// open lets all go on, from now on without turns.
func (s *turns) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free = true
	for _, t := range s.waiting {
		close(t.goes)
	}
	s.waiting = nil
}

// conduct gives turns until over is closed. It reports whether nothing went on for
// too long before that.
func (s *turns) conduct(over <-chan struct{}) (stuck bool) {
	for {
		synctest.Wait()
		select {
		case <-over:
			return false
		default:
		}
		if s.next() {
			continue
		}
		// A context, since two receives from timers that are due crash the race
		// detector of Go 1.26 in a bubble.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		select {
		case <-s.news:
		case <-over:
		case <-ctx.Done():
			stuck = true
		}
		cancel()
		if stuck {
			return true
		}
	}
}

// next makes a step: it gives a turn, or lets time pass. It reports whether there was
// any turn to give.
func (s *turns) next() bool {
	s.mu.Lock()
	if len(s.waiting) == 0 {
		s.mu.Unlock()
		return false
	}
	var pause time.Duration
	switch s.rand.IntN(8) {
	case 0:
		pause = time.Duration(s.rand.Int64N(int64(max(s.pause, 0)) + 1))
	case 1:
		pause = max(0, time.Until(s.due))
	default:
		// Those with one number are in the order of their coming.
		slices.SortStableFunc(s.waiting, func(a, b *turn) int { return cmp.Compare(a.id, b.id) })
		i := s.rand.IntN(len(s.waiting))
		close(s.waiting[i].goes)
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	s.mu.Unlock()
	time.Sleep(pause)
	return true
}

// tick returns the number of the next event of the history.
func (s *turns) tick() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step++
	return s.step
}

func (s *turns) setDue(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = at
}

// Yield is a point at which a handler in a [Round] may give way to others, as it may
// in [dispatcher.Touch]. It is for what a test puts in the place of a database, for
// example. With the context of any other handler it does nothing.
func Yield(ctx context.Context) {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.turns.take(c.id)
	}
}
