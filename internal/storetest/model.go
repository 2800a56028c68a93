package storetest

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// model is what a store is, without a thought of speed.
type model struct {
	done     map[lockkeys.Key]map[uint64]bool
	ended    map[lockkeys.Key]uint64
	jobs     map[string]ordering.JobState
	held     map[string]ordering.HeldEvent
	parkings map[string]ordering.Parking
}

func newModel() *model {
	return &model{map[lockkeys.Key]map[uint64]bool{}, map[lockkeys.Key]uint64{}, map[string]ordering.JobState{},
		map[string]ordering.HeldEvent{}, map[string]ordering.Parking{}}
}

// state is a stream's state but for its token.
func (m *model) state(key lockkeys.Key) (s state) {
	for m.done[key][s.Last+1] {
		s.Last++
	}
	for _, n := range slices.Sorted(maps.Keys(m.done[key])) {
		if n > s.Last {
			s.Done = s.Done.Add(ordering.Span{From: n, To: n})
		}
	}
	s.Ended = m.ended[key]
	for _, p := range m.parkings {
		for _, position := range p.Streams {
			if position.Stream == key {
				s.Parked, s.HeldAt = p.ID, position.Number
			}
		}
	}
	if held := m.heldOf(key, 0, 1); len(held) > 0 {
		if n, _ := held[0].On(key); s.HeldAt == 0 || n < s.HeldAt {
			s.HeldAt = n
		}
	}
	return s
}

func (m *model) setDone(key lockkeys.Key, n uint64) {
	if m.done[key] == nil {
		m.done[key] = map[uint64]bool{}
	}
	m.done[key][n] = true
}

func (m *model) isDuplicate(e *ordering.Event) bool {
	return slices.ContainsFunc(e.Positions, func(p ordering.Position) bool { return m.done[p.Stream][p.Number] })
}

func (m *model) commit(r ordering.Record) {
	for _, p := range r.Event.Positions {
		m.setDone(p.Stream, p.Number)
		if p.End {
			m.ended[p.Stream] = p.Number
		}
	}
	m.jobs[r.JobState.Event] = r.JobState
	if r.Held {
		delete(m.held, r.Event.Name())
	}
}

func (m *model) skip(s ordering.Skipped) {
	for n := s.From; n <= s.To; n++ {
		m.setDone(s.Stream, n)
	}
	m.jobs[s.JobState().Event] = s.JobState()
}

func (m *model) hold(events []*ordering.Event) {
	for _, e := range events {
		if _, has := m.held[e.Name()]; !has {
			m.held[e.Name()] = ordering.HeldEvent{Event: e}
		}
	}
}

func (m *model) heldOf(key lockkeys.Key, from uint64, limit int) (events []ordering.HeldEvent) {
	for _, h := range m.held {
		if n, ok := h.On(key); ok && n >= from {
			events = append(events, h)
		}
	}
	slices.SortFunc(events, func(a, b ordering.HeldEvent) int {
		m, _ := a.On(key)
		n, _ := b.On(key)
		return cmp.Or(cmp.Compare(m, n), strings.Compare(a.Name(), b.Name()))
	})
	return events[:min(limit, len(events))]
}

func (m *model) park(p ordering.Parking) {
	delete(m.parkings, p.ID)
	for id, other := range m.parkings {
		other.Streams = slices.DeleteFunc(slices.Clone(other.Streams), func(have ordering.Position) bool {
			return slices.ContainsFunc(p.Streams, func(taken ordering.Position) bool { return taken.Stream == have.Stream })
		})
		if m.parkings[id] = other; len(other.Streams) == 0 {
			delete(m.parkings, id)
		}
	}
	m.parkings[p.ID] = p
	for _, h := range p.Events {
		m.held[h.Name()] = h
		if p.Error != "" {
			m.jobs[h.Name()] = ordering.JobState{Event: h.Name(), Positions: h.Positions, Status: ordering.Failed,
				Attempts: h.Attempts, Error: p.Error, Started: h.Started, Ended: p.Since}
		}
	}
}

func (m *model) parked() []ordering.Parking {
	return slices.SortedFunc(maps.Values(m.parkings), func(a, b ordering.Parking) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
}

func (m *model) backlog() (streams []string) {
	all := map[lockkeys.Key]bool{}
	for _, h := range m.held {
		for _, p := range h.Positions {
			all[p.Stream] = m.state(p.Stream).Parked == ""
		}
	}
	for key, open := range all {
		if open {
			streams = append(streams, key.String())
		}
	}
	return streams
}

func (m *model) prune(before time.Time) (n int64) {
	for name, job := range m.jobs {
		if job.Ended.Before(before) && !m.isParked(job) {
			delete(m.jobs, name)
			n++
		}
	}
	return n
}

func (m *model) isParked(job ordering.JobState) bool {
	for _, p := range m.parkings {
		for _, h := range p.Events {
			if job.Status == ordering.Failed && h.Name() == job.Event {
				return true
			}
		}
	}
	return false
}
