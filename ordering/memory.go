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
		jobs     map[string]JobState
		parkings map[string]*memoryParking
		held     map[string]HeldEvent
		index    *btree.BTreeG[heldPlace] // of held: each event on each of its streams
	}
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{}
	m.mu.streams = map[lockkeys.Key]*memoryStream{}
	m.mu.jobs = map[string]JobState{}
	m.mu.parkings = map[string]*memoryParking{}
	m.mu.held = map[string]HeldEvent{}
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
	parking *memoryParking // that closes it, or nil
}

func (st *memoryStream) isDone(n uint64) bool { return n <= st.last || st.done.Contains(n) }

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

// Fence implements [Store].
func (m *Memory) Fence(ctx context.Context, stream lockkeys.Key) (int64, error) {
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if st := m.mu.streams[stream]; st != nil {
		return st.fence, nil
	}
	return 0, nil
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
	if len(r.Fences) != len(r.Event.Positions) {
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
	m.mu.jobs[r.JobState.Event] = r.JobState
	if r.Held {
		m.forgetLocked(r.Event.Name())
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
	st.setDone(s.From, s.To)
	job := s.JobState()
	m.mu.jobs[job.Event] = job
	return nil
}

var errRange = errors.New("no such range: it goes from 1 on, upwards")

// Job implements [Store].
func (m *Memory) Job(ctx context.Context, event string) (JobState, error) {
	if err := m.begin(ctx); err != nil {
		return JobState{}, err
	}
	defer m.mu.Unlock()
	job, ok := m.mu.jobs[event]
	if !ok {
		return JobState{}, fmt.Errorf("%w: %.80q", ErrNoJob, event)
	}
	return job, nil
}

// Prune implements [Store]. It looks at every job state there is.
func (m *Memory) Prune(ctx context.Context, before time.Time) (int64, error) {
	if err := m.begin(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	parked := m.parkedEventsLocked()
	had := len(m.mu.jobs)
	maps.DeleteFunc(m.mu.jobs, func(name string, job JobState) bool {
		return job.Ended.Before(before) && !(job.Status == Failed && parked[name])
	})
	return int64(had - len(m.mu.jobs)), nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	return nil
}
