package ordering

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// heldPlace is the place of a held event on one of its streams.
type heldPlace struct {
	stream lockkeys.Key
	number uint64
	name   string
}

// less orders places by stream, then number, then name: contradictory events
// may have the same number.
func (p heldPlace) less(q heldPlace) bool {
	return cmp.Or(p.stream.Compare(q.stream), cmp.Compare(p.number, q.number), strings.Compare(p.name, q.name)) < 0
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
	for _, e := range events {
		if _, has := m.mu.held[e.Name()]; !has {
			m.holdLocked(HeldEvent{Event: e})
		}
	}
	return nil
}

// holdLocked holds an event in place of a copy from before.
func (m *Memory) holdLocked(h HeldEvent) {
	name := h.Name()
	m.forgetLocked(name)
	m.mu.held[name] = h
	for _, p := range h.Positions {
		m.mu.index.ReplaceOrInsert(heldPlace{p.Stream, p.Number, name})
	}
}

// forgetLocked forgets a held event, if there is one of this name.
func (m *Memory) forgetLocked(name string) {
	h, ok := m.mu.held[name]
	if !ok {
		return
	}
	delete(m.mu.held, name)
	for _, p := range h.Positions {
		m.mu.index.Delete(heldPlace{p.Stream, p.Number, name})
	}
}

// Held implements [Store].
func (m *Memory) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int) ([]HeldEvent, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var events []HeldEvent
	m.mu.index.AscendGreaterOrEqual(heldPlace{stream: stream, number: from}, func(p heldPlace) bool {
		if p.stream != stream || len(events) >= limit {
			return false
		}
		events = append(events, m.mu.held[p.name])
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
