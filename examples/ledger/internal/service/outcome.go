package service

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
)

// ended takes what became of a message that was offered.
func (s *Service) ended(line int, m *book.Message, e *ordering.Event, o ordering.Outcome) {
	switch o.Result {
	case ordering.Refused, ordering.Failed:
		if rejectsCommand(e, o) {
			s.cfg.Audit.Rejected(audit.Record{Event: e.Name(), Line: line, Message: m, Err: idTaken(e.ID)})
			break
		}
		s.counts.refused.Add(1)
		if s.cfg.OnRefused != nil {
			s.cfg.OnRefused(line, m, o.Err)
		}
	case ordering.Applied:
		s.counts.applied.Add(1)
		s.first()
	case ordering.Duplicate:
		s.counts.before.Add(1)
		if s.cfg.OnBefore != nil {
			s.cfg.OnBefore(e.Name(), hasNumbers(e), line, m)
		}
		s.tellFirst()
	case ordering.Held:
		s.counts.held.Add(1)
	default: // Unfinished
		s.counts.unfinished.Add(1)
		if errors.Is(o.Err, ordering.ErrFenced) {
			s.abort(o.Err)
		}
	}
	if s.cfg.OnEnd != nil {
		s.cfg.OnEnd()
	}
}

// first notes that a message has ended that was not done before.
func (s *Service) first() {
	if s.counts.first.Load() == nil {
		now := time.Now()
		s.counts.first.CompareAndSwap(nil, &now)
	}
	s.tellFirst()
}

// tellFirst calls OnFirst if it is time. Which is known first, that a message was
// done before or that another one has ended, is up to chance.
func (s *Service) tellFirst() {
	at, before := s.counts.first.Load(), s.counts.before.Load()
	if at != nil && before > 0 && s.cfg.OnFirst != nil {
		s.counts.goesOn.Do(func() { s.cfg.OnFirst(*at, int(before)) })
	}
}

// counts counts messages.
type counts struct {
	accepted                                   atomic.Int64 // that were offered here; and of them:
	applied, before, held, refused, unfinished atomic.Int64
	ran                                        atomic.Int64 // wherever they came from, without copies
	copies                                     atomic.Int64 // of a message with the same ID, wherever they came from
	gone                                       atomic.Int64
	first                                      atomic.Pointer[time.Time] // when the first one ended that was not done before
	goesOn                                     sync.Once                 // calls OnFirst
}

// Counts tells apart the messages that did not simply run.
type Counts struct {
	Accepted int // all
	Before   int // that were done before, in an earlier run or as another copy
	Held     int // that wait for messages that did not come
	Refused  int // that can never run for their numbers
	Left     int // that did not run before the end
	Gone     int // held, and given up since they can never run for their numbers
	Revived  int // not accepted here, and run: from the queue, held earlier, or got by a replay
}

// Counts returns the counts, which agree with each other once the service has
// ended.
func (s *Service) Counts() Counts {
	c := &s.counts
	return Counts{
		Accepted: int(c.accepted.Load()), Before: int(c.before.Load() + c.copies.Load()), Held: int(c.held.Load()),
		Refused: int(c.refused.Load()), Left: int(c.unfinished.Load()), Gone: int(c.gone.Load()),
		Revived: int(c.ran.Load() + c.copies.Load() - c.applied.Load()),
	}
}
