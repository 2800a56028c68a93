package ordering

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// parking is a [Parking] in memory.
//
// Invariant: the closed streams of a held event all belong to one parking, or
// to none while they are fed. A parking is in memory with all its streams, or
// not at all: who loads one of them takes the others over, who has lost one has
// lost all. So the store has nothing newer of it.
type parking struct {
	Parking // but for Streams
	streams map[lockkeys.Key]uint64
	names   []string // the IDs under which the sequencer's map has it
	dirty   bool     // the keeper is to write it
	epoch   uint64   // of when it was changed last; see idleList
	over    bool     // it was resumed, or became part of another
	into    *parking // that other
	fault   error
}

// live returns the parking that this one became part of, or itself; nil of nil.
func (p *parking) live() *parking {
	for p != nil && p.into != nil {
		p = p.into
	}
	return p
}

func restored(p Parking) *parking {
	streams := make(map[lockkeys.Key]uint64, len(p.Streams))
	for _, position := range p.Streams {
		streams[position.Stream] = position.Number
	}
	p.Streams = nil
	return &parking{Parking: p, streams: streams, names: []string{p.ID}}
}

// misses returns the number that a stream is parked for, since it has not
// come; else 0.
func (p *parking) misses(key lockkeys.Key) uint64 {
	if p.Gap.Stream == key {
		return p.Gap.From
	}
	return 0
}

// heals tells whether the parking is over once what is missing has come.
func (p *parking) heals() bool { return len(p.Events) == 0 }

// public returns the parking as a store keeps it, with streams in any order.
func (p *parking) public() Parking {
	public := p.Parking
	public.Events = slices.Clone(p.Events)
	public.Streams = make([]Position, 0, len(p.streams))
	for key, n := range p.streams {
		public.Streams = append(public.Streams, Position{Stream: key, Number: n})
	}
	return public
}

// inOrder sorts the streams, which may be many, outside of the mutex.
func (p Parking) inOrder() Parking {
	slices.SortFunc(p.Streams, func(a, b Position) int { return a.Stream.Compare(b.Stream) })
	return p
}

func (s *Sequencer) newParkingLocked(reason Reason, err error) *parking {
	p := &parking{Parking: Parking{ID: rand.Text(), Reason: reason, Since: time.Now()}, streams: map[lockkeys.Key]uint64{}, fault: err}
	p.names, p.epoch = []string{p.ID}, s.mu.idle.epoch
	if err != nil {
		p.Error = err.Error()
	}
	s.mu.parkings[p.ID] = p
	return p
}

// parkLocked closes the streams of an event that failed. It returns the
// parking, which may be one from before.
func (s *Sequencer) parkLocked(t *task, err error, a *after) {
	p := s.newParkingLocked(Failure, err)
	p.Events = append(p.Events, t.heldEvent())
	for _, slot := range t.slots {
		p = s.shutLocked(slot.stream, slot.number, 0, p, a)
	}
}

// shutLocked closes a stream from number n on, with all that is early there,
// for a number that is missing if that is not 0.
// It returns the parking that the stream then belongs to: p, or one from
// before with which p was joined.
func (s *Sequencer) shutLocked(st *stream, n, missing uint64, p *parking, a *after) *parking {
	displaced := s.closeLocked(st, n, missing, &p, a)
	s.holdAllLocked(displaced, p, a)
	return p.live()
}

// closeLocked closes one stream and returns the early events that it displaces.
func (s *Sequencer) closeLocked(st *stream, n, missing uint64, p **parking, a *after) (displaced []*task) {
	if st.parking != nil && st.parking != *p {
		*p = s.joinLocked(st.parking, *p)
	}
	if st.isHeld(n) && st.parking == *p && missing == 0 {
		return nil
	}
	if !st.isHeld(n) {
		st.heldFrom.Store(n)
	}
	if missing > 0 {
		st.missing = missing
	}
	if st.gap != nil && st.isHeld(st.gap.from) && st.missing == 0 {
		s.closeGapLocked(st, a)
	}
	if *p == nil {
		s.feedLocked(st)
	} else {
		if st.parking == nil {
			a.notices = append(a.notices, Notice{Kind: StreamParked, Time: time.Now(), Stream: st.key,
				Range: Range{st.key, n, n}, Reason: (*p).Reason, Err: (*p).fault, Event: (*p).culprit()})
		}
		st.parking = *p
		s.mu.idle.remove(st)
		(*p).streams[st.key] = st.heldFrom.Load()
		s.dirtyLocked(*p)
	}
	for number, t := range st.early {
		if st.isHeld(number) {
			displaced = append(displaced, t)
		}
	}
	slices.SortFunc(displaced, func(a, b *task) int { return a.arrived.Compare(b.arrived) })
	for _, t := range displaced {
		s.leaveEarlyLocked(t)
	}
	return displaced
}

func (p *parking) culprit() *Event {
	if len(p.Events) == 0 {
		return nil
	}
	return p.Events[len(p.Events)-1].Event
}

// joinLocked makes one parking of two, since an event is held by both. Either
// may be nil.
func (s *Sequencer) joinLocked(p, q *parking) *parking {
	switch p, q = p.live(), q.live(); {
	case q == nil || p == q:
		return p
	case p == nil:
		return q
	case len(p.streams)+len(p.Events) < len(q.streams)+len(q.Events): // so that many joined one by one cost little
		p, q = q, p
	}
	if q.Since.Before(p.Since) {
		p.Since = q.Since
	}
	p.Events = append(p.Events, q.Events...)
	for key, n := range q.streams {
		if old, ok := p.streams[key]; !ok || n < old {
			p.streams[key] = n
		}
		if st := s.mu.streams[key]; st != nil && st.parking == q {
			st.parking = p
		}
	}
	q.over, q.into = true, p
	for _, id := range q.names {
		s.mu.parkings[id] = p // the store has it under that ID until the keeper has written p
	}
	p.names = append(p.names, q.names...)
	s.dirtyLocked(p)
	return p
}

func (s *Sequencer) dirtyLocked(p *parking) {
	p.epoch = s.mu.idle.epoch
	if !p.dirty {
		p.dirty = true
		s.keeper.mu.dirty = append(s.keeper.mu.dirty, p)
		s.keeper.signal()
	}
}

// holdLocked gives an event to the store that cannot run, since a stream of it
// is closed.
func (s *Sequencer) holdLocked(t *task, a *after) { s.holdAllLocked([]*task{t}, nil, a) }

// holdAllLocked does so with several, and with all that come after them on
// their other streams.
func (s *Sequencer) holdAllLocked(tasks []*task, p *parking, a *after) {
	for len(tasks) > 0 {
		t := tasks[0]
		tasks = tasks[1:]
		if t.isLost() {
			s.endLocked(t, Outcome{Unfinished, ErrFenced}, a)
			continue
		}
		for _, slot := range t.slots {
			if slot.stream.isHeld(slot.number) {
				p = s.joinLocked(slot.stream.parking, p)
			}
		}
		for _, slot := range t.slots {
			st := slot.stream
			if slot.number == st.missing {
				st.missing = 0
				t.fills = p
			}
			tasks = append(tasks, s.closeLocked(st, slot.number, 0, &p, a)...)
			if st.holding == nil {
				st.holding = map[uint64]int{}
			}
			st.holding[slot.number]++
		}
		if p != nil && p.heals() && t.isFirst() {
			t.fills = p
		}
		switch {
		case t.held:
			s.heldLocked(t, a)
		case s.mu.over:
			s.endLocked(t, Outcome{Unfinished, ErrClosed}, a)
		default:
			s.keeper.mu.holds = append(s.keeper.mu.holds, t)
			s.keeper.addLocked(t)
			s.keeper.signal()
		}
	}
}

// heldLocked ends an event that the store holds.
func (s *Sequencer) heldLocked(t *task, a *after) {
	s.leaveHoldingLocked(t)
	if t.fills != nil {
		s.reopenLocked(t.fills.live())
	}
	s.endLocked(t, Outcome{Result: Held}, a)
}

// unheldLocked gives back an event that the store was to hold.
func (s *Sequencer) unheldLocked(t *task, why error, a *after) {
	s.leaveHoldingLocked(t)
	s.endLocked(t, Outcome{Unfinished, why}, a)
}

func (s *Sequencer) leaveHoldingLocked(t *task) {
	for _, slot := range t.slots {
		st := slot.stream
		if st.holding[slot.number]--; st.holding[slot.number] == 0 {
			delete(st.holding, slot.number)
		}
		s.continueFeedingLocked(st)
	}
}

// isFirst tells whether nothing comes before an event on its streams but what
// is done or on its way.
func (t *task) isFirst() bool {
	for _, slot := range t.slots {
		if slot.number != slot.stream.next {
			return false
		}
	}
	return true
}

// rejectLocked parks an event that the store holds, and that can never run, at
// those of its numbers that nothing else has.
func (s *Sequencer) rejectLocked(t *task, err error, a *after) {
	free := slices.DeleteFunc(slices.Clone(t.slots), func(slot slot) bool {
		done, other := slot.stream.onItsWay(slot.number)
		return done || other != nil
	})
	if len(free) == 0 {
		s.forgetHeldLocked(t.heldEvent(), err)
		s.endLocked(t, Outcome{Result: Refused, Err: err}, a)
		return
	}
	p := s.newParkingLocked(Contradiction, err)
	p.Events = append(p.Events, t.heldEvent())
	for _, slot := range free {
		p = s.shutLocked(slot.stream, slot.number, 0, p, a)
	}
	s.endLocked(t, Outcome{Result: Held}, a)
}

// isDoneLocked tells whether all numbers of an event are done, as far as is
// known.
func (s *Sequencer) isDoneLocked(h HeldEvent) bool {
	for _, p := range h.Positions {
		st := s.mu.streams[p.Stream]
		if st == nil {
			return false
		}
		if done, _ := st.isDone(p.Number); !done {
			return false
		}
	}
	return true
}

// fencesLocked returns the tokens of a parking's streams. Without one that has
// left memory, the store refuses the parking, and it is loaded anew.
func (s *Sequencer) fencesLocked(p *parking) Fences {
	fences := make(Fences, len(p.streams))
	for key := range p.streams {
		if st := s.mu.streams[key]; st != nil {
			fences[key] = st.fence
		}
	}
	return fences
}

// endParkingLocked forgets a parking, with what became part of it, unless it is
// over already. It returns its streams.
func (s *Sequencer) endParkingLocked(p *parking) (streams []*stream) {
	if p.over {
		return nil
	}
	p.over = true
	for _, id := range p.names {
		delete(s.mu.parkings, id)
	}
	for key := range p.streams {
		if st := s.mu.streams[key]; st != nil { // nil if it is being lost
			streams = append(streams, st)
		}
	}
	return streams
}
