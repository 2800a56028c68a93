package ordering

import (
	"runtime/debug"

	"github.com/interlock-go/interlock/dispatcher"
)

// after is who is to be called once the mutex is free.
type after struct {
	ended   []*task // to be told of their outcomes, and recycled
	notices []Notice
}

// do calls them, on a goroutine that it is no loss to end: a callback may
// panic or call runtime.Goexit, and the others are called all the same.
func (s *Sequencer) do(a *after) {
	if len(a.ended)+len(a.notices) == 0 {
		return
	}
	s.call(*a) // a copy, so that the caller's stays on its stack
	*a = after{}
}

func (s *Sequencer) call(a after) {
	for len(a.ended)+len(a.notices) > 0 {
		err := contain(func() error {
			s.callAll(&a)
			return nil
		})
		if err != nil {
			s.cfg.Logger.Error("callback failed", "err", err)
		}
	}
}

func (s *Sequencer) callAll(a *after) {
	for len(a.ended) > 0 {
		t := a.ended[0]
		a.ended = a.ended[1:]
		s.tell(t)
	}
	for len(a.notices) > 0 {
		n := a.notices[0]
		a.notices = a.notices[1:]
		s.notify(n)
	}
}

// tell tells a task's source what became of it, and those of its copies.
func (s *Sequencer) tell(t *task) {
	defer func() { // also behind a callback that ends the goroutine
		if t.told <= len(t.joined) {
			s.tell(t)
		} else {
			s.told(t)
		}
	}()
	for t.told <= len(t.joined) {
		e, done, o := t.event, t.done, t.outcome
		if t.told > 0 {
			e, done = t.joined[t.told-1].event, t.joined[t.told-1].done
			if o.Result == Applied {
				o.Result = Duplicate
			}
		}
		t.told++
		s.counts.add(o.Result)
		if done != nil {
			done(e, o)
		}
	}
}

// told forgets a task of which all is told.
func (s *Sequencer) told(t *task) {
	told := t.told
	s.recycle(t)
	if s.open.Add(-int64(told)) == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.drainedLocked()
	}
}

// contain calls f on a goroutine of its own, so that what f does to its
// goroutine, a panic or runtime.Goexit, is an error for the caller.
func contain(f func() error) error {
	result := make(chan error, 1)
	go func() {
		err := dispatcher.ErrGoexit
		defer func() {
			if v := recover(); v != nil {
				err = &dispatcher.PanicError{Value: v, Stack: debug.Stack()}
			}
			result <- err
		}()
		err = f()
	}()
	return <-result
}
