package ordering

import (
	"context"
	"errors"
	"slices"
	"time"
)

// How much is fed of a stream at a time: so many events, and bytes unless it is
// one event.
const (
	feedPage  = 64
	feedBytes = int64(4 << 20)
)

// unpark resumes a parking: its streams are fed what is held of them.
func (s *Sequencer) unpark(ctx context.Context, p *parking) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	var a after
	defer s.do(&a)
	s.mu.Lock()
	defer s.mu.Unlock()
	p = p.live()
	for i := 0; i < len(p.names) && !p.over; i++ { // names may become more meanwhile
		id, fences := p.names[i], s.fencesLocked(p)
		s.mu.Unlock()
		err := s.cfg.Store.Unpark(ctx, id, fences)
		s.mu.Lock()
		if errors.Is(err, ErrFenced) {
			s.loseParkingLocked(&a, p)
		}
		if err != nil {
			return err
		}
	}
	streams := s.endParkingLocked(p)
	slices.SortFunc(streams, func(a, b *stream) int { return a.key.Compare(b.key) })
	for _, st := range streams {
		st.parking, st.missing = nil, 0
		s.feedLocked(st)
		a.notices = append(a.notices, Notice{Kind: StreamResumed, Time: time.Now(), Stream: st.key})
	}
	return nil
}

// feed brings back held events of a stream, in order, and opens the stream
// once there are no more.
func (s *Sequencer) feed(ctx context.Context, st *stream) error {
	if err := s.takeTurn(ctx); err != nil {
		return nil // it is over
	}
	defer s.passTurn()
	// What is on its way into the store is part of what is held. With the turn
	// taken nothing new comes.
	s.write(ctx)
	s.mu.Lock()
	if !st.feeds() {
		st.feeding = false
		s.restLocked(st)
		s.mu.Unlock()
		return nil
	}
	from, limit, size := st.heldFrom.Load(), feedPage, min(feedBytes, s.cfg.MaxEarlyBytes-s.mu.bytes)
	if s.mu.early >= s.mu.mostEarly {
		limit = 1 // no more than it takes to go on
	}
	s.mu.Unlock()
	page, err := s.cfg.Store.Held(ctx, st.key, from, limit, size)
	if err != nil {
		return err
	}
	events := make([]*Event, len(page))
	for i, h := range page {
		events[i] = h.Event
	}
	if err := s.load(ctx, s.unknown(events...)); err != nil {
		return err
	}
	var a after
	s.mu.Lock()
	st.feeding = false
	streams := []*stream{st}
	all := len(page) == 0
	for _, h := range page {
		if st.gone || st.parking != nil || len(st.holding) > 0 { // since: a worker found that it is not its turn
			break
		}
		if more, ok := s.placeHeldLocked(st, h, &a); ok {
			streams = append(streams, more...)
			continue
		}
		all = false
		break
	}
	switch {
	case st.gone || st.parking != nil || st.fed > 0 || len(st.holding) > 0:
	case all:
		st.heldFrom.Store(notHeld)
	default:
		s.feedLocked(st)
	}
	s.mu.Unlock()
	s.do(&a)
	s.pumpAside(streams)
	return nil
}

// placeHeldLocked brings back a held event of a stream. It returns the streams
// of the event; ok is false if one of them has left memory just now, so that
// the next page is to have the event.
func (s *Sequencer) placeHeldLocked(st *stream, h HeldEvent, a *after) (streams []*stream, ok bool) {
	n, _ := h.On(st.key)
	if _, twin := st.onItsWay(n); twin != nil && twin.event.IsCopy(h.Event) {
		st.heldFrom.Store(n + 1)
		return nil, true
	}
	t := s.newTask(h.Event, nil)
	if !s.placeLocked(t) {
		s.recycle(t)
		return nil, false
	}
	st.heldFrom.Store(n + 1)
	t.held, t.fedBy, t.attempts, t.started = true, st, h.Attempts, h.Started
	st.fed++
	s.open.Add(1)
	for _, slot := range t.slots {
		streams = append(streams, slot.stream)
	}
	s.arriveLocked(t, a)
	return streams, true
}

// mustHoldLocked tells whether an event cannot wait in memory, since a stream
// of it is closed. One that is fed waits there for its other streams to be fed
// as far.
func (s *Sequencer) mustHoldLocked(t *task) bool {
	for _, slot := range t.slots {
		if slot.stream.isHeld(slot.number) && !(t.held && slot.stream.parking == nil) {
			return true
		}
	}
	return false
}

// fedLocked takes note that a fed event has ended.
func (s *Sequencer) fedLocked(t *task) {
	st := t.fedBy
	if st == nil {
		return
	}
	t.fedBy = nil
	if st.fed--; st.fed == 0 {
		s.continueFeedingLocked(st)
	}
}

// continueFeedingLocked has a stream fed further that is not through yet.
func (s *Sequencer) continueFeedingLocked(st *stream) {
	if st.feeds() {
		s.feedLocked(st)
	}
}

// givenUp is the job state of a held event that is given up.
func (h HeldEvent) givenUp(reason string) JobState {
	return JobState{Event: h.Name(), Hash: h.Hash(), Positions: h.Positions, Status: GivenUp,
		Attempts: h.Attempts, Error: reason, Started: h.Started, Ended: time.Now()}
}
