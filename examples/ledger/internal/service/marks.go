package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// marks follow the messages that the ledger numbers, to save a checkpoint once all
// before it have ended.
//
// Invariant: a checkpoint is saved after the outcomes of all messages before it have
// come, and an outcome is durable. So it is never ahead of what was done.
type marks struct {
	saving sync.WaitGroup
	mu     struct {
		sync.Mutex
		stretches []*stretch        // from one mark to the next, up to the present one
		next      *store.Checkpoint // to be saved
		busy      bool              // one is being saved
		err       error             // of the first that could not be saved
	}
}

// stretch is the messages between two marks.
type stretch struct {
	unfinished int
	end        *store.Checkpoint // nil if more messages are to come
}

// Mark says where the input goes on behind the message that was submitted last: a
// place and its line. Once all messages up to there have ended that is kept, so that
// a later run can pass over them.
func (s *Service) Mark(line int, place []byte) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	numbers, err := s.turn.numbering.Save()
	if err != nil {
		return err
	}
	m := &s.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stretchLocked().end = &store.Checkpoint{
		Messages: int64(s.turn.numbering.Messages()), Line: line, Place: place, Numbers: numbers,
	}
	s.saveLocked()
	return nil
}

// PassOver says that all messages before a checkpoint were done, and are not
// submitted. It is called before the first one is.
func (s *Service) PassOver(c *store.Checkpoint) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.number(c); err != nil {
		return err
	}
	s.counts.before.Add(c.Messages)
	return nil
}

// follow counts a message, and returns what is to be called with its outcome.
func (s *Service) follow(done ordering.Done) ordering.Done {
	m := &s.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	part := m.stretchLocked()
	part.unfinished++
	return func(e *ordering.Event, o ordering.Outcome) {
		done(e, o)
		if o.Result != ordering.Applied && o.Result != ordering.Duplicate {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if part.unfinished--; part.unfinished == 0 {
			s.saveLocked()
		}
	}
}

// stretchLocked returns the present stretch.
func (m *marks) stretchLocked() *stretch {
	n := len(m.mu.stretches)
	if n == 0 || m.mu.stretches[n-1].end != nil {
		m.mu.stretches = append(m.mu.stretches, &stretch{})
		n++
	}
	return m.mu.stretches[n-1]
}

// saveLocked saves the last checkpoint before which all have ended, if it is new.
func (s *Service) saveLocked() {
	m := &s.marks
	for len(m.mu.stretches) > 0 && m.mu.stretches[0].end != nil && m.mu.stretches[0].unfinished == 0 {
		m.mu.next = m.mu.stretches[0].end
		m.mu.stretches = m.mu.stretches[1:]
	}
	if m.mu.next != nil && !m.mu.busy && m.mu.err == nil {
		m.mu.busy = true
		m.saving.Go(s.save)
	}
}

// save saves checkpoints while there are any.
func (s *Service) save() {
	m := &s.marks
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.mu.next != nil && m.mu.err == nil {
		c := m.mu.next
		m.mu.next = nil
		m.mu.Unlock()
		err := s.cfg.Store.SaveCheckpoint(context.Background(), s.cfg.Input(), c)
		m.mu.Lock()
		m.mu.err = err
	}
	m.mu.busy = false
}

// saved waits for the checkpoints, when there are no more outcomes to come, and
// returns why one could not be saved. When another program has the database that is
// no loss: it has read the last one.
func (s *Service) saved() error {
	m := &s.marks
	m.saving.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.err == nil || errors.Is(m.mu.err, ordering.ErrFenced) {
		return nil
	}
	return fmt.Errorf("what is done could not be noted, so that the next run reads it again: %w", m.mu.err)
}
