package core

import (
	"maps"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Config has the bounds of a [Machine]; the type of the same name in package
// ordering describes them. All must be set.
type Config struct {
	GapTimeout    time.Duration
	GapPolicy     GapPolicy
	MaxSkip       int
	MaxReplays    int // under way at a time
	MaxEarly      int
	MaxEarlyTotal int
	MaxEarlyBytes int64
	MaxActive     int
	IdleTTL       time.Duration
	MaxSpread     int  // streams that one failure may close; 0 for any number
	SpreadStops   bool // at MaxSpread the machine stops; else the failed events are given up

	// NewID returns a unique ID for a parking.
	NewID func() string
	Host  Host
}

// GapPolicy is what happens to a stream whose missing numbers no replay has
// brought.
type GapPolicy uint8

// Policies for gaps.
const (
	ParkGap GapPolicy = iota
	SkipGap
	StopAtGap
)

// Host answers questions about the contents of events, of which a machine knows
// only the numbers. Its methods are pure functions.
type Host interface {
	// IsCopy reports whether e, which has a number or, as a command, the ID in
	// common with of, is another copy of it.
	IsCopy(e, of *Event) bool
	// Name returns the name of an event, for messages.
	Name(e *Event) string
	// FaultOf returns the record of a failed event for its parking.
	FaultOf(e *Event) Fault
	// Detach returns an event with the same numbers that remains valid after
	// the Tell of e.
	Detach(e *Event) *Event
	// Errors of events that can never run, and of gaps.
	ConflictError(e, other *Event) error
	ContradictionError(events []*Event) error
	EndedError(e *Event) error
	GapError(r Range, cause error) error
	TooFarError(r Range, n uint64) error
	SpreadError(p ParkingState) error
	NotParkedError(key lockkeys.Key, at uint64) error
	LostError(e *Event) error
}

// Machine makes all decisions about events. It has no goroutine, mutex, clock,
// store or logger: [Machine.Step] takes one input at a time and returns the
// actions that follow from it. It is not safe for concurrent use.
type Machine struct {
	cfg   Config
	clock func() time.Time // of the step under way
	at    time.Time        // of the step under way; zero until the clock was read
	out   []Action         // of the step under way
	state machineState
	cause error // why it is not running

	streams  map[lockkeys.Key]*stream
	commands map[string]*Event // in flight, by ID
	parkings map[*parking]struct{}
	idle     idleList
	timers   timers
	touched  []*stream // to be examined before the step ends

	arrivals []*Event // in the order of arrival; see arrived
	admitted uint64   // how many have left arrivals so far
	loads    lane     // reads from the store
	writes   work     // writes to it

	replays    int        // under way
	queuedGaps []*gap     // until fewer replays are under way, in order; some are over
	answered   []answered // replays that have ended, whose events have not all been processed

	early      int   // events that wait for earlier ones, and copies of them
	earlyBytes int64 // of those
	pending    int   // events that wait for the store: to be loaded, checked or held
	pendBytes  int64 // of those
	fed        int   // fed events that are not over, once for each stream they are fed for
	searching  bool  // a timer is set for a search through all waiting events
	sweeping   bool  // a timer is set for the search for streams that have been idle for long
}

// machineState is the state of a machine as a whole.
//
//	from      to        when
//	running   stopped   a failure with the policy Stop, a stream that has another holder, a shutdown
//	stopped   over      nothing runs any more
type machineState uint8

const (
	running machineState = iota
	stopped              // nothing is submitted; running events come to their ends, and holds are written
	over                 // all accepted events have been given back
)

var machineMoves = moves{
	of:    "a machine",
	names: []string{"running", "stopped", "over"},
	next:  []uint16{running: 1 << stopped, stopped: 1 << over, over: 0},
}

func (m *Machine) to(next machineState) { move(&machineMoves, &m.state, next) }

// New returns a machine without streams.
func New(cfg Config) *Machine {
	m := &Machine{cfg: cfg}
	m.streams = map[lockkeys.Key]*stream{}
	m.commands = map[string]*Event{}
	m.parkings = map[*parking]struct{}{}
	m.idle.init()
	return m
}

// Step processes an input, and appends to actions those that follow from it. now
// returns the time at which it happened: it is called at most once, and not at all
// in the steps of an in-order event.
//
// The input is processed first, which may touch streams. Then the head of each
// touched stream is examined: whether it may run, or is missing. This is
// repeated until no stream is touched. Last, the next actions for the store are
// started.
func (m *Machine) Step(now func() time.Time, in Input, actions []Action) []Action {
	m.clock, m.at, m.out = now, time.Time{}, actions
	m.take(in)
	m.settle()
	actions, m.clock, m.out = m.out, nil, nil
	return actions
}

// now returns the time of the step under way.
func (m *Machine) now() time.Time {
	if m.at.IsZero() {
		m.at = m.clock()
	}
	return m.at
}

func (m *Machine) take(in Input) {
	switch in := in.(type) {
	case Arrived:
		m.arrived(in.Event)
	case Ended:
		m.ended(in.Event)
	case Began:
		m.began(in)
	case Loaded:
		m.loaded(in)
	case NotSubmitted:
		m.notSubmitted(in)
	case Looked:
		m.looked(in)
	case HoldDone:
		m.holdDone(in)
	case ParkDone:
		m.parkDone(in.Park)
	case UnparkDone:
		m.unparkDone(in.Unpark)
	case HeldRead:
		m.heldRead(in)
	case SkipDone:
		m.skipDone(in.Skip)
	case GiveUpDone:
		m.giveUpDone(in)
	case ForgetDone:
		m.forgetDone(in.Forget)
	case Replayed:
		m.replayed(in)
	case Ticked:
		m.tick()
	case Fenced:
		m.stop(in.Err)
	case Stopped:
		m.stop(in.Err)
	case Abandoned:
		m.abandon(in.Err)
	case Decide:
		m.decide(in.Decision)
	}
}

// settle does everything that follows from an input, until nothing is left:
// nextWrite may make held events arrive whose streams are in memory, and so
// touch streams again.
func (m *Machine) settle() {
	for again := true; again; again = len(m.touched) > 0 {
		for len(m.touched) > 0 {
			last := len(m.touched) - 1
			st := m.touched[last]
			m.touched = m.touched[:last]
			st.touched = false
			m.lookAt(st)
		}
		if m.state != over {
			m.nextWrite()
		}
	}
	m.evict()
	if m.state != over {
		m.nextRead() // last, so that streams just evicted are loaded together with the missing ones
	}
}

// touch makes sure that a stream is examined before the step ends.
func (m *Machine) touch(st *stream) {
	if !st.touched {
		st.touched = true
		m.touched = append(m.touched, st)
	}
}

func (m *Machine) touchAll(e *Event) {
	for i := range e.Slots {
		m.touch(e.Slots[i].stream)
	}
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) notify(n Notice) {
	n.Time = m.now()
	m.do(Notify{n})
}

// stop ends the acceptance of events, and drops decisions and feeding.
func (m *Machine) stop(cause error) {
	if m.state == running {
		m.to(stopped)
		m.cause = cause
		m.do(Stop{cause})
		m.dropWork()
	}
}

// abandon gives back all accepted events that the dispatcher does not have.
func (m *Machine) abandon(cause error) {
	m.stop(cause)
	m.to(over)
	for _, e := range slices.Concat(m.arrivals, m.loads.flying, m.loads.checks, m.writes.allHolds()) {
		m.end(e, Unfinished, m.cause)
	}
	for _, id := range slices.Sorted(maps.Keys(m.commands)) {
		for _, rival := range m.commands[id].rivals {
			m.end(rival, Unfinished, m.cause)
		}
		m.commands[id].rivals = nil
	}
	m.arrivals, m.loads, m.writes = nil, lane{}, work{}
	m.queuedGaps, m.answered = nil, nil
	for _, st := range m.sortedStreams() {
		st.gap = nil
		for _, n := range slices.Sorted(maps.Keys(st.early)) {
			e := st.early[n]
			m.leaveEarly(e)
			m.end(e, Unfinished, m.cause)
		}
	}
	m.timers = nil
}

// sortedStreams returns the streams in memory in order of their keys, so that
// the same inputs always have the same actions.
func (m *Machine) sortedStreams() []*stream {
	streams := slices.Collect(maps.Values(m.streams))
	sortByKey(streams)
	return streams
}

// end reports the outcome of an event. Nothing may refer to it any more.
func (m *Machine) end(e *Event, r Result, err error) {
	m.unfeed(e)
	e.to(Over)
	for i := range e.Slots {
		if st := e.Slots[i].stream; st != nil {
			m.restSince(st, e.At)
		}
	}
	e.Result, e.Err = r, err
	m.do(Tell{e})
}

// refuse ends an event that can never run. A held one was acknowledged, so its
// source will not hear of it: it is parked for an operator.
func (m *Machine) refuse(e *Event, err error) {
	m.notify(Notice{Kind: EventRefused, Event: e, Err: err})
	if e.Held {
		m.reject(e, err)
		return
	}
	m.end(e, Refused, err)
}
