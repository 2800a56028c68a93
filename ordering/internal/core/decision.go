package core

import (
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// Decision is an order about a stream that takes several steps to carry out: by
// an operator, or by the machine itself. Decisions are carried out one at a
// time, in order, in the writing lane. A decision never holds up new arrivals,
// so these may close or fill the stream during each of its steps; each step
// checks the current state.
type Decision struct {
	Kind  DecisionKind
	Key   lockkeys.Key
	Last  uint64 // with SkipTo: the last number
	By    string // the operator
	Why   error  // the reason, for records of events given up and numbers skipped
	Owner any    // for the caller

	state   decisionState
	stream  *stream     // set by begin, except with heal and giveUpFaults
	parking *parking    // to be resumed in the end
	at      uint64      // the first number that has not been dealt with, though it may be done
	from    uint64      // where the next page begins
	page    []*Event    // held events to deal with, in order of their numbers
	faults  []Fault     // failed events to give up
	skip    toSkip      // the numbers being counted and skipped
	come    Spans       // numbers known to be held: found by reading, or held since it began
	then    func(error) // called at the end
}

// cause returns why the decision's stream is parked, or nil if it is not.
func (d *Decision) cause() error {
	if p := d.parking.live(); p != nil {
		return p.cause
	}
	return nil
}

// DecisionKind is the kind of a decision.
type DecisionKind uint8

// Kinds of decisions. The first four are made by operators about a parked
// stream, and end with resuming its parking.
const (
	Resume       DecisionKind = iota // to try again
	SkipHead                         // to give up what the stream is closed at: an event, or the missing numbers
	SkipTo                           // to skip all numbers up to Last that have not come
	Drop                             // to give up all that is held
	heal                             // to resume a parking whose missing numbers have come
	skipNumbers                      // to skip numbers that are missing
	skipEpoch                        // to skip what is left of an epoch, since a later one waits
	giveUpFaults                     // to give up the events that a parking is for, and to resume it
)

// decisionState is the progress of a decision.
//
//	from       to         when
//	begun      over       its stream is not parked, its parking does not heal, or no later epoch waits
//	begun      resuming   Resume, heal
//	begun      counting   SkipTo, skipNumbers, skipEpoch
//	begun      reading    SkipHead, Drop, giveUpFaults
//	reading    dealing    held events have come, or there are none
//	dealing    reading    the page is dealt with, and there may be more
//	dealing    resuming   SkipHead: what was first is dealt with; Drop, giveUpFaults: nothing is left
//	dealing    counting   numbers are missing before the first held event, or it has none
//	dealing    givingUp   the first held event is next
//	counting   skipping   it is known which numbers have not come
//	counting   dealing    Drop: all have
//	counting   resuming   SkipHead, SkipTo: all have
//	counting   forgetting Drop: they are more than may be skipped, so the event behind them goes
//	counting   over       likewise, of others: nothing is done; skipNumbers, skipEpoch: all have come
//	skipping   dealing    Drop
//	skipping   resuming   SkipHead, SkipTo
//	skipping   over       skipNumbers, skipEpoch
//	givingUp   dealing    it is given up
//	forgetting dealing    it is forgotten
//	resuming   over       the streams are fed
//
// From every state it goes to over when all stops.
type decisionState uint8

const (
	dBegun      decisionState = iota // it waits for its turn
	dReading                         // a page of held events is being read
	dDealing                         // the first event of the page comes next
	dCounting                        // held events are being read to find out which numbers have come
	dSkipping                        // a Skip is under way
	dGivingUp                        // a GiveUp is under way
	dForgetting                      // a Forget is under way, of an event whose numbers are not done
	dResuming                        // the parking is being resumed
	dOver
)

var decisionMoves = moves{
	of:    "a decision",
	names: []string{"begun", "reading", "dealing", "counting", "skipping", "givingUp", "forgetting", "resuming", "over"},
	next: []uint16{
		dBegun:      1<<dOver | 1<<dResuming | 1<<dCounting | 1<<dReading,
		dReading:    1<<dDealing | 1<<dOver,
		dDealing:    1<<dReading | 1<<dResuming | 1<<dCounting | 1<<dGivingUp | 1<<dOver,
		dCounting:   1<<dSkipping | 1<<dDealing | 1<<dForgetting | 1<<dResuming | 1<<dOver,
		dSkipping:   1<<dDealing | 1<<dResuming | 1<<dOver,
		dGivingUp:   1<<dDealing | 1<<dOver,
		dForgetting: 1<<dDealing | 1<<dOver,
		dResuming:   1 << dOver,
		dOver:       0,
	},
}

func (d *Decision) to(next decisionState) { move(&decisionMoves, &d.state, next) }

// decide queues a decision.
func (m *Machine) decide(d *Decision) {
	if m.state == running {
		m.writes.decisions = append(m.writes.decisions, d)
	} else if d.Kind <= Drop {
		m.do(Decided{d, m.cause})
	}
}

// Withdraw removes a decision that has not begun, and reports whether it could.
func (m *Machine) Withdraw(d *Decision) bool {
	i := slices.Index(m.writes.decisions, d)
	if i < 0 || d.state != dBegun {
		return false
	}
	m.writes.decisions = slices.Delete(m.writes.decisions, i, i+1)
	return true
}

// decided ends a decision.
func (m *Machine) decided(d *Decision, err error) {
	d.to(dOver)
	if st := d.stream; st != nil {
		st.pins--
	}
	switch {
	case d.then != nil:
		d.then(err)
	case d.Kind <= Drop:
		m.do(Decided{d, err})
	}
}

// advance carries out a decision until it is over, an action for it is under
// way, or streams have to be loaded.
func (m *Machine) advance(d *Decision) (over bool, err error) {
	for !over && m.writes.flying == nil {
		var blocked bool
		switch d.state {
		case dBegun:
			over, blocked, err = m.begin(d)
		case dDealing:
			blocked = m.dealWith(d)
		case dCounting:
			over, err = m.count(d)
		case dResuming:
			over = m.resume(d)
		default:
			panic("core: a decision waits for nothing")
		}
		if blocked {
			return false, nil
		}
	}
	return over, err
}

func (m *Machine) begin(d *Decision) (over, blocked bool, err error) {
	if d.Kind == heal || d.Kind == giveUpFaults {
		d.parking = d.parking.live()
		if d.parking.state == finished || d.Kind == heal && !d.parking.heals() {
			return true, false, nil
		}
		d.faults = slices.Clone(d.parking.faults)
	} else {
		slots := []Slot{{Key: d.Key}}
		if !m.has(slots) {
			return false, true, nil
		}
		st := slots[0].stream
		if d.Kind <= Drop && st.parking == nil {
			return true, false, m.cfg.Host.NotParkedError(d.Key)
		}
		d.stream, d.parking = st, st.parking
		st.pins++
		d.at = d.parking.closes(st) // what is held before that is fed
		d.from = d.at
	}
	switch d.Kind {
	case Resume, heal:
		d.to(dResuming)
	case SkipTo:
		m.startSkip(d, toSkip{parts: Spans{{1, d.Last}}, most: notHeld})
	case skipNumbers:
		m.startSkip(d, d.skip)
	case skipEpoch:
		return m.skipRest(d), false, nil
	default:
		m.readOn(d)
	}
	return false, false, nil
}

// readOn reads the next page of held events, if there may be more.
func (m *Machine) readOn(d *Decision) {
	read := &ReadHeld{Key: d.Key, From: d.from, Limit: feedPage, Bytes: feedBytes, decision: d}
	switch {
	case d.Kind == giveUpFaults && len(d.faults) == 0:
		d.to(dResuming)
		return
	case d.Kind == giveUpFaults:
		first := d.faults[0].Slots[0]
		read.Key, read.From, read.Limit = first.Key, first.Number, 2 // those with the same number may contradict each other
	}
	d.to(dReading)
	m.write(read)
}

// decisionRead takes a page of held events. When counting, only their numbers
// matter.
func (m *Machine) decisionRead(d *Decision, page []*Event) {
	if d.state == dCounting {
		for _, e := range page {
			n := e.on(d.stream)
			d.come = d.come.Add(Span{n, n})
			d.from = n + 1
		}
		d.skip.counted = len(page) == 0 || d.from > d.skip.last()
		return
	}
	d.to(dDealing)
	switch d.Kind {
	case Drop:
		if len(page) == 0 {
			d.to(dResuming)
		} else {
			d.from = page[len(page)-1].on(d.stream) + 1
		}
	case giveUpFaults:
		fault := d.faults[0]
		page = slices.DeleteFunc(page, func(e *Event) bool { return !sameNumbers(e.Slots, fault.Slots) })
	}
	d.page = page
}

func sameNumbers(a, b []Slot) bool {
	return slices.EqualFunc(a, b, func(s, t Slot) bool { return s.Key == t.Key && s.Number == t.Number })
}

// dealWith deals with the first event of the page, or with the missing numbers
// before it: these are skipped first, since the stream must become done without
// a gap. It returns true if streams have to be loaded first.
func (m *Machine) dealWith(d *Decision) (blocked bool) {
	if len(d.page) == 0 {
		if d.Kind == SkipHead { // the stream is closed at missing numbers, not at an event
			to := d.at
			if d.parking.gap.Key == d.Key {
				to = max(to, d.parking.gap.To)
			}
			m.startSkip(d, toSkip{parts: Spans{{d.at, to}}, most: uint64(m.cfg.MaxSkip), counted: true})
			return false
		}
		if d.Kind == giveUpFaults {
			d.faults = d.faults[1:]
		}
		m.readOn(d)
		return false
	}
	e := d.page[0]
	if !m.has(e.Slots) {
		return true
	}
	if d.Kind != giveUpFaults {
		n := e.on(d.stream)
		if EpochOf(n) > EpochOf(d.at) {
			m.startSkip(d, toEpoch(d.at, n))
			return false
		}
		if n > d.at {
			m.startSkip(d, toSkip{parts: Spans{{d.at, n - 1}}, most: uint64(m.cfg.MaxSkip), counted: true})
			return false
		}
	}
	m.giveUp(d, e)
	return false
}

// dealtWith removes the first event of the page, which was given up or
// forgotten, or is left alone.
func (d *Decision) dealtWith() {
	d.page = d.page[1:]
	if d.state != dDealing { // else it was left alone
		d.to(dDealing)
	}
	if d.Kind == SkipHead {
		d.to(dResuming)
	}
}

// giveUp gives up a held event at those of its numbers that are neither done
// nor used by another event. If a copy of it is in flight, it is left alone:
// that was accepted before the stream was closed, and its outcome counts.
func (m *Machine) giveUp(d *Decision, e *Event) {
	var free []Slot
	for i := range e.Slots {
		s := &e.Slots[i]
		done, other := s.stream.find(s.Number)
		if other != nil && m.cfg.Host.IsCopy(e, other) {
			d.dealtWith()
			return
		}
		if !done && other == nil {
			free = append(free, *s)
			free[len(free)-1].Known = s.stream.known()
		}
	}
	m.pin(e)
	d.to(dGivingUp)
	m.write(&GiveUp{Event: e, Slots: free, Why: d.Why, Cause: d.cause(), By: d.By, decision: d})
}

// giveUpDone marks numbers as done: without an effect or, if the event turned
// out to be done, by a commit that only seemed to fail.
func (m *Machine) giveUpDone(in GiveUpDone) {
	m.writes.flying = nil
	hasGone(in.Event)
	m.unpin(in.Event)
	for _, s := range in.Slots {
		if s.End {
			m.endsAt(s.stream, s.Number)
		}
		m.setDone(s.stream, s.Number, s.Number)
	}
	for _, s := range in.Slots { // another parking may be for this event alone
		if p := s.stream.parking; p != nil && p != in.decision.parking.live() {
			p.faults = slices.DeleteFunc(p.faults, func(f Fault) bool { return sameNumbers(f.Slots, in.Event.Slots) })
			m.review(p)
		}
	}
	if d := in.decision; d.state != dOver {
		d.dealtWith()
	}
}

// resume deletes a parking from the store, under all its IDs; then its streams
// are fed. Parkings that the next decisions are to heal are deleted with it, since
// the missing numbers of many may come at once.
func (m *Machine) resume(d *Decision) (over bool) {
	p := d.parking.live()
	if p.state == finished {
		return true
	}
	a := &Unpark{Fences: map[lockkeys.Key]int64{}}
	m.addUnpark(a, p)
	for _, next := range m.writes.decisions[1:] {
		if next.Kind != heal || len(a.parkings) == writeChunk || len(a.Fences) >= writeStreams {
			break
		}
		if p := next.parking.live(); p.state != finished && p.heals() && !slices.Contains(a.parkings, p) {
			m.addUnpark(a, p)
		}
	}
	m.write(a)
	return false
}

func (m *Machine) addUnpark(a *Unpark, p *parking) {
	a.parkings = append(a.parkings, p)
	a.IDs = append(a.IDs, p.ids...)
	for key := range p.streams {
		m.addFence(a.Fences, key)
	}
}

// unparkDone starts feeding the streams of the parkings.
func (m *Machine) unparkDone(a *Unpark) {
	m.writes.flying = nil
	gone := make(map[string]bool, len(a.IDs))
	for _, id := range a.IDs {
		gone[id] = true
	}
	for _, p := range a.parkings {
		if p := p.live(); p.state != finished {
			m.unparked(p, gone)
		}
	}
}

// unparked starts feeding the streams of a parking that the store has no more. If
// it has been joined with another during the Unpark, the store still has that one,
// with a part of the streams: it is written again, with all of them, and the
// decision about the parking goes on from there.
func (m *Machine) unparked(p *parking, gone map[string]bool) {
	for _, id := range p.ids {
		if !gone[id] {
			p.changes = append(p.changes, p.keys()...)
			m.dirty(p)
			return
		}
	}
	for _, st := range m.finish(p) {
		st.to(feeding)
		st.missing = 0
		m.feed(st)
		m.notify(Notice{Kind: StreamResumed, Range: Range{st.key, st.heldFrom, st.heldFrom}})
	}
}
