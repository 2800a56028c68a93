package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// store is a plain model of a store.
type store struct {
	streams  map[lockkeys.Key]*kept
	commands map[string]job
	held     []*message // as they came
	parkings map[string]ParkingState
	letters  map[*message]bool // dead letters
	marks    map[*message]int  // runs that have not come to an end
	term     int               // the last one that began; not restored
	ended    bool              // in good order, likewise

	check *checks
}

// kept is what a store keeps of a stream.
type kept struct {
	fence  int64
	done   Spans
	jobs   map[uint64]job // of those done, the ones that an event has
	ended  uint64
	parked string
	stolen bool // by the holder of another partition, and not taken back yet
}

// job is what made a number done.
type job struct {
	status status
	m      *message
	after  bool // by a machine that knew more than the store, which had gone back in time
	pruned bool // the store has forgotten it; checks have not
}

type status uint8

const (
	processed status = iota + 1
	givenUp
)

var (
	errFenced    = errors.New("fenced")
	errDuplicate = errors.New("duplicate")
	errAway      = errors.New("the store is away")
	errLost      = errors.New("the store has lost commits")
)

func newStore() *store {
	return &store{streams: map[lockkeys.Key]*kept{}, commands: map[string]job{}, parkings: map[string]ParkingState{}, letters: map[*message]bool{}, marks: map[*message]int{}}
}

// snapshot returns a copy.
func (s *store) snapshot() *store {
	c := *s
	c.streams = map[lockkeys.Key]*kept{}
	for key, st := range s.streams {
		k := *st
		k.done, k.jobs = slices.Clone(st.done), maps.Clone(st.jobs)
		c.streams[key] = &k
	}
	c.commands, c.held, c.parkings, c.letters = maps.Clone(s.commands), slices.Clone(s.held), maps.Clone(s.parkings), maps.Clone(s.letters)
	c.marks = maps.Clone(s.marks)
	return &c
}

func (s *store) stream(key lockkeys.Key) *kept {
	st := s.streams[key]
	if st == nil {
		st = &kept{jobs: map[uint64]job{}}
		s.streams[key] = st
	}
	return st
}

func (st *kept) isDone(n uint64) bool { return st.done.Contains(n) }

// last returns the number up to which every one is done, and what is done above it.
func (st *kept) last() (last uint64, above Spans) {
	next, above := st.done.Absorb(1)
	return next - 1, slices.Clone(above)
}

// low returns the number up to which every one is done.
func (st *kept) low() uint64 {
	last, _ := st.last()
	return last
}

// above returns the numbers above n that events have made done.
func (st *kept) above(n uint64) (numbers []uint64) {
	if len(st.done) == 0 || st.done[len(st.done)-1].To <= n {
		return nil
	}
	for k := range st.jobs {
		if k > n {
			numbers = append(numbers, k)
		}
	}
	slices.Sort(numbers)
	return numbers
}

func (st *kept) setDone(n uint64, j job) {
	st.jobs[n] = j
	st.done = st.done.Add(Span{n, n})
}

func (s *store) mayWrite(term int, fences map[lockkeys.Key]int64) error {
	if term != s.term {
		return errFenced
	}
	for key, fence := range fences {
		if st := s.streams[key]; st == nil || st.fence != fence || fence == 0 {
			if !s.check.w.wentBack && (st == nil || !st.stolen) {
				s.check.fail("a write has token %d of stream %s, in the term of the holder", fence, key)
			}
			return errFenced
		}
	}
	return nil
}

// own returns what the store has of a message: whether its numbers are done by
// itself, or some by others.
func (s *store) own(m *message) (own status, others bool) {
	if m.command != "" {
		j, ok := s.commands[m.command]
		if ok && j.m == m {
			return j.status, false
		}
		return 0, ok
	}
	for _, p := range m.slots {
		st := s.streams[p.key]
		if st == nil || !st.isDone(p.number) {
			continue
		}
		if j := st.jobs[p.number]; j.m == m {
			own = j.status
		} else {
			others = true
		}
	}
	return own, others
}

// isForgotten reports whether the numbers of a message are done, and the store
// does not know any more by whom.
func (s *store) isForgotten(m *message) bool {
	for _, p := range m.slots {
		if !s.stream(p.key).jobs[p.number].pruned {
			return false
		}
	}
	return len(m.slots) > 0
}

func (s *store) look(m *message) Verdict {
	switch known, err := s.known(m); known {
	case ByItself, AsDone:
		return Verdict{Kind: Done}
	case ByOthers:
		return Verdict{Kind: Never, Err: err}
	}
	return Verdict{Kind: Open}
}

func (s *store) known(m *message) (Known, error) {
	switch own, others := s.own(m); {
	case s.isForgotten(m):
		return AsDone, nil
	case own == processed:
		return ByItself, nil
	case own != 0:
		return AsDone, nil
	case others:
		return ByOthers, fmt.Errorf("conflict of %v", m)
	}
	return Nothing, nil
}

// prune forgets who has made numbers done, and commands, but for those that are on
// their way.
func (s *store) prune() {
	for _, st := range s.streams {
		for n, j := range st.jobs {
			j.pruned = true
			st.jobs[n] = j
		}
	}
	for id, j := range s.commands {
		if !s.check.isOnItsWay(id) {
			delete(s.commands, id)
			delete(s.check.ledger.done, j.m) // it may run again
		}
	}
}

// mark counts a run, unless most of them are counted, and returns its number.
func (s *store) mark(m *message, most int) (run int) {
	if run = min(s.marks[m], most) + 1; run <= most {
		s.marks[m] = run
	}
	return run
}

func (s *store) unmark(m *message) {
	if s.marks[m]--; s.marks[m] <= 0 {
		delete(s.marks, m)
	}
}

// knows reports whether the store has lost commits of a stream.
func (s *store) knows(key lockkeys.Key, known uint64) error {
	if s.stream(key).low() >= known {
		return nil
	}
	if !s.check.w.wentBack {
		s.check.fail("a write takes %s for done up to %d", key, known)
	}
	return errLost
}

// commit makes the numbers of an event done.
func (s *store) commit(term int, e *Event, status status) error {
	m := e.Owner.(*delivery).m
	if err := s.mayWrite(term, fencesOf(e.Slots)); err != nil {
		return err
	}
	if m.command != "" {
		if _, ok := s.commands[m.command]; ok {
			return errDuplicate
		}
		s.commands[m.command] = job{status: status, m: m}
		return nil
	}
	for i, p := range m.slots {
		if err := s.knows(p.key, e.Slots[i].Known); err != nil {
			return err
		}
		if s.stream(p.key).isDone(p.number) {
			return errDuplicate
		}
	}
	if status == processed {
		s.check.applies(s, m)
	}
	for _, p := range m.slots {
		s.stream(p.key).setDone(p.number, job{status: status, m: m, after: s.check.w.wentBack})
		if p.end {
			s.stream(p.key).ended = max(s.stream(p.key).ended, p.number)
		}
	}
	if e.Held {
		s.forget(m)
	}
	return nil
}

func (s *store) isHeld(m *message) bool { return slices.Contains(s.held, m) }

func (s *store) forget(m *message) {
	if i := slices.Index(s.held, m); i >= 0 {
		s.held = slices.Delete(s.held, i, i+1)
	}
}

func (s *store) hold(term int, events []*Event) (errs []error, err error) {
	for _, e := range events {
		if err := s.mayWrite(term, fencesOf(e.Slots)); err != nil {
			return nil, err
		}
	}
	errs = make([]error, len(events))
	for i, e := range events {
		errs[i] = s.holdOne(e.Owner.(*delivery).m)
	}
	return errs, nil
}

func (s *store) holdOne(m *message) error {
	for _, h := range s.held {
		if h == m {
			return nil
		}
		if h.hasNumbersOf(m) {
			return fmt.Errorf("%v conflicts with %v, which is held", m, h)
		}
	}
	s.check.holds(s, m)
	s.held = append(s.held, m)
	return nil
}

// heldOf returns what is held of a stream from a number on.
func (s *store) heldOf(key lockkeys.Key, from uint64) (held []*message) {
	for _, m := range s.held {
		if m.on(key) >= from && m.on(key) > 0 {
			held = append(held, m)
		}
	}
	slices.SortStableFunc(held, func(a, b *message) int {
		if a.on(key) < b.on(key) {
			return -1
		}
		if a.on(key) > b.on(key) {
			return 1
		}
		return 0
	})
	return held
}

// load takes streams over, with all that are parked together with them.
func (s *store) load(term int, keys []lockkeys.Key) (in Loaded, err error) {
	if err := s.mayWrite(term, nil); err != nil {
		return in, err
	}
	wanted, loaded := map[string]bool{}, map[lockkeys.Key]bool{}
	acquire := func(key lockkeys.Key) {
		if loaded[key] {
			return
		}
		loaded[key] = true
		st := s.stream(key)
		st.fence++
		st.stolen = false
		state := StreamState{Key: key, Fence: st.fence, Ended: st.ended, Parked: st.parked}
		state.Last, state.Done = st.last()
		if held := s.heldOf(key, 0); len(held) > 0 {
			state.HeldAt = held[0].on(key)
		}
		if st.parked != "" {
			wanted[st.parked] = true
			if c := closedOf(s.parkings[st.parked], key); state.HeldAt == 0 || c < state.HeldAt {
				state.HeldAt = c
			}
		}
		in.Streams = append(in.Streams, state)
	}
	for _, key := range keys {
		acquire(key)
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		p := copyOf(s.parkings[id])
		in.Parkings = append(in.Parkings, p)
		for _, c := range p.Streams {
			acquire(c.Key)
		}
	}
	return in, nil
}

func closedOf(p ParkingState, key lockkeys.Key) uint64 {
	for _, c := range p.Streams {
		if c.Key == key {
			return c.Number
		}
	}
	return 0
}

func copyOf(p ParkingState) ParkingState {
	p.Streams, p.Faults = slices.Clone(p.Streams), slices.Clone(p.Faults)
	slices.SortFunc(p.Streams, func(a, b Closed) int { return a.Key.Compare(b.Key) })
	return p
}

func (s *store) parkAll(term int, a *Park) error {
	if err := s.mayWrite(term, a.Fences); err != nil {
		return err
	}
	for _, c := range a.Parkings {
		s.park(c.ParkingState, a.Fences)
	}
	return nil
}

func (s *store) park(p ParkingState, fences map[lockkeys.Key]int64) {
	p = copyOf(p)
	s.check.parks(p, fences)
	for _, c := range s.parkings[p.ID].Streams { // which stay
		if !slices.ContainsFunc(p.Streams, func(o Closed) bool { return o.Key == c.Key }) {
			p.Streams = append(p.Streams, c)
		}
	}
	for _, c := range p.Streams {
		st := s.stream(c.Key)
		if old, ok := s.parkings[st.parked]; ok && old.ID != p.ID {
			old = copyOf(old)
			old.Streams = slices.DeleteFunc(old.Streams, func(o Closed) bool { return o.Key == c.Key })
			s.parkings[old.ID] = old
			if len(old.Streams) == 0 {
				delete(s.parkings, old.ID)
			}
		}
		st.parked = p.ID
	}
	s.parkings[p.ID] = p
	for _, f := range p.Faults {
		delete(s.marks, f.Owner.(*message))
		if m := f.Owner.(*message); !s.isHeld(m) {
			if err := s.holdOne(m); err != nil {
				s.check.fail("fault of parking %s: %v", p.ID, err)
			}
		}
	}
}

func (s *store) unpark(term int, ids []string, fences map[lockkeys.Key]int64) error {
	if err := s.mayWrite(term, fences); err != nil {
		return err
	}
	for _, id := range ids {
		for _, c := range s.parkings[id].Streams {
			if _, ok := fences[c.Key]; !ok {
				s.check.fail("parking %s is forgotten without the token of stream %s", id, c.Key)
			}
		}
		s.unparkOne(id)
	}
	return nil
}

func (s *store) unparkOne(id string) {
	for _, c := range s.parkings[id].Streams {
		s.stream(c.Key).parked = ""
	}
	delete(s.parkings, id)
}

func (s *store) skip(term int, a *Skip) error {
	if err := s.mayWrite(term, map[lockkeys.Key]int64{a.Key: a.Fence}); err != nil {
		return err
	}
	if err := s.knows(a.Key, a.Known); err != nil {
		return err
	}
	st := s.stream(a.Key)
	for _, r := range a.Parts {
		for _, part := range st.done.Without(r) {
			s.check.skips(s, a.Key, part)
		}
		st.done = st.done.Add(r)
	}
	return nil
}

// giveUp gives up a held event; see [GiveUp].
func (s *store) giveUp(term int, a *GiveUp) (in GiveUpDone, err error) {
	if err := s.mayWrite(term, fencesOf(a.Event.Slots)); err != nil {
		return in, err
	}
	in.GiveUp = a
	m := a.Event.Owner.(*delivery).m
	own, _ := s.own(m)
	others := len(a.Slots) == 0
	for _, slot := range a.Slots {
		if err := s.knows(slot.Key, slot.Known); err != nil {
			return in, err
		}
		others = others || s.stream(slot.Key).isDone(slot.Number)
	}
	defer s.forget(m)
	switch {
	case own == processed:
		in.Result = Applied
	case own != 0:
		in.Result = GivenUp
	case others:
		s.letters[m] = true
		in.Result, in.Err = Refused, fmt.Errorf("the numbers of %v are another's", m)
	default:
		in.Result = GivenUp
		for _, slot := range a.Slots {
			s.stream(slot.Key).setDone(slot.Number, job{status: givenUp, m: m, after: s.check.w.wentBack})
			if slot.End {
				s.stream(slot.Key).ended = max(s.stream(slot.Key).ended, slot.Number)
			}
		}
	}
	return in, nil
}

func (s *store) forgetHeld(term int, a *Forget) error {
	if err := s.mayWrite(term, a.Fences); err != nil {
		return err
	}
	m := a.Event.Owner.(*delivery).m
	if a.Why != nil {
		s.letters[m] = true
	} else if own, _ := s.own(m); own == 0 && s.isHeld(m) && !s.isForgotten(m) {
		if s.check.w.wentBack {
			return errLost
		}
		s.check.fail("%v is forgotten, which was not done", m)
	}
	s.forget(m)
	return nil
}

// backlog lists streams with held events that are not parked.
func (s *store) backlog() (keys []lockkeys.Key) {
	for _, m := range s.held {
		for _, p := range m.slots {
			if s.stream(p.key).parked == "" {
				keys = append(keys, p.key)
			}
		}
	}
	return keys
}
