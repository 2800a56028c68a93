package ordering

import "time"

// How far an event that has come is followed at once through those that each
// wait for the next, and how long a search through all of them waits if that
// was not far enough. So arrivals cost little, however long the chains are.
const (
	searchSteps = 64
	searchPause = 100 * time.Millisecond
)

// contradictionLocked parks the streams of events that wait for each other in
// a circle, if head leads to one.
func (s *Sequencer) contradictionLocked(head *task, a *after) {
	q := search{seen: map[*task]bool{}, left: searchSteps}
	if circle := q.from(head); circle != nil {
		s.parkCircleLocked(circle, a)
	} else if q.left == 0 && s.mu.search == nil && s.mu.err == nil {
		s.mu.search = time.AfterFunc(searchPause, s.searchAll)
	}
}

// searchAll looks for circles of any length.
func (s *Sequencer) searchAll() {
	var a after
	s.mu.Lock()
	s.mu.search = nil
	if s.mu.err == nil {
		q := search{seen: map[*task]bool{}, left: s.mu.early + 1}
		for _, st := range s.mu.streams {
			if head := st.early[st.next]; head != nil && !head.isNext() {
				if circle := q.from(head); circle != nil {
					s.parkCircleLocked(circle, &a)
				}
			}
		}
	}
	s.mu.Unlock()
	s.do(&a)
}

func (s *Sequencer) parkCircleLocked(circle []*task, a *after) {
	err := &ContradictionError{}
	for _, t := range circle {
		err.Events = append(err.Events, t.event)
	}
	p := s.newParkingLocked(Contradiction, err)
	for _, t := range circle {
		p.Events = append(p.Events, t.heldEvent())
	}
	for _, t := range circle {
		for _, slot := range t.slots {
			p = s.shutLocked(slot.stream, slot.number, 0, p, a)
		}
	}
}

// search looks for events at the heads of their streams of which each waits
// for the next one, and the last for the first. Only heads need to be looked
// at: in a circle through others, those at the heads wait in a circle too.
type search struct {
	seen map[*task]bool // true while it is on the path
	path []*task
	left int // how many it may yet look at
}

// from returns a circle that t leads to, nil if t waits for something that may
// yet come.
func (q *search) from(t *task) (circle []*task) {
	onPath, seen := q.seen[t]
	switch {
	case onPath:
		for i, p := range q.path {
			if p == t {
				return append(circle, q.path[i:]...)
			}
		}
	case seen, q.left == 0:
		return nil
	}
	q.left--
	q.seen[t] = true
	q.path = append(q.path, t)
	for _, slot := range t.slots {
		if slot.number <= slot.stream.next {
			continue
		}
		if next := slot.stream.early[slot.stream.next]; next != nil && circle == nil {
			circle = q.from(next)
		}
	}
	q.seen[t] = false
	q.path = q.path[:len(q.path)-1]
	return circle
}
