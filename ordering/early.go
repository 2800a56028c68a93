package ordering

import (
	"container/heap"
	"time"
)

// bufferLocked keeps an event in memory until it is its turn. If that is too
// many, the stream they wait for is closed until it goes on, and the store
// takes them.
func (s *Sequencer) bufferLocked(t *task, a *after) {
	if t.arrived.IsZero() {
		t.arrived = time.Now()
	}
	full := !t.held && s.fullLocked(t)
	s.enterEarlyLocked(t)
	if full {
		s.overflowLocked(t, a)
		return
	}
	for _, slot := range t.slots {
		s.checkHeadLocked(slot.stream, a)
		if !t.early { // it was held or parked by that
			return
		}
	}
}

// LimitEarly lowers [Config.MaxEarlyTotal] to n, unless it is less already; with
// 0, or less, no event waits in memory. It is for a source that has a window of
// events without an outcome, of a broker for example: were all of them to wait,
// the one that they wait for could not come.
func (s *Sequencer) LimitEarly(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.mostEarly = min(s.mu.mostEarly, max(n, 0))
}

func (s *Sequencer) fullLocked(t *task) bool {
	if s.crowdedLocked(t.event) {
		return true
	}
	for _, slot := range t.slots {
		if len(slot.stream.early) >= s.cfg.MaxEarly {
			return true
		}
	}
	return false
}

// crowdedLocked tells whether there is no room for one more event, or copy of
// one, on any stream.
func (s *Sequencer) crowdedLocked(e *Event) bool {
	return s.mu.early >= s.mu.mostEarly || s.mu.bytes+e.waiting() > s.cfg.MaxEarlyBytes
}

func (s *Sequencer) enterEarlyLocked(t *task) {
	t.early = true
	for _, slot := range t.slots {
		if slot.stream.early == nil {
			slot.stream.early = map[uint64]*task{}
		}
		slot.stream.early[slot.number] = t
		heap.Push(&slot.stream.order, slot.number)
	}
	s.countEarlyLocked(t, 1)
}

// countEarlyLocked counts an early event and its copies, in or out by sign.
func (s *Sequencer) countEarlyLocked(t *task, sign int) {
	size := t.event.waiting()
	for _, twin := range t.joined {
		size += twin.event.Size()
	}
	s.mu.early += sign * (1 + len(t.joined))
	s.mu.bytes += int64(sign) * size
}

func (s *Sequencer) leaveEarlyLocked(t *task) {
	t.early = false
	for _, slot := range t.slots {
		delete(slot.stream.early, slot.number)
		if len(slot.stream.early) == 0 {
			slot.stream.early, slot.stream.order = nil, nil
		}
	}
	s.countEarlyLocked(t, -1)
}

// overflowLocked closes the stream that t waits for in the end, since there is
// no more room for what waits, and asks for what is missing at once.
func (s *Sequencer) overflowLocked(t *task, a *after) {
	st := s.rootLocked(t)
	if st == nil || st.isHeld(st.next) {
		s.leaveEarlyLocked(t)
		s.holdLocked(t, a)
		return
	}
	s.openGapLocked(st, a)
	g := st.gap
	p := s.newParkingLocked(Waiting, nil)
	p.Gap = Range{st.key, st.next, s.missingToLocked(st)}
	s.shutLocked(st, st.next, st.next, p, a)
	if !g.asked {
		s.askLocked(g)
	}
	if t.early { // another stream of it is full: it waits behind the same gap
		s.leaveEarlyLocked(t)
		s.holdLocked(t, a)
	}
}

// rootLocked follows the events that t waits for to the stream whose next
// number has not come; nil if there is none.
func (s *Sequencer) rootLocked(t *task) *stream {
	seen := map[*task]bool{}
	for !seen[t] {
		seen[t] = true
		for _, slot := range t.slots {
			if slot.number <= slot.stream.next {
				continue
			}
			head := slot.stream.early[slot.stream.next]
			if head == nil {
				return slot.stream
			}
			t = head
			break
		}
	}
	return nil
}

// missingToLocked returns the last of the numbers that are missing at the head
// of a stream, as far as is known.
func (s *Sequencer) missingToLocked(st *stream) uint64 {
	if first := st.firstEarly(); first != nil {
		n, _ := first.event.On(st.key)
		return max(st.next, n-1)
	}
	if st.missing > 0 && st.parking != nil && st.parking.Gap.Stream == st.key {
		return max(st.next, st.parking.Gap.To)
	}
	return st.next
}

// firstEarly returns the early event with the smallest number, nil for none.
func (st *stream) firstEarly() *task {
	for len(st.order) > 0 {
		if t := st.early[st.order[0]]; t != nil {
			return t
		}
		heap.Pop(&st.order)
	}
	return nil
}

// numbers is a heap of numbers, the smallest on top; see container/heap.
type numbers []uint64

func (h numbers) Len() int           { return len(h) }
func (h numbers) Less(i, j int) bool { return h[i] < h[j] }
func (h numbers) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *numbers) Push(n any)        { *h = append(*h, n.(uint64)) }
func (h *numbers) Pop() any {
	last := len(*h) - 1
	n := (*h)[last]
	*h = (*h)[:last]
	return n
}

// checkHeadLocked looks at the next number of a stream after something has
// changed: whether it is missing, or its event can never run.
func (s *Sequencer) checkHeadLocked(st *stream, a *after) {
	head := st.early[st.next]
	switch {
	case st.gone:
	case len(st.early) == 0:
		if st.missing == 0 {
			s.closeGapLocked(st, a)
		}
		s.restLocked(st)
	case head != nil:
		s.closeGapLocked(st, a)
		if !head.isNext() {
			s.contradictionLocked(head, a)
		}
	case !st.isHeld(st.next):
		s.openGapLocked(st, a)
	}
}
