package store

import (
	"context"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
)

// Memory is a store that ends with the program.
type Memory struct {
	*Tables
	numbers *ordering.Memory
	mu      struct {
		sync.Mutex
		inputs []Input
	}
}

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{Tables: NewTables(), numbers: ordering.NewMemory()} }

// Numbers implements [Store].
func (s *Memory) Numbers() ordering.Store { return s.numbers }

// Commit implements [Store]. The numbers are committed under the lock of the
// tables, so nobody sees the one without the other.
func (s *Memory) Commit(ctx context.Context, job ordering.Job, c *book.Changes) error {
	s.Tables.mu.Lock()
	defer s.Tables.mu.Unlock()
	if err := s.numbers.Commit(ctx, job.Record()); err != nil {
		return err
	}
	job.Committed()
	s.applyLocked(c)
	return nil
}

// Inputs implements [Store].
func (s *Memory) Inputs(context.Context) ([]Input, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.inputs), nil
}

// SaveInput implements [Store].
func (s *Memory) SaveInput(_ context.Context, in Input) (Input, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.ID == 0 {
		in.ID = int64(len(s.mu.inputs) + 1)
		s.mu.inputs = append(s.mu.inputs, in)
	}
	s.mu.inputs[in.ID-1] = in
	return in, nil
}

// Stats implements [Store]. Every message is a commit of its own.
func (s *Memory) Stats() Stats {
	s.Tables.mu.RLock()
	defer s.Tables.mu.RUnlock()
	n := s.Tables.mu.journal
	return Stats{Commits: n, Messages: n}
}

// Name implements [Store].
func (s *Memory) Name() string { return "memory" }

// Close implements [Store].
func (s *Memory) Close() error { return s.numbers.Close() }
