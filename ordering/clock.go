package ordering

import (
	"time"

	"github.com/interlock-go/interlock/ordering/internal/core"
)

// clock makes steps of the core when time has passed that it waits for. The
// sequencer's mutex guards it.
type clock struct {
	timer *time.Timer
	at    time.Time // when the timer is due; zero if it is not set
}

func (c *clock) init() {
	c.timer = time.NewTimer(time.Hour)
	c.timer.Stop()
}

// setLocked makes the clock tick at a time or before, or never for the zero
// time.
func (c *clock) setLocked(at time.Time) {
	if at == c.at { // as is usual
		return
	}
	if at.IsZero() || !c.at.IsZero() && !at.Before(c.at) {
		return
	}
	c.at = at
	c.timer.Reset(time.Until(at))
}

// tick is the clock's goroutine.
func (s *Sequencer[T]) tick() {
	defer s.clock.timer.Stop()
	for {
		select {
		case <-s.clock.timer.C:
			s.mu.Lock()
			s.clock.at = time.Time{}
			s.stepRest(core.Ticked{}, s.tellAside)
		case <-s.background.Done():
			return
		}
	}
}
