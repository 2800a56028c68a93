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
	jobs     map[place]*ordering.JobState // by the first number that the event made done, or failed with
	skips    map[place]*ordering.JobState // by each number
	pruned   map[lockkeys.Key]uint64
	held     []ordering.HeldEvent // as they came
	parkings map[string]ordering.Parking
}

// place is a number of a stream.
type place struct {
	stream lockkeys.Key
	number uint64
}

func placeOf(p ordering.Position) place { return place{p.Stream, p.Number} }

func firstOf(positions []ordering.Position) place {
	return placeOf(slices.MinFunc(positions, func(p, q ordering.Position) int { return strings.Compare(p.Stream.String(), q.Stream.String()) }))
}

func newModel() *model {
	return &model{map[lockkeys.Key]map[uint64]bool{}, map[lockkeys.Key]uint64{}, map[place]*ordering.JobState{}, map[place]*ordering.JobState{}, map[lockkeys.Key]uint64{},
		nil, map[string]ordering.Parking{}}
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
	m.jobs[firstOf(r.Event.Positions)] = &r.JobState
	if r.Held {
		m.forget(r.Event)
	}
}

func (m *model) forget(e *ordering.Event) {
	if i := m.heldAs(e); i >= 0 {
		m.held = slices.Delete(slices.Clone(m.held), i, i+1)
	}
}

// heldAs is where the event is that is held with the numbers of e, or -1.
func (m *model) heldAs(e *ordering.Event) int {
	return slices.IndexFunc(m.held, func(h ordering.HeldEvent) bool { return ordering.SameNumbers(h.Positions, e.Positions) })
}

func (m *model) skip(s ordering.Skipped) {
	for from := s.From; from <= s.To; from++ {
		if m.done[s.Stream][from] {
			continue
		}
		part := s
		part.From = from
		for part.To = from; part.To < s.To && !m.done[s.Stream][part.To+1]; part.To++ {
		}
		job := part.JobState()
		for n := part.From; n <= part.To; n++ {
			m.setDone(s.Stream, n)
			m.skips[place{s.Stream, n}] = &job
		}
	}
}

// hold holds events, all or none: it returns false for another event with the
// numbers of one.
func (m *model) hold(events []*ordering.Event) bool {
	before := m.held
	for _, e := range events {
		i := m.heldAs(e)
		if i < 0 {
			m.held = append(m.held[:len(m.held):len(m.held)], ordering.HeldEvent{Event: e})
		} else if !m.held[i].IsCopy(e) {
			m.held = before
			return false
		}
	}
	return true
}

func (m *model) heldOf(key lockkeys.Key, from uint64, limit int) (events []ordering.HeldEvent) {
	for _, h := range m.held {
		if n, ok := h.On(key); ok && n >= from {
			events = append(events, h)
		}
	}
	slices.SortStableFunc(events, func(a, b ordering.HeldEvent) int {
		m, _ := a.On(key)
		n, _ := b.On(key)
		return cmp.Compare(m, n)
	})
	return events[:min(limit, len(events))]
}

// look is what is known of numbers but for the tokens.
func (m *model) look(positions []ordering.Position) []ordering.NumberState {
	states := make([]ordering.NumberState, len(positions))
	for i, p := range positions {
		states[i].Done = m.done[p.Stream][p.Number]
		states[i].Pruned = p.Number <= m.pruned[p.Stream]
		if job := m.jobs[placeOf(p)]; job != nil && !(states[i].Done && job.Status == ordering.Failed) {
			states[i].Job = job
		} else if skip := m.skips[placeOf(p)]; skip != nil {
			states[i].Job = skip
		}
	}
	return states
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
	m.parkings[p.ID] = listed(p)[0]
	for _, h := range p.Events {
		if i := m.heldAs(h.Event); i >= 0 {
			m.held = slices.Clone(m.held)
			m.held[i] = ordering.HeldEvent{Event: m.held[i].Event, Attempts: h.Attempts, Started: h.Started}
		} else {
			m.held = append(m.held, h)
		}
		at := firstOf(h.Positions)
		if job := m.jobs[at]; p.Error != "" && (job == nil || job.Status == ordering.Failed) {
			m.jobs[at] = &ordering.JobState{Event: h.Name(), Positions: h.Positions, Status: ordering.Failed,
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

func (m *model) prune(before time.Time) int64 {
	pruned := map[*ordering.JobState]bool{}
	for _, jobs := range []map[place]*ordering.JobState{m.jobs, m.skips} {
		for at, job := range jobs {
			if job.Ended.Before(before) && !(job.Status == ordering.Failed && m.isParked(at)) {
				delete(jobs, at)
				pruned[job] = true
				for _, p := range job.Positions {
					if job.Status == ordering.Failed {
						break
					}
					m.pruned[p.Stream] = max(m.pruned[p.Stream], p.Number)
				}
			}
		}
	}
	return int64(len(pruned))
}

func (m *model) isParked(at place) bool {
	for _, p := range m.parkings {
		for _, h := range p.Events {
			if firstOf(h.Positions) == at {
				return true
			}
		}
	}
	return false
}
