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
	At    uint64 // if not 0: only if the stream is closed from this number on, as the operator has seen
	ID    string // if not "": only if it is closed by the parking with this ID; another one may be at the same number
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
	most    int         // if not 0: of giveUpFaults, how many events to read, since fewer had not the first of faults
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
		if d.Kind <= Drop && (st.parking == nil || d.At != 0 && d.At != st.parking.closes(st) || d.ID != "" && d.ID != st.parking.id ||
			(d.Kind == SkipHead || d.Kind == Drop) && st.heals()) { // what was missing has come, and is not to be given up
			return true, false, m.cfg.Host.NotParkedError(d.Key, d.At)
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
