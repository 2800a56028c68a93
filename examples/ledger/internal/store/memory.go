package store

import (
	"context"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/ordering"
)

// Memory is a store that ends with the program.
type Memory struct {
	*Tables
	numbers *ordering.Memory
	mu      struct {
		sync.Mutex
		inputs  []Input
		digests map[[2]int64][]byte // by input and block
		places  map[int64]*Checkpoint
	}
	// ended is guarded by the lock of the tables.
	ended struct {
		refusals []Refusal
		known    map[string]*Known
	}
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	s := &Memory{Tables: NewTables(), numbers: ordering.NewMemory()}
	s.mu.digests = map[[2]int64][]byte{}
	s.mu.places = map[int64]*Checkpoint{}
	s.ended.known = map[string]*Known{}
	return s
}

// Numbers implements [Store].
func (s *Memory) Numbers() ordering.Store { return s.numbers }

// Commit implements [Store]. The numbers are committed under the lock of the
// tables, so nobody sees the one without the other.
func (s *Memory) Commit(ctx context.Context, job ordering.Commitment, r Result) error {
	s.Tables.mu.Lock()
	defer s.Tables.mu.Unlock()
	if err := s.numbers.Commit(ctx, job.Record()); err != nil {
		return err
	}
	job.Committed()
	if r.Changes != nil {
		s.applyLocked(r.Changes)
	}
	if r.Refusal != nil {
		s.ended.refusals = append(s.ended.refusals, *r.Refusal)
	}
	if r.Known != nil {
		s.ended.known[r.Known.ID] = r.Known
	}
	return nil
}

// Known implements [Store].
func (s *Memory) Known(_ context.Context, id string) (*Known, error) {
	s.Tables.mu.RLock()
	defer s.Tables.mu.RUnlock()
	return s.ended.known[id], nil
}

// Refuse implements [Store].
func (s *Memory) Refuse(_ context.Context, r Refusal) error {
	s.Tables.mu.Lock()
	defer s.Tables.mu.Unlock()
	s.ended.refusals = append(s.ended.refusals, r)
	return nil
}

// Refusals implements [Store].
func (s *Memory) Refusals(_ context.Context, input int64, use func(Refusal) error) error {
	s.Tables.mu.RLock()
	all := slices.Clone(s.ended.refusals)
	s.Tables.mu.RUnlock()
	for i, r := range all {
		if r.Entry = int64(i + 1); r.Input == input {
			if err := use(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// Inputs implements [Inputs].
func (s *Memory) Inputs(context.Context) ([]Input, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.inputs), nil
}

// SaveInput implements [Inputs].
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

// Digests implements [Inputs].
func (s *Memory) Digests(_ context.Context, input, block int64) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.digests[[2]int64{input, block}], nil
}

// SaveDigests implements [Inputs].
func (s *Memory) SaveDigests(_ context.Context, input, block int64, digests []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.digests[[2]int64{input, block}] = slices.Clone(digests)
	return nil
}

// Checkpoint implements [Checkpoints].
func (s *Memory) Checkpoint(_ context.Context, input int64) (*Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.places[input], nil
}

// SaveCheckpoint implements [Checkpoints].
func (s *Memory) SaveCheckpoint(_ context.Context, input int64, c *Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.places[input] = c
	return nil
}

// Last implements [Store].
func (s *Memory) Last(context.Context) (journal, refusal int64, err error) {
	s.Tables.mu.RLock()
	defer s.Tables.mu.RUnlock()
	return s.Tables.mu.journal, int64(len(s.ended.refusals)), nil
}

// Holds implements [Store].
func (s *Memory) Holds(context.Context) error { return nil }

// Stats implements [Store]. Every message is a commit of its own.
func (s *Memory) Stats() Stats {
	s.Tables.mu.RLock()
	defer s.Tables.mu.RUnlock()
	n := s.Tables.mu.journal + int64(len(s.ended.refusals))
	return Stats{Commits: n, Messages: n}
}

// Name implements [Store].
func (s *Memory) Name() string { return "memory" }

// Close implements [Store].
func (s *Memory) Close() error { return s.numbers.Close() }
