package ordering

import (
	"cmp"
	"context"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// heldPlace is the place of a held event on one of its streams.
type heldPlace struct {
	stream lockkeys.Key
	number uint64
	id     int64
}

// less orders places by stream, then number, then age: contradictory events
// may have the same number.
func (p heldPlace) less(q heldPlace) bool {
	return cmp.Or(p.stream.Compare(q.stream), cmp.Compare(p.number, q.number), cmp.Compare(p.id, q.id)) < 0
}

// Hold implements [Store].
func (m *Memory) Hold(ctx context.Context, events []*Event, fences Fences) error {
	if slices.Contains(events, nil) {
		return ErrNilEvent
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, e := range events {
		for _, p := range e.Positions {
			if _, err := m.heldByLocked(fences[p.Stream], p.Stream); err != nil {
				return err
			}
		}
	}
	last := m.mu.lastHeld
	for _, e := range events {
		id := m.heldLocked(e.Positions)
		if id == 0 {
			m.holdLocked(HeldEvent{Event: e})
		} else if held := m.mu.held[id].Event; !held.IsCopy(e) {
			for ; m.mu.lastHeld > last; m.mu.lastHeld-- { // none of them
				m.forgetLocked(m.mu.held[m.mu.lastHeld].Positions)
			}
			return conflict(e, held)
		}
	}
	return nil
}

// heldLocked returns the key of the held event with these numbers, 0 for none.
func (m *Memory) heldLocked(positions []Position) (id int64) {
	at := positions[0]
	m.mu.index.AscendGreaterOrEqual(heldPlace{stream: at.Stream, number: at.Number}, func(p heldPlace) bool {
		if p.stream != at.Stream || p.number != at.Number {
			return false
		}
		if SameNumbers(m.mu.held[p.id].Positions, positions) {
			id = p.id
		}
		return id == 0
	})
	return id
}

func (m *Memory) holdLocked(h HeldEvent) {
	m.mu.lastHeld++
	m.mu.held[m.mu.lastHeld] = h
	for _, p := range h.Positions {
		m.mu.index.ReplaceOrInsert(heldPlace{p.Stream, p.Number, m.mu.lastHeld})
	}
}

// forgetLocked forgets the held event with these numbers, if there is one.
func (m *Memory) forgetLocked(positions []Position) {
	id := m.heldLocked(positions)
	if id == 0 {
		return
	}
	delete(m.mu.held, id)
	for _, p := range positions {
		m.mu.index.Delete(heldPlace{p.Stream, p.Number, id})
	}
}

// Forget implements [Store].
func (m *Memory) Forget(ctx context.Context, e *Event, fences Fences) error {
	if e == nil {
		return ErrNilEvent
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, p := range e.Positions {
		if _, err := m.heldByLocked(fences[p.Stream], p.Stream); err != nil {
			return err
		}
	}
	m.forgetLocked(e.Positions)
	return nil
}

// Held implements [Store].
func (m *Memory) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var events []HeldEvent
	m.mu.index.AscendGreaterOrEqual(heldPlace{stream: stream, number: from}, func(p heldPlace) bool {
		h := m.mu.held[p.id]
		if p.stream != stream || len(events) >= limit {
			return false
		}
		if size -= h.Size(); size < 0 && len(events) > 0 {
			return false
		}
		events = append(events, h)
		return true
	})
	return events, nil
}

// firstHeldLocked returns the number of the first event held of a stream, or 0.
func (m *Memory) firstHeldLocked(stream lockkeys.Key) (number uint64) {
	m.mu.index.AscendGreaterOrEqual(heldPlace{stream: stream}, func(p heldPlace) bool {
		if p.stream == stream {
			number = p.number
		}
		return false
	})
	return number
}

// Backlog implements [Store].
func (m *Memory) Backlog(ctx context.Context) ([]lockkeys.Key, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var streams []lockkeys.Key
	m.mu.index.Ascend(func(p heldPlace) bool {
		st := m.mu.streams[p.stream]
		open := st == nil || st.parking == nil
		if open && (len(streams) == 0 || streams[len(streams)-1] != p.stream) {
			streams = append(streams, p.stream)
		}
		return true
	})
	return streams, nil
}
