package ordering

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// memoryParking is a [Parking] with its streams in a map.
//
// Invariant: it has at least one stream, and is the parking of each of them.
type memoryParking struct {
	Parking // but for Streams
	streams map[lockkeys.Key]uint64
}

func (p *memoryParking) public() Parking {
	public := p.Parking
	public.Events = slices.Clone(p.Events)
	for _, key := range slices.SortedFunc(maps.Keys(p.streams), lockkeys.Key.Compare) {
		public.Streams = append(public.Streams, Position{Stream: key, Number: p.streams[key]})
	}
	return public
}

// Park implements [Store].
func (m *Memory) Park(ctx context.Context, p Parking, fences Fences) error {
	if len(p.Streams) == 0 {
		return fmt.Errorf("ordering: parking %q closes no stream", p.ID)
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, position := range p.Streams {
		if _, err := m.heldByLocked(fences[position.Stream], position.Stream); err != nil {
			return err
		}
	}
	m.unparkLocked(p.ID)
	parking := &memoryParking{Parking: p, streams: make(map[lockkeys.Key]uint64, len(p.Streams))}
	parking.Streams, parking.Events = nil, make([]HeldEvent, len(p.Events))
	for i, h := range p.Events {
		parking.Events[i] = h.AsOutline()
	}
	m.mu.parkings[p.ID] = parking
	for _, position := range p.Streams {
		st := m.streamLocked(position.Stream)
		if other := st.parking; other != nil && other != parking {
			delete(other.streams, position.Stream)
			if len(other.streams) == 0 {
				delete(m.mu.parkings, other.ID)
			}
		}
		st.parking = parking
		parking.streams[position.Stream] = position.Number
	}
	for _, h := range p.Events {
		if id := m.heldLocked(h.Positions); id > 0 {
			m.mu.held[id] = HeldEvent{Event: m.mu.held[id].Event, Attempts: h.Attempts, Started: h.Started}
		} else if !h.Outline {
			m.holdLocked(h)
		}
		at := firstOf(h.Positions)
		if job, ok := m.mu.jobs[at.place()]; p.Error != "" && (!ok || job.Status == Failed) {
			m.mu.jobs[at.place()] = h.Failed(&p)
		}
	}
	return nil
}

// Unpark implements [Store].
func (m *Memory) Unpark(ctx context.Context, id string, fences Fences) error {
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for key, fence := range fences {
		if _, err := m.heldByLocked(fence, key); err != nil {
			return err
		}
	}
	if p := m.mu.parkings[id]; p != nil {
		for key := range p.streams {
			if _, err := m.heldByLocked(fences[key], key); err != nil {
				return err
			}
		}
	}
	m.unparkLocked(id)
	return nil
}

func (m *Memory) unparkLocked(id string) {
	p := m.mu.parkings[id]
	if p == nil {
		return
	}
	for key := range p.streams {
		m.mu.streams[key].parking = nil
	}
	delete(m.mu.parkings, id)
}

// Parked implements [Store].
func (m *Memory) Parked(ctx context.Context, ids ...string) ([]Parking, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	var list []Parking
	if len(ids) == 0 {
		ids = slices.Collect(maps.Keys(m.mu.parkings))
	}
	for _, id := range ids {
		if p := m.mu.parkings[id]; p != nil {
			list = append(list, p.public())
		}
	}
	slices.SortFunc(list, func(a, b Parking) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	return list, nil
}

// parkedEventsLocked returns the places of job states of the events of all
// parkings.
func (m *Memory) parkedEventsLocked() map[place]bool {
	places := map[place]bool{}
	for _, p := range m.mu.parkings {
		for _, h := range p.Events {
			places[firstOf(h.Positions).place()] = true
		}
	}
	return places
}
