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

// model does what a store does, as simply as possible.
type model struct {
	done     map[lockkeys.Key]ordering.Spans
	ended    map[lockkeys.Key]uint64
	jobs     map[place]*ordering.JobState // by the first number that the event made done, or failed with
	skips    []ordering.Skipped
	pruned   map[lockkeys.Key]uint64
	held     []ordering.HeldEvent // as they came
	parkings map[string]ordering.Parking
}

// place is a place of a stream, see [ordering.Position.Place].
type place struct {
	stream lockkeys.Key
	number uint64
}

func placeOf(p ordering.Position) place { return place{p.Stream, p.Place()} }

func firstOf(positions []ordering.Position) place {
	return placeOf(slices.MinFunc(positions, func(p, q ordering.Position) int { return strings.Compare(p.Stream.String(), q.Stream.String()) }))
}

func newModel() *model {
	return &model{map[lockkeys.Key]ordering.Spans{}, map[lockkeys.Key]uint64{}, map[place]*ordering.JobState{}, nil, map[lockkeys.Key]uint64{},
		nil, map[string]ordering.Parking{}}
}

// state returns the state of a stream, without its token.
func (m *model) state(key lockkeys.Key) (s state) {
	next, above := m.done[key].Absorb(1)
	s.Last = next - 1
	s.Done = append(s.Done, above...)
	s.Ended = m.ended[key]
	for _, p := range m.parkings {
		for _, position := range p.Streams {
			if position.Stream == key {
				s.Parked, s.HeldAt = p.ID, position.Position().Place()
			}
		}
	}
	if held := m.heldOf(key, 0, 1); len(held) > 0 {
		if p, _ := held[0].On(key); s.HeldAt == 0 || p.Place() < s.HeldAt {
			s.HeldAt = p.Place()
		}
	}
	return s
}

func (m *model) setDone(key lockkeys.Key, r ordering.Span) {
	m.done[key] = slices.Clone(m.done[key]).Add(r)
}

func (m *model) isDuplicate(e *ordering.Event) bool {
	return slices.ContainsFunc(e.Positions, func(p ordering.Position) bool { return m.done[p.Stream].Contains(p.Place()) })
}

func (m *model) commit(r ordering.Record) {
	for _, p := range r.Event.Positions {
		m.setDone(p.Stream, ordering.Span{From: p.Place(), To: p.Place()})
		if p.End {
			m.ended[p.Stream] = max(m.ended[p.Stream], p.Place())
		}
	}
	m.jobs[firstOf(r.Event.Positions)] = stored(r)
	if r.Held {
		m.forget(r.Event)
	}
}

func (m *model) forget(e *ordering.Event) {
	if i := m.heldAs(e); i >= 0 {
		m.held = slices.Delete(slices.Clone(m.held), i, i+1)
	}
}

// heldAs returns the index of the held event with the numbers of e, or -1.
func (m *model) heldAs(e *ordering.Event) int {
	return slices.IndexFunc(m.held, func(h ordering.HeldEvent) bool { return ordering.SameNumbers(h.Positions, e.Positions) })
}

func (m *model) skip(s ordering.Skipped) {
	all := ordering.Span{From: s.From, To: s.To}
	for _, part := range m.done[s.Stream].Without(all) {
		s.From, s.To = part.From, part.To
		m.skips = append(m.skips, s)
	}
	m.setDone(s.Stream, all)
}

// skipped returns the job state of the skipped range that has a place, or nil.
func (m *model) skipped(p ordering.Position) *ordering.JobState {
	for _, s := range m.skips {
		if s.Stream == p.Stream && s.From <= p.Place() && p.Place() <= s.To {
			job := s.JobState()
			return &job
		}
	}
	return nil
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
		if p, ok := h.On(key); ok && p.Place() >= from {
			events = append(events, h)
		}
	}
	slices.SortStableFunc(events, func(a, b ordering.HeldEvent) int {
		p, _ := a.On(key)
		q, _ := b.On(key)
		return cmp.Compare(p.Place(), q.Place())
	})
	return events[:min(limit, len(events))]
}

// look returns what is known of numbers, without the tokens.
func (m *model) look(positions []ordering.Position) []ordering.NumberState {
	states := make([]ordering.NumberState, len(positions))
	for i, p := range positions {
		states[i].Done = m.done[p.Stream].Contains(p.Place())
		states[i].Pruned = p.Place() <= m.pruned[p.Stream]
		if job := m.jobs[placeOf(p)]; job != nil && !(states[i].Done && job.Status == ordering.StatusParked) {
			states[i].Job = job
		} else {
			states[i].Job = m.skipped(p)
		}
	}
	return states
}

func (m *model) park(p ordering.Parking) {
	for _, have := range m.parkings[p.ID].Streams { // which stay
		if !slices.ContainsFunc(p.Streams, func(s ordering.ParkedStream) bool { return s.Stream == have.Stream }) {
			p.Streams = append(slices.Clone(p.Streams), have)
		}
	}
	slices.SortFunc(p.Streams, func(a, b ordering.ParkedStream) int { return a.Stream.Compare(b.Stream) })
	delete(m.parkings, p.ID)
	for id, other := range m.parkings {
		other.Streams = slices.DeleteFunc(slices.Clone(other.Streams), func(have ordering.ParkedStream) bool {
			return slices.ContainsFunc(p.Streams, func(taken ordering.ParkedStream) bool { return taken.Stream == have.Stream })
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
		if job := m.jobs[at]; p.Error != "" && (job == nil || job.Status == ordering.StatusParked) {
			m.jobs[at] = &ordering.JobState{Event: h.Name(), Positions: h.Positions, Status: ordering.StatusParked,
				Attempts: h.Attempts, Error: p.Error, Started: h.Started, Ended: p.Since}
		}
	}
}

func (m *model) parked() []ordering.Parking {
	list := slices.SortedFunc(maps.Values(m.parkings), func(a, b ordering.Parking) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.ID, b.ID))
	})
	for i := range list {
		list[i].Streams = slices.Clone(list[i].Streams)
		for j, s := range list[i].Streams {
			list[i].Streams[j].Waiting = int64(len(m.heldOf(s.Stream, 0, len(m.held))))
		}
	}
	return list
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
	n := int64(0)
	prune := func(p ordering.Position) { m.pruned[p.Stream] = max(m.pruned[p.Stream], p.Place()) }
	for at, job := range m.jobs {
		if job.Ended.Before(before) && !(job.Status == ordering.StatusParked && m.isParked(at)) {
			delete(m.jobs, at)
			n++
			for _, p := range job.Positions {
				if job.Status == ordering.StatusParked {
					break
				}
				prune(p)
			}
		}
	}
	m.skips = slices.DeleteFunc(m.skips, func(s ordering.Skipped) bool {
		if !s.Time.Before(before) || s.EndsEpoch() {
			return false
		}
		n++
		prune(ordering.PositionAt(s.Stream, s.To))
		return true
	})
	return n
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
