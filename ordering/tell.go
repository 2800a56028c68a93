package ordering

import (
	"time"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// tellAside reports outcomes and notices on a goroutine of its own: a callback
// may panic or call runtime.Goexit, and the others are called all the same.
func (s *Sequencer[T]) tellAside(actions []core.Action) {
	contain.Each(len(actions), func(i int) { s.tellOne(actions[i]) }, func(err error) {
		s.cfg.Logger.Error("callback failed", "err", err)
	})
}

// tellHere reports outcomes and notices on a goroutine of the dispatcher, which
// handles callbacks that panic or end it.
func (s *Sequencer[T]) tellHere(actions []core.Action) {
	next := 0
	defer func() {
		if next < len(actions) { // a callback did
			s.tellAside(actions[next:])
		}
	}()
	for next < len(actions) {
		a := actions[next]
		next++
		s.tellOne(a)
	}
}

func (s *Sequencer[T]) tellOne(a core.Action) {
	switch a := a.(type) {
	case core.Tell:
		s.tell(itemOf[T](a.Event))
	case core.Notify:
		s.tellCore(a.Notice)
	case core.Decided:
		s.decided(a)
	}
}

// tell reports the outcome of an event to its source, and to those of its
// copies.
func (s *Sequencer[T]) tell(it *item[T]) {
	o := it.outcome()
	if o.Result == Duplicate && o.Err != nil { // its sender may believe that it was applied
		s.cfg.Logger.Warn("an event came again that was given up", "event", it.event.Name(), "numbers", it.event.positionsText(), "err", o.Err)
	}
	if len(it.Copies) > 0 {
		defer s.tellCopies(it.Copies, o) // the first one's callback may end the goroutine
	}
	s.tellSource(it, o)
}

// tellCopies tells of copies of an event that has the outcome o.
func (s *Sequencer[T]) tellCopies(copies []*core.Event, o Outcome) {
	if o.Result == Applied {
		o.Result, o.Status = Duplicate, StatusApplied
	}
	next := 0
	defer func() {
		if next < len(copies) { // a callback has ended the goroutine, or panics
			s.tellCopies(copies[next:], o)
		}
	}()
	for next < len(copies) {
		next++
		s.tellSource(itemOf[T](copies[next-1]), o)
	}
}

// tellSource tells the source of an event its outcome. The item is given back.
func (s *Sequencer[T]) tellSource(it *item[T], o Outcome) {
	s.counts.add(o.Result)
	e, done := it.event, it.done
	offered := s.recycle(it)
	if done == nil {
		s.leave(offered)
		return
	}
	defer s.leave(offered)
	done(e, o)
}

// leave subtracts events that have their outcome from the open ones.
func (s *Sequencer[T]) leave(n int64) {
	if n > 0 && s.open.Add(-n) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drainedLocked()
	}
}

// outcome returns the outcome for the event's source.
func (it *item[T]) outcome() Outcome {
	o := Outcome{Err: it.Err, Status: it.status}
	switch it.Result {
	case core.Applied:
		o.Result, o.Reply = Applied, it.reply
	case core.Duplicate:
		o.Result, o.Reply = Duplicate, it.reply
	case core.GivenUp:
		o.Result = DeadLettered
	case core.Held, core.Recalled:
		o.Result = Held
	case core.Refused:
		o.Result = Refused
	case core.Failed:
		o.Result = Failed
	default:
		o.Result = Unfinished
	}
	return o
}

// deadLetter passes an event to Config.DeadLetter.
func (s *Sequencer[T]) deadLetter(e *Event, err error) {
	s.tellAlone(Notice{Kind: EventDeadLettered, Time: time.Now(), Event: e, Err: err})
	if s.cfg.DeadLetter == nil {
		return
	}
	if err := contain.Apart(func() error { return s.cfg.DeadLetter(s.background, e, err) }); err != nil {
		s.cfg.Logger.Error("dead letter was not taken", "event", e.Name(), "err", err)
	}
}

// tellAlone reports a notice on a goroutine of its own.
func (s *Sequencer[T]) tellAlone(n Notice) {
	if err := contain.Apart(func() error { s.tellOf(n); return nil }); err != nil {
		s.cfg.Logger.Error("callback failed", "err", err)
	}
}
