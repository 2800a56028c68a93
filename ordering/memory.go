package ordering

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/btree"

	"github.com/interlock-go/interlock/lockkeys"
)

// Memory is a [Store] that ends with the process: for tests, to start with,
// and where the source sends everything again after a restart. It remembers
// every stream, and every job state that was not pruned. Its methods never
// wait for anything but each other.
type Memory struct {
	mu struct {
		sync.Mutex
		closed   bool
		streams  map[lockkeys.Key]*memoryStream
		jobs     map[place]JobState // by the first number that the event made done, or failed with
		skips    map[lockkeys.Key][]Skipped
		parkings map[string]*memoryParking
		held     map[int64]HeldEvent
		lastHeld int64                    // the largest key of held so far
		index    *btree.BTreeG[heldPlace] // of held: each event on each of its streams
	}
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.streams = map[lockkeys.Key]*memoryStream{}
	m.mu.jobs = map[place]JobState{}
	m.mu.skips = map[lockkeys.Key][]Skipped{}
	m.mu.parkings = map[string]*memoryParking{}
	m.mu.held = map[int64]HeldEvent{}
	m.mu.index = btree.NewG(32, heldPlace.less)
	return m
}

// memoryStream is what the store knows of a stream.
//
// Invariant: the numbers in done are above last+1.
type memoryStream struct {
	fence   int64
	last    uint64
	done    Spans
	ended   uint64
	pruned  uint64         // the largest number of which a job state was pruned
	parking *memoryParking // that closes it, or nil
}

func (st *memoryStream) isDone(n uint64) bool { return n <= st.last || st.done.Contains(n) }

// isNotDone returns the parts of r that are not done.
func (st *memoryStream) isNotDone(r Span) []Span {
	if r.From = max(r.From, st.last+1); r.From > r.To {
		return nil
	}
	return st.done.Without(r)
}

func (st *memoryStream) setDone(from, to uint64) {
	if from > st.last+1 {
		st.done = st.done.Add(Span{from, to})
		return
	}
	var next uint64
	next, st.done = st.done.Absorb(max(st.last, to) + 1)
	st.last = next - 1
}

// begin locks the store, if it may be used.
func (m *Memory) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		return ErrStoreClosed
	}
	return nil
}

func (m *Memory) streamLocked(key lockkeys.Key) *memoryStream {
	st := m.mu.streams[key]
	if st == nil {
		st = &memoryStream{}
		m.mu.streams[key] = st
	}
	return st
}

// heldByLocked returns a stream for a writer who has its token.
func (m *Memory) heldByLocked(fence int64, key lockkeys.Key) (*memoryStream, error) {
	st := m.mu.streams[key]
	if st == nil || st.fence != fence || fence == 0 {
		return nil, fmt.Errorf("%w: stream %s, token %d", ErrFenced, key, fence)
	}
	return st, nil
}

// place is a number of a stream.
type place struct {
	stream lockkeys.Key
	number uint64
}

func (p Position) place() place { return place{p.Stream, p.Number} }

// Look implements [Store].
func (m *Memory) Look(ctx context.Context, positions []Position) ([]NumberState, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	states := make([]NumberState, len(positions))
	for i, p := range positions {
		if st := m.mu.streams[p.Stream]; st != nil {
			states[i] = NumberState{Fence: st.fence, Done: st.isDone(p.Number), Pruned: p.Number <= st.pruned}
		}
		states[i].Job = m.jobLocked(p, states[i].Done)
	}
	return states, nil
}

// jobLocked returns the job state of a number. If that is done, it is not the one
// of an event that had failed.
func (m *Memory) jobLocked(p Position, done bool) *JobState {
	if job, ok := m.mu.jobs[p.place()]; ok && !(done && job.Status == Failed) {
		return &job
	}
	for _, s := range m.mu.skips[p.Stream] {
		if s.From <= p.Number && p.Number <= s.To {
			job := s.JobState()
			return &job
		}
	}
	return nil
}

// Acquire implements [Store].
func (m *Memory) Acquire(ctx context.Context, streams []lockkeys.Key) ([]StreamState, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	states := make([]StreamState, len(streams))
	for i, key := range streams {
		st := m.streamLocked(key)
		st.fence++
		state := StreamState{Last: st.last, Done: slices.Clone(st.done), Fence: st.fence, Ended: st.ended, HeldAt: m.firstHeldLocked(key)}
		if p := st.parking; p != nil {
			state.Parked = p.ID
			if at := p.streams[key]; state.HeldAt == 0 || at < state.HeldAt {
				state.HeldAt = at
			}
		}
		states[i] = state
	}
	return states, nil
}

// Commit implements [Store].
func (m *Memory) Commit(ctx context.Context, r Record) error {
	if r.Event == nil {
		return ErrNilEvent
	}
	if len(r.Fences) != len(r.Event.Positions) || len(r.Fences) == 0 {
		return fmt.Errorf("ordering: commit of %.80q: %d tokens for %d positions", r.Event.Name(), len(r.Fences), len(r.Event.Positions))
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for i, p := range r.Event.Positions {
		st, err := m.heldByLocked(r.Fences[i], p.Stream)
		if err != nil {
			return err
		}
		if st.isDone(p.Number) {
			return fmt.Errorf("%w: %s", ErrDuplicate, p)
		}
	}
	for _, p := range r.Event.Positions {
		st := m.mu.streams[p.Stream]
		st.setDone(p.Number, p.Number)
		if p.End {
			st.ended = p.Number
		}
	}
	m.mu.jobs[firstOf(r.Event.Positions).place()] = r.JobState
	if r.Held {
		m.forgetLocked(r.JobState.Positions)
	}
	return nil
}

// Skip implements [Store].
func (m *Memory) Skip(ctx context.Context, s Skipped) error {
	if s.From == 0 || s.From > s.To || s.To > MaxNumber {
		return fmt.Errorf("ordering: skip of stream %s, numbers %d to %d: %w", s.Stream, s.From, s.To, errRange)
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	st, err := m.heldByLocked(s.Fence, s.Stream)
	if err != nil {
		return err
	}
	for _, part := range st.isNotDone(Span{s.From, s.To}) {
		s.From, s.To = part.From, part.To
		m.mu.skips[s.Stream] = append(m.mu.skips[s.Stream], s)
		st.setDone(part.From, part.To)
	}
	return nil
}

var errRange = errors.New("no such range: it goes from 1 on, upwards")

// Prune implements [Store]. It looks at every job state there is.
func (m *Memory) Prune(ctx context.Context, before time.Time) (int64, error) {
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	parked := m.parkedEventsLocked()
	n := 0
	prune := func(p Position) {
		st := m.streamLocked(p.Stream)
		st.pruned = max(st.pruned, p.Number)
	}
	maps.DeleteFunc(m.mu.jobs, func(at place, job JobState) bool {
		if !job.Ended.Before(before) || job.Status == Failed && parked[at] {
			return false
		}
		if job.Status != Failed { // which has made nothing done
			for _, p := range job.Positions {
				prune(p)
			}
		}
		n++
		return true
	})
	for stream, skips := range m.mu.skips {
		m.mu.skips[stream] = slices.DeleteFunc(skips, func(s Skipped) bool {
			if !s.Time.Before(before) {
				return false
			}
			prune(Position{Stream: stream, Number: s.To})
			n++
			return true
		})
	}
	return int64(n), nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	return nil
}
