package core

import "time"

// Each arrival follows the chain of waiting events for searchSteps at most. If
// that was not far enough, a search through all of them is started after
// searchPause, for many arrivals together. So arrivals cost little, however
// long the chains are.
const (
	searchSteps = 64
	searchPause = 100 * time.Millisecond
)

// search is the subject of the timer for a search through all waiting events.
type search struct{}

// contradiction parks the streams of events that wait for each other in a
// cycle, if head leads to one: for example, if a is before b on one stream and
// behind it on another. Such events can never run, so the producer has
// contradicted itself.
func (m *Machine) contradiction(head *Event) {
	w := walk{seen: map[*Event]bool{}, left: searchSteps}
	if circle := w.from(head); circle != nil {
		m.parkCircle(circle)
	} else if w.left == 0 && !m.searching {
		m.searching = true
		m.timers.set(m.now().Add(searchPause), search{})
	}
}

// searchAll looks for cycles of any length.
func (m *Machine) searchAll() {
	m.searching = false
	w := walk{seen: map[*Event]bool{}, left: m.early + 1}
	for _, st := range m.sortedStreams() {
		if head := st.early[st.next]; head != nil {
			if circle := w.from(head); circle != nil {
				m.parkCircle(circle)
			}
		}
	}
}

func (m *Machine) parkCircle(circle []*Event) {
	p := m.newParking(Contradiction, m.cfg.Host.ContradictionError(circle))
	for _, e := range circle {
		p.faults = append(p.faults, m.cfg.Host.FaultOf(e))
	}
	for i := range circle[0].Slots { // which displaces the one before it in the circle, and so on
		p = m.shut(circle[0].Slots[i].stream, circle[0].Slots[i].Number, 0, p, "")
	}
}

// walk is a depth-first search for a cycle of events at the heads of their
// streams, each of which waits for the next one on another stream. Only heads
// need to be visited: an event waits for the head of its stream in any case, so
// if there is a cycle through other events, following the heads leads to one as
// well.
type walk struct {
	seen map[*Event]bool // true while it is on the path
	path []*Event
	left int // number of events it may still visit
}

// from returns a cycle that e leads to, or nil if there is none within the
// limit: then e waits for something that may still come.
func (w *walk) from(e *Event) (circle []*Event) {
	onPath, seen := w.seen[e]
	switch {
	case onPath:
		for i, p := range w.path {
			if p == e {
				return append(circle, w.path[i:]...)
			}
		}
	case seen, w.left == 0:
		return nil
	}
	w.left--
	w.seen[e] = true
	w.path = append(w.path, e)
	for i := range e.Slots {
		s := &e.Slots[i]
		if s.Number <= s.stream.next {
			continue
		}
		if next := s.stream.early[s.stream.next]; next != nil && circle == nil {
			circle = w.from(next)
		}
	}
	w.seen[e] = false
	w.path = w.path[:len(w.path)-1]
	return circle
}
