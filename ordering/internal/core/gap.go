package core

import (
	"cmp"
	"errors"
	"time"
)

// gap is a range of numbers at the head of a stream that have not come, while
// later ones have, or while the stream is parked for them.
//
// Invariant: from is the next number of the stream, or a later one while the
// stream has gone back to events before the gap (see rewind and retreat).
type gap struct {
	stream *stream
	state  gapState
	from   uint64
	to     uint64    // as far as known when the gap was opened
	grace  time.Time // the end of the grace time, before which the policy does not apply
	link   int       // that of the first event after it
}

// gapState says what is being done about a gap. From every state the gap ends
// when the numbers come, or become done otherwise, or its stream is parked for
// it.
//
//	from      to        when
//	(none)    grace     a later event came first, or a stream is loaded that is parked for it
//	grace     asking    the grace time is over, or too many wait
//	grace     queued    likewise, but a replay for an earlier gap has not ended, or MaxReplays are under way
//	queued    asking    that one has, or another one
//	asking    asking    those that it was for have come, and others are missing
//	asking    queued    likewise, and MaxReplays are under way
//	asking    waiting   the replay was in vain, and the grace time is not over
//	asking    skipping  the replay was in vain, and the policy is to skip
//	asking    (parked)  the replay was in vain, and the policy is to park
//	waiting   asking    the grace time is over
//	waiting   queued    likewise, and MaxReplays are under way
//	skipping  waiting   some have come meanwhile, and some are missing still
//	skipping  (parked)  they are more than MaxSkip
//
// A stream has at most one replay, which may outlive the gap that it was for.
type gapState uint8

const (
	grace    gapState = iota // late events have time to come; a timer is set
	queued                   // waits until the stream's earlier replay has ended, or is in the machine's list
	asking                   // a replay is under way
	waiting                  // a replay was in vain; a timer is set for the next one
	skipping                 // a decision skips the numbers
)

var gapMoves = moves{
	of:    "a gap",
	names: []string{"grace", "queued", "asking", "waiting", "skipping"},
	next: []uint16{
		grace:    1<<asking | 1<<queued,
		queued:   1 << asking,
		asking:   1<<asking | 1<<queued | 1<<waiting | 1<<skipping,
		waiting:  1<<asking | 1<<queued,
		skipping: 1 << waiting,
	},
}

func (g *gap) becomes(next gapState) { move(&gapMoves, &g.state, next) }

var (
	errInVain = errors.New("the replay ended without them")
	errNoSuch = errors.New("the source says that there is no such number")
)

// openGap starts the grace time for the next number of a stream. It counts from
// the arrival of the first event after the gap. If no event waits, the stream
// is parked for the gap: its grace time was over before, so the replay starts
// with the next tick. If a replay has brought the first event after the gap, the
// missing ones are asked for too, at once: they are older than it, and with a chain
// of events that each wait for one before, there would be a grace time for each. The
// policy applies no sooner.
func (m *Machine) openGap(st *stream) {
	if st.gap != nil {
		return
	}
	g := &gap{stream: st, from: st.next, to: m.missingTo(st)}
	st.gap = g
	g.grace = m.now()
	if first, _ := st.firstEarly(); first != nil {
		g.grace, g.link = first.arrived.Add(m.cfg.GapTimeout), first.Link
	}
	m.timers.set(g.grace, g)
	m.notify(Notice{Kind: GapOpened, Range: Range{st.key, g.from, g.to}})
	if g.link > 0 {
		m.ask(g)
	}
}

// narrowGap adapts the gap of a stream after its next number has changed. from
// never moves back: numbers before the gap that are taken back are not missing.
func (m *Machine) narrowGap(st *stream) {
	switch g := st.gap; {
	case g == nil:
	case st.next > g.to:
		m.closeGap(st)
	default:
		g.from = max(g.from, st.next)
	}
}

// closeGap ends the gap of a stream, if there is one.
func (m *Machine) closeGap(st *stream) {
	if g := st.gap; g != nil {
		st.gap = nil
		m.notify(Notice{Kind: GapClosed, Range: Range{st.key, g.from, g.from}})
	}
}

// due is called when the timer of a gap has expired. Timers are never
// cancelled, so it checks that the gap still exists.
func (m *Machine) due(g *gap) {
	if g.stream.gap == g {
		m.ask(g)
	}
}

// ask starts a replay of a gap that waits.
func (m *Machine) ask(g *gap) {
	if (g.state == grace || g.state == waiting) && m.state == running {
		m.askNow(g)
	}
}

// askNow starts a replay of a gap, or queues it: behind the stream's earlier
// replay, since with two at once the end of one would not tell which numbers are
// still missing; or until fewer than MaxReplays are under way. What comes
// meanwhile is not asked for.
func (m *Machine) askNow(g *gap) {
	if !g.stream.replaying && m.replays < m.cfg.MaxReplays {
		m.startReplay(g)
		return
	}
	if g.state != queued {
		g.becomes(queued)
	}
	if !g.stream.replaying {
		m.queuedGaps = append(m.queuedGaps, g)
	}
}

func (m *Machine) startReplay(g *gap) {
	g.becomes(asking)
	g.stream.replaying = true
	m.replays++
	r := Range{g.stream.key, g.from, m.missingTo(g.stream)}
	m.notify(Notice{Kind: ReplayAsked, Range: r})
	m.do(Replay{Range: r, Link: g.link, Before: m.before(g.link, r.To-r.From+1)})
}

// Of a chain of events that each wait for one before, on another stream each time,
// a replay can ask only for the first one that is missing. So it asks for some of
// those before that one as well: from the second link of the chain on linkGrowth
// times as many with each, up to mostBefore, so that few are brought in vain where it
// is short.
const (
	linkGrowth = 4
	mostBefore = 1024
	perBefore  = 4 << 10 // bytes that are reckoned for each
)

// before returns how many events a replay of width numbers asks for besides. Its
// own numbers count, and all replays under way share what room there is for events
// that wait in memory.
func (m *Machine) before(link int, width uint64) int {
	most := 1
	for ; link > 1 && most < mostBefore; link-- {
		most *= linkGrowth
	}
	room := min(int64(m.cfg.MaxEarlyTotal-m.early), (m.cfg.MaxEarlyBytes-m.earlyBytes)/perBefore) / int64(m.replays)
	return int(max(0, min(int64(most), room)-int64(min(width, mostBefore))))
}

// nextReplays starts replays of gaps in the machine's list that are still open.
func (m *Machine) nextReplays() {
	for len(m.queuedGaps) > 0 && m.replays < m.cfg.MaxReplays && m.state == running {
		g := m.queuedGaps[0]
		m.queuedGaps = m.queuedGaps[1:]
		if g.stream.gap == g {
			m.startReplay(g)
		}
	}
}

// answered is a replay that has ended. Its events have arrived, but may still be
// among the arrivals, behind others whose streams are being loaded: until they
// have been processed it is open which numbers are missing.
type answered struct {
	Replayed
	behind uint64 // arrivals, counted from the first on
}

// replayed ends a replay.
func (m *Machine) replayed(in Replayed) {
	m.replays--
	m.nextReplays()
	m.answered = append(m.answered, answered{in, m.admitted + uint64(len(m.arrivals))})
	m.takeAnswers()
}

// takeAnswers processes the ends of replays whose events have been processed.
func (m *Machine) takeAnswers() {
	for len(m.answered) > 0 && m.answered[0].behind <= m.admitted {
		in := m.answered[0].Replayed
		m.answered = m.answered[1:]
		m.takeAnswer(in)
	}
}

// takeAnswer processes the end of a replay. Numbers that never existed, according
// to the source, are skipped first, but only within the requested range: the
// source was not asked about others.
func (m *Machine) takeAnswer(in Replayed) {
	st := m.streams[in.Key] // it stays in memory while it is replayed
	var parts Spans
	for _, r := range in.NoSuch {
		if from, to := max(r.From, in.From), min(r.To, in.To); r.Key == in.Key && from <= to {
			parts = parts.Add(Span{from, to})
		}
	}
	if len(parts) == 0 {
		m.replayOver(st, in.To, in.Err)
		return
	}
	m.decide(&Decision{Kind: skipNumbers, Key: st.key, skip: toSkip{parts: parts, most: uint64(m.cfg.MaxSkip)}, Why: errNoSuch,
		then: func(err error) { m.replayOver(st, in.To, errors.Join(in.Err, err)) }})
}

// replayOver decides about the gap after a replay of the numbers up to `to`.
// The gap may have changed in the meantime: it may be queued behind this
// replay, be closed, or have moved on to later numbers, which were not part of
// the replay.
func (m *Machine) replayOver(st *stream, to uint64, cause error) {
	st.replaying = false
	g := st.gap
	switch {
	case m.state != running, g == nil, g.state != asking && g.state != queued:
		m.rest(st)
	case g.state == queued, g.from > to: // or the requested numbers have come, and later ones are missing
		m.askNow(g)
	case st.early[g.from] != nil, st.isHeld(g.from) && st.missing == 0: // the number has come, and waits for another stream, or the store holds it
		m.closeGap(st)
	default:
		m.settleGap(g, cmp.Or(cause, errInVain))
	}
}

// settleGap applies the policy to numbers that no replay has brought. If they
// were requested before the end of the grace time, because too many events
// waited, it waits for that first: they may be late only.
func (m *Machine) settleGap(g *gap, cause error) {
	st := g.stream
	if m.now().Before(g.grace) { // the timer for that is still set
		g.becomes(waiting)
		return
	}
	r := Range{st.key, g.from, m.missingTo(st)}
	err := m.cfg.Host.GapError(r, cause)
	switch m.cfg.GapPolicy {
	case ParkGap:
		m.parkGap(g, r, err)
	case StopAtGap:
		m.stop(err)
	case SkipGap:
		g.becomes(skipping)
		m.decide(&Decision{Kind: skipNumbers, Key: st.key, skip: toSkip{parts: Spans{{r.From, r.To}}, most: uint64(m.cfg.MaxSkip)}, Why: err,
			then: func(failed error) { m.gapSkipped(g, err, failed) }})
	}
}

// gapSkipped continues after a skip by policy.
func (m *Machine) gapSkipped(g *gap, err, failed error) {
	st := g.stream
	switch {
	case st.gap != g:
		m.rest(st)
	case failed != nil: // more than MaxSkip
		m.parkGap(g, Range{st.key, g.from, m.missingTo(st)}, errors.Join(err, failed))
	default: // some came during the skip, so the gap is still open for others: it gets a new grace time
		g.becomes(waiting)
		g.grace = m.now().Add(m.cfg.GapTimeout)
		m.timers.set(g.grace, g)
	}
}

// parkGap closes a stream whose missing numbers no replay has brought. If it is
// already closed for them, because too many events waited (Waiting), that
// parking now becomes one for a gap, and is reported as such.
func (m *Machine) parkGap(g *gap, r Range, err error) {
	st := g.stream
	if p := st.parking; st.missing == 0 || g.from < st.missing { // less: an event before it was taken back and has not come again
		p = m.shut(st, g.from, g.from, m.newParking(Gap, err), "")
		p.gap = r
	} else if p.reason == Waiting {
		p.reason, p.cause, p.told = Gap, err, 0
		m.notify(Notice{Kind: StreamParked, Range: Range{st.key, st.heldFrom, st.heldFrom}, Reason: Gap, Err: err})
		m.dirty(p)
	}
	m.closeGap(st)
	m.rest(st)
}
