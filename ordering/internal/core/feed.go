package core

import "slices"

// Bounds of a page of held events: their number, and their bytes, unless it is
// one event.
const (
	feedPage  = 64
	feedBytes = int64(4 << 20)
)

// feedState is the progress of feeding a stream: of reading its held events
// back from the store, a page at a time, and processing them like new arrivals.
//
//	from         to           when
//	feedNot      feedWanted   the stream's parking was resumed, or a page of it is through
//	feedWanted   feedReading  it is its turn
//	feedWanted   feedNot      it cannot be fed now: what it waits for has it fed again
//	feedReading  feedPlacing  the page has come
//	feedPlacing  feedNot      the streams of its events are in memory: they have arrived
//	feedPlacing  feedWanted   another event is held meanwhile, or the stream is closed before them
type feedState uint8

const (
	feedNot     feedState = iota
	feedWanted            // it is in the list of streams to be fed
	feedReading           // a page of it is being read
	feedPlacing           // the page waits for other streams of its events to be loaded
)

var feedMoves = moves{
	of:    "a feeding",
	names: []string{"not", "wanted", "reading", "placing"},
	next: []uint16{
		feedNot:     1 << feedWanted,
		feedWanted:  1<<feedReading | 1<<feedNot,
		feedReading: 1 << feedPlacing,
		feedPlacing: 1<<feedNot | 1<<feedWanted,
	},
}

func (st *stream) feedTo(next feedState) { move(&feedMoves, &st.feed, next) }

// feed starts reading the next page of a stream's held events. When there are
// none left, the stream is open.
func (m *Machine) feed(st *stream) {
	if st.feed == feedNot {
		st.feedTo(feedWanted)
		m.writes.feeds = append(m.writes.feeds, st)
	}
}

// feeds reports whether the next page may be read. Not while events of the last
// page are in flight, which bounds memory; nor while the window has events from
// heldFrom on: they were recalled or still run, and come first if they are held.
// Events that are being written to the store are there before the page is read.
func (st *stream) feeds() bool {
	return st.state == feeding && st.fed == 0 && !st.isHeld(st.window.last())
}

// goOnFeeding continues the feeding of a stream, if it may be fed now.
func (m *Machine) goOnFeeding(st *stream) {
	if st.feeds() {
		m.feed(st)
	}
}

// readAgain discards a page that has been read and not placed yet, because it
// is not the current contents of the store from heldFrom on.
func (st *stream) readAgain() {
	if st.feed == feedPlacing {
		st.feedTo(feedWanted)
	}
}

// unfeed records that a fed event is over; with the last one of the page,
// feeding goes on.
func (m *Machine) unfeed(e *Event) {
	for _, st := range e.fedBy {
		m.fed--
		st.fed--
		m.goOnFeeding(st)
	}
}

// feedNext continues the first feeding of the list. It returns false if that
// waits for streams to be loaded.
func (m *Machine) feedNext(st *stream) bool {
	switch st.feed {
	case feedWanted:
		if !st.feeds() {
			m.feedOver(st)
			return true
		}
		limit := feedPage
		if m.early >= m.cfg.MaxEarlyTotal {
			limit = 1 // memory is full of early events, which may wait for this very stream: one event is enough for progress
		}
		st.feedTo(feedReading)
		m.write(&ReadHeld{Key: st.key, From: st.readFrom, Limit: limit, Bytes: max(0, min(feedBytes, m.cfg.MaxEarlyBytes-m.earlyBytes)), feed: st})
	case feedPlacing:
		all := true
		for _, e := range st.page {
			all = m.has(e.Slots) && all
		}
		if !all {
			return false
		}
		page := st.page
		m.feedOver(st)
		m.placePage(st, page)
	}
	return true
}

func (m *Machine) feedOver(st *stream) {
	st.page = nil
	st.feedTo(feedNot)
	m.writes.feeds = m.writes.feeds[1:]
}

// heldRead takes a page of held events, for a decision or for the feeding of a
// stream.
func (m *Machine) heldRead(in HeldRead) {
	m.writes.flying = nil
	if d := in.decision; d != nil {
		if d.state != dOver {
			m.decisionRead(d, in.Events)
		}
		return
	}
	st := in.feed
	st.page = in.Events
	st.feedTo(feedPlacing)
	if in.From != st.readFrom { // the stream was closed at an earlier number during the read
		st.readAgain()
	}
}

// placePage processes a page of held events as arrivals, until one of them
// closes the stream again. The next page is read when all of them are over. It
// begins with the last number of this one, not behind it, since the store may
// hold more events with that number, which contradict it; placed keeps the ones
// that were fed already.
func (m *Machine) placePage(st *stream, page []*Event) {
	fresh := false
	for _, e := range page {
		if st.state != feeding || len(st.holding) > 0 {
			break
		}
		n := e.on(st)
		if n == st.readFrom && st.wasPlaced(e) {
			continue
		}
		// A copy that came from the source before the stream was closed may still be
		// in flight. Its outcome counts for the held event, so feeding waits for it.
		_, twin := st.find(n)
		isTwin := twin != nil && m.cfg.Host.IsCopy(e, twin)
		if !isTwin {
			m.place(e)
		}
		if n != st.readFrom {
			st.placed = nil
		}
		st.heldFrom, st.readFrom = n+1, n
		st.placed = append(st.placed, slices.Clone(e.Slots))
		fresh = true
		m.touch(st) // an early event on several streams may have waited for this one to be fed as far
		st.fed++
		m.fed++
		if isTwin {
			twin.fedBy = append(twin.fedBy, st)
			continue
		}
		e.fedBy = append(e.fedBy, st)
		m.arrive(e)
	}
	switch {
	case st.state != feeding || st.fed > 0 || len(st.holding) > 0:
	case len(page) == 0:
		st.to(open)
		st.heldFrom = notHeld
		m.touch(st)
	default:
		if !fresh { // all of them were fed before and are held again, for another parked stream: go on behind them
			st.readFrom++
		}
		m.feed(st)
	}
}

// wasPlaced reports whether an event with number readFrom was fed with the last
// page.
func (st *stream) wasPlaced(e *Event) bool {
	return slices.ContainsFunc(st.placed, func(slots []Slot) bool { return sameNumbers(slots, e.Slots) })
}

// on returns the event's number on one of its streams.
func (e *Event) on(st *stream) uint64 {
	i := slices.IndexFunc(e.Slots, func(s Slot) bool { return s.Key == st.key })
	return e.Slots[i].Number
}
