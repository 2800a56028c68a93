package ordering

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestSkipsAreBounded: a number that was spoiled on its way makes no good event a
// duplicate, by whichever way numbers are skipped.
func TestSkipsAreBounded(t *testing.T) {
	far := func(id string) *Event {
		return &Event{ID: id, Positions: []Position{{Stream: key("a"), Number: 1 << 46}}}
	}
	all := []Range{{Stream: key("a"), From: 1, To: 1<<46 - 1}}
	for name, cfg := range map[string]Config[*Event]{
		"policy Skip":           {GapPolicy: dispatcher.DeadLetter},
		"policy Park":           {},
		"a source that is sure": {Replayer: &archive{noSuch: all}, GapPolicy: dispatcher.DeadLetter},
		"a source, in parts":    {Replayer: &archive{noSuch: []Range{{Stream: key("a"), From: 3, To: 900}, {Stream: key("a"), From: 901, To: 1800}, {Stream: key("a"), From: 1801, To: 1 << 45}}}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.GapTimeout = time.Second
			story(t, cfg, func(t *testing.T, r *rig) {
				r.offer(ev("a1", "a=1"), far("far"), ev("a2", "a=2"))
				r.sleep(time.Minute)
				require.Len(t, r.parked(), 1)
				require.Equal(t, []Result{Held}, r.outcome("far"))
				state := known(t, r.store, "a=2000")
				assert.False(t, state.Done)
				require.ErrorIs(t, r.seq.Skip(t.Context(), key("a")), ErrTooFar)
				assert.False(t, known(t, r.store, "a=2000").Done)
				if name != "a source, in parts" { // where the first of them are believed
					r.offer(ev("a3", "a=3"))
					assert.Equal(t, "a3", r.ran()[2])
				}
				r.sleep(time.Minute)
				require.Len(t, r.parked(), 1)

				require.NoError(t, r.seq.Drop(t.Context(), key("a")))
				r.sleep(time.Minute)
				assert.Empty(t, r.parked())
				assert.False(t, known(t, r.store, "a=2000").Done)
				assert.Contains(t, r.kinds(), EventDeadLettered)
				assert.NotContains(t, r.ran(), "far")
			})
		})
	}
	story(t, Config[*Event]{GapTimeout: time.Second, MaxSkip: 5, GapPolicy: dispatcher.DeadLetter}, func(t *testing.T, r *rig) {
		t.Log("an operator may skip more, by saying up to where, and is told of it")
		r.offer(ev("a1", "a=1"), ev("a7", "a=7"), ev("a14", "a=14"))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a1", "a7"}, r.ran(), "2 to 6 are 5, 8 to 13 are 6")
		assert.ErrorContains(t, errors.New(r.parked()[0].Error), "MaxSkip")
		require.ErrorIs(t, r.seq.SkipTo(t.Context(), Position{Stream: key("a")}), ErrNumber)
		require.ErrorIs(t, r.seq.SkipTo(t.Context(), Position{Stream: key("a"), Number: MaxNumber + 1}), ErrNumber)
		require.NoError(t, r.seq.SkipTo(t.Context(), Position{Stream: key("a"), Number: 1000}))
		r.sleep(time.Minute)
		assert.Equal(t, []string{"a1", "a7", "a14"}, r.ran(), "what is held is not skipped")
		assert.Equal(t, StatusSkipped, job(t, r.store, "a=999").Status)
		r.offer(ev("a500", "a=500"))
		assert.Equal(t, []Result{Refused}, r.outcome("a500"))
	})
}

// TestHeldAndEarlyAreBoundedByBytes, however large events are.
func TestHeldAndEarlyAreBoundedByBytes(t *testing.T) {
	const mib = 1 << 20
	var most atomic.Int64 // bytes in one call
	store := &measured{Memory: NewMemory(), most: &most}
	cfg := Config[*Event]{MaxEarlyBytes: 16 * mib, GapTimeout: time.Second}
	storyOn(t, store, cfg, func(t *testing.T, r *rig) {
		r.failing("a1", errors.New("bad"))
		for n, e := range series("a", 1, 200) {
			if n > 0 {
				e.Payload = make([]byte, mib)
			}
			require.NoError(t, r.seq.Offer(t.Context(), e, r.done))
			assert.LessOrEqual(t, pendingBytes(r.seq), int64(20*mib), "the bound, and the few events that are on their way")
		}
		r.sleep(time.Second)
		require.Len(t, r.parked(), 1)
		assert.Empty(t, r.parked()[0].Events[0].Payload)
		r.failing("a1", nil)
		require.NoError(t, r.seq.Resume(t.Context(), key("a")))
		r.sleep(time.Minute)
		assert.Len(t, r.ran(), 200)
		assert.LessOrEqual(t, most.Load(), int64(5*mib))
	})
}

// measured is a store and its term, and notes how much is in one call.
type measured struct {
	*Memory
	Term
	most *atomic.Int64
}

// Begin makes the store its own term.
func (m *measured) Begin(ctx context.Context, c Consumer) (_ Term, err error) {
	m.Term, err = m.Memory.Begin(ctx, c)
	return m, err
}

// Commit is the term's.
func (m *measured) Commit(ctx context.Context, r Record) error { return m.Term.Commit(ctx, r) }

func (m *measured) note(events []*Event) {
	var size int64
	for _, e := range events {
		size += e.Size()
	}
	for old := m.most.Load(); size > old && !m.most.CompareAndSwap(old, size); old = m.most.Load() {
	}
}

func (m *measured) Hold(ctx context.Context, events []*Event, fences Fences) error {
	m.note(events)
	time.Sleep(10 * time.Millisecond)
	return m.Term.Hold(ctx, events, fences)
}

func (m *measured) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error) {
	page, err := m.Term.Held(ctx, stream, from, limit, size)
	var events []*Event
	for _, h := range page {
		events = append(events, h.Event)
	}
	m.note(events)
	return page, err
}

func TestNoNegativeNumberOfAttempts(t *testing.T) {
	_, err := New(t.Context(), Config[*Event]{
		Store: NewMemory(), Handler: func(context.Context, Job[*Event]) error { return nil },
		Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: -1},
	})
	require.ErrorIs(t, err, ErrConfig)
	require.ErrorContains(t, err, "Dispatcher.MaxAttempts is negative: -1")
}
