package core

import (
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/lockkeys"
)

// checks are the promises, looked at against the plain models while a simulation
// runs. One that is broken is a panic with a violation.
type checks struct {
	w      *world
	ledger ledger
}

type violation string

func (c *checks) fail(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

// applies looks at an effect that is about to become durable: the numbers before
// the event's are done, but for those of tasks that do not conflict, and nothing
// that conflicts was applied after it.
func (c *checks) applies(s *store, m *message) {
	if c.w.wentBack {
		return
	}
	for _, p := range m.slots {
		st := s.stream(p.key)
		for _, r := range st.done.Without(Span{1, p.number}) {
			if EpochOf(r.From) != EpochOf(p.number) && r.To > lastOf(r.From) {
				c.fail("%v is applied before its epoch has begun: %v are not done", m, r)
			}
			for n := r.From; n < p.number && n <= r.To; n++ {
				if !c.isBeside(m, p.key, n) {
					c.fail("%v is applied before %s is done", m, place{key: p.key, number: n})
				}
			}
		}
		for _, n := range st.above(p.number) {
			if j := st.jobs[n]; j.status == processed && !j.after && j.m.keys.conflicts(m.keys) {
				c.fail("%v is applied after %v, which comes after it", m, j.m)
			}
		}
	}
}

// isBeside reports whether an event that does not conflict has the number, and was
// submitted before; it may have failed while m ran.
func (c *checks) isBeside(m *message, key lockkeys.Key, n uint64) bool {
	for _, r := range c.w.plan.at[key][n] {
		if c.w.host().submitted[r] && !r.keys.conflicts(m.keys) {
			return true
		}
	}
	return false
}

func (c *checks) holds(*store, *message) {}

func (c *checks) parks(p ParkingState, fences map[lockkeys.Key]int64) {
	if len(p.Streams) == 0 {
		c.fail("parking %s has no streams", p.ID)
	}
	for _, closed := range p.Streams {
		if fences[closed.Key] == 0 {
			c.fail("parking %s is written without the token of stream %s", p.ID, closed.Key)
		}
	}
}

// skips looks at numbers that are about to be skipped: nothing has come for them, and
// what is skipped for a later epoch is the rest of those before.
func (c *checks) skips(s *store, key lockkeys.Key, r Span) {
	if c.w.wentBack {
		return
	}
	for _, m := range s.held {
		if n := m.on(key); r.From <= n && n <= r.To {
			if _, others := s.own(m); !others { // else it can never run, which the machine is about to find out
				c.fail("%s is skipped, though %v is held", span(Range{key, r.From, r.To}), m)
			}
		}
	}
	for d := range c.w.host().live {
		if n, st := d.m.on(key), d.event.state; r.From <= n && n <= r.To && (st == Early || st == Submitted || st == Holding) {
			c.fail("%s is skipped, though %v has come", span(Range{key, r.From, r.To}), d.m)
		}
	}
	if EpochOf(r.From) != EpochOf(r.To) && !EndsEpoch(r.To) {
		c.fail("%s is skipped, which is of several epochs", span(Range{key, r.From, r.To}))
	}
}

// knows looks at what a write says is done: all that the machine knows, so that a store
// that has lost some of it refuses the write.
func (c *checks) knows(h *host, key lockkeys.Key, known uint64) {
	if st := h.m.streams[key]; st.known() != known {
		c.fail("a write says that %s is done up to %d: %s", key, known, describe(st))
	}
}

// starts looks at a task that is about to start: none that conflicts has started.
func (c *checks) starts(t *task) {
	for _, o := range t.h.tasks {
		if o != t && o.phase != taskWaiting && o.m.keys.conflicts(t.m.keys) {
			c.fail("%v starts while %v has keys that conflict", t.m, o.m)
		}
	}
	c.inOrder(t)
}

// inOrder looks whether a task starts before an event that conflicts and came
// before it, though neither has waited for a gap, or is parked.
func (c *checks) inOrder(t *task) {
	d := t.e.Owner.(*delivery)
	if d.nth == 0 || !t.e.arrived.IsZero() || d.recall {
		return
	}
	for o := range t.h.live {
		if o.nth == 0 || o.nth >= d.nth || !o.event.arrived.IsZero() || o.event.Result != 0 || !o.m.keys.conflicts(t.m.keys) {
			continue
		}
		if st := o.event.state; st == Arriving && !c.isCopy(o) || st == Early || st == Submitted && !o.recall {
			c.fail("%v starts before %v, which came before it: %v", t.m, o.m, st)
		}
	}
}

// isCopy reports whether a delivery has the outcome of another one.
func (c *checks) isCopy(d *delivery) bool {
	return !slices.Contains(d.h.m.arrivals, d.event)
}

// isStolen reports whether another holder has a stream of a message, and this one
// does not know.
func (c *checks) isStolen(m *message) bool {
	return slices.ContainsFunc(m.slots, func(p place) bool { return c.w.store.stream(p.key).stolen })
}

// isOnItsWay reports whether a machine has a command with an ID.
func (c *checks) isOnItsWay(id string) bool {
	for _, h := range c.w.hosts {
		for _, d := range c.w.deliveriesOf(h) {
			if d.m.command == id {
				return true
			}
		}
	}
	return false
}

// loses looks at a machine that was told that the store knows nothing of an event
// of which the machine knows a number to be done: the store has lost commits, and
// the machine stops.
func (c *checks) loses(h *host, in Looked) {
	for i, v := range in.Verdicts {
		if v.Kind != Open {
			continue
		}
		if !c.w.wentBack {
			c.fail("the machine takes a number of %v for done", in.Events[i].Owner.(*delivery).m)
		}
		if !h.stopped {
			c.fail("the store has lost commits, and nobody has noticed")
		}
		c.w.losses++
	}
}

// handles looks at a call of a handler: the event was not applied before.
func (c *checks) handles(t *task) {
	own, _ := c.w.store.own(t.m)
	if t.h.term == c.w.store.term && !c.w.wentBack && own == processed && !c.isStolen(t.m) {
		c.fail("the handler is called for %v, which is done", t.m)
	}
	if t.h.alone != nil && t.h.alone != t {
		c.fail("the handler is called for %v beside %v, which runs alone", t.m, t.h.alone.m)
	}
}

// kills looks at a message that kills the process: the store counts it, if anybody
// could know.
func (c *checks) kills(t *task) {
	if t.isSuspect() && !t.run.marked {
		c.fail("%v kills the process, and was not marked", t.m)
	}
}

// crashed looks at a message that does not run any more, since a process has ended
// each time: it was its fault, or it happened to run alone when a process ended
// otherwise. A store that was restored has an older count.
func (c *checks) crashed(m *message) {
	c.w.crashed++
	if !m.kills && c.w.restores == 0 && m.unlucky < max(1, c.w.maxCrashes-1) {
		c.fail("%v is given up, which has killed no process", m)
	}
}

func (c *checks) ends(t *task) {
	if t.e.Outcome == Unfinished && !t.h.stopped {
		c.fail("%v is unfinished though nothing has stopped", t.m)
	}
}

// tells looks at what a source is told: it is so, and told once.
func (c *checks) tells(h *host, e *Event, r Result, err error) {
	d := e.Owner.(*delivery)
	if d.told || d.h != h {
		c.fail("%v is told twice", d.m)
	}
	d.told = true
	delete(h.live, d)
	if c.w.wentBack {
		return
	}
	own, others := c.w.store.own(d.m)
	ok := false
	switch r {
	case Applied:
		ok = own == processed
	case Duplicate:
		ok = own != 0 || c.w.store.isForgotten(d.m)
	case GivenUp:
		ok = own == givenUp || c.w.store.isForgotten(d.m)
	case Held:
		ok = c.w.store.isHeld(d.m) || !d.source && h.term != c.w.store.term
		d.m.wasHeld = d.m.wasHeld || d.source
	case Refused:
		ok = others || d.m.beyond || d.m.command == "" && c.hasRival(h, d.m)
	case Failed:
		ok = d.m.command != ""
	case Unfinished:
		ok = h.stopped
	}
	if !ok {
		c.fail("%v is told result %d (%v), but the store has %d by itself, %v by others", d.m, r, err, own, others)
	}
}

// isDurable looks at an outcome when a source hears of it, which may be after the
// term in which it came about: it is durable.
func (c *checks) isDurable(m *message, r Result) {
	own, _ := c.w.store.own(m)
	switch {
	case c.w.wentBack, own != 0, c.w.store.isForgotten(m):
	case r == Applied, r == Duplicate, r == GivenUp, r == Held && !c.w.store.isHeld(m) && !c.w.store.letters[m]:
		c.fail("%v is told result %d, which is not durable", m, r)
	}
}

// hasRival reports whether another event with a number of a message, or its ID,
// is on its way or held.
func (c *checks) hasRival(h *host, m *message) bool {
	for _, r := range m.rivals {
		if c.w.store.isHeld(r) {
			return true
		}
		for d := range h.live {
			if d.m == r {
				return true
			}
		}
	}
	return false
}

// isOver looks at a machine that was abandoned: all is told.
func (c *checks) isOver(h *host) {
	for _, d := range c.w.deliveriesOf(h) {
		if !d.told && (d.source || d.event.state != Arriving) {
			c.fail("%v is not told at the end: %v", d.m, d.event.state)
		}
	}
	if len(h.decisions) > 0 {
		c.fail("%d decisions are not told at the end", len(h.decisions))
	}
}

// atEnd looks at what has become of everything.
func (c *checks) atEnd() {
	w := c.w
	for _, m := range w.plan.messages {
		own, others := w.store.own(m)
		switch {
		case own != 0:
		case m.command != "":
			if !m.acked {
				c.fail("%v has not run in the end", m)
			}
		case m.wasHeld && !w.store.letters[m] && !w.store.isForgotten(m):
			c.fail("%v was held, and is lost", m)
		case !m.acked && m.dropped && (others || !c.isMissed(m)): // an operator has skipped it, or what came after it
		case !m.acked:
			c.fail("%v is not acknowledged in the end", m)
		case !others && len(m.rivals) == 0 && !m.beyond && !w.store.letters[m]:
			c.fail("%v has not run in the end, and nothing was against it", m)
		}
	}
	m := w.host().m
	if m.early != 0 || m.earlyBytes != 0 || m.pending != 0 || m.pendBytes != 0 || len(m.parkings) != 0 || len(m.commands) != 0 {
		c.fail("in the end: early %d (%d bytes), pending %d (%d bytes), %d parkings, %d commands",
			m.early, m.earlyBytes, m.pending, m.pendBytes, len(m.parkings), len(m.commands))
	}
	for _, st := range m.sortedStreams() {
		if st.state != open || !st.idle {
			c.fail("in the end: %s", describe(st))
		}
	}
}

// isMissed reports whether the event behind a message on one of its streams was
// applied.
func (c *checks) isMissed(m *message) bool {
	return slices.ContainsFunc(m.slots, func(p place) bool {
		return c.w.store.stream(p.key).jobs[p.number+1].status == processed
	})
}

// step looks at a machine after each step.
func (c *checks) step(h *host) {
	m := h.m
	if len(m.touched) > 0 {
		c.fail("streams are touched after a step")
	}
	if m.idle.len > m.cfg.MaxActive && m.state != over {
		c.fail("%d idle streams", m.idle.len)
	}
	writes, loads, looks := 0, 0, 0
	for _, a := range h.reads {
		if _, ok := a.(*Load); ok {
			loads++
		} else {
			looks++
		}
	}
	for range h.writes {
		writes++
	}
	if writes > 1 || loads > 1 || looks > 1 {
		c.fail("%d writes, %d loads and %d looks at once", writes, loads, looks)
	}
	if m.state == over || c.w.steps%32 != 0 && !c.w.trace {
		return
	}
	c.invariants(h)
}

// invariants are those that the comments of the types state.
func (c *checks) invariants(h *host) {
	m := h.m
	early, bytes, fedEarly := map[*Event]bool{}, int64(0), 0
	holding, fed, allFed := map[*stream]map[uint64]int{}, map[*stream]int{}, 0
	for d := range h.live {
		e := d.event
		for _, st := range e.fedBy {
			fed[st]++
		}
		if e.state != Holding {
			continue
		}
		for i := range e.Slots {
			s := &e.Slots[i]
			if holding[s.stream] == nil {
				holding[s.stream] = map[uint64]int{}
			}
			holding[s.stream][s.Number]++
			if !s.stream.isHeld(s.Number) {
				c.fail("%v is on its way into the store, and %s is open there", d.m, describe(s.stream))
			}
		}
	}
	for key, st := range m.streams {
		bad := func(what string) { c.fail("%s: %s", what, describe(st)) }
		if st.key != key || st.touched {
			bad("key, or touched")
		}
		switch st.state {
		case open:
			if st.heldFrom != notHeld || st.parking != nil {
				bad("open")
			}
		case feeding:
			if st.heldFrom == notHeld || st.parking != nil {
				bad("feeding")
			}
		case parked:
			if p := st.parking; p == nil || p.state == finished || p.streams[key].Key != key || st.heldFrom == notHeld {
				bad("parked")
			} else if _, ok := m.parkings[p]; !ok {
				bad("parked by one that the machine has not")
			}
		case gone:
			bad("gone")
		}
		runs, last := 0, uint64(0)
		for i, e := range st.window.entries[st.window.head:] {
			if e.number <= last || e.number >= st.next || i == 0 && e.event == nil {
				bad("window")
			}
			last = e.number
			if e.event == nil || e.event == undone {
				continue
			}
			runs++
			if e.event.state != Submitted || e.event.on(st) != e.number {
				bad("window has " + e.event.state.String())
			}
		}
		if runs != st.window.running || runs == 0 && !st.window.empty() {
			bad("window's count")
		}
		for n, e := range st.early {
			if _, in := st.isDone(n); n < st.next && in != undone || st.ahead.Contains(n) || e.state != Early || e.on(st) != n || st.isHeld(n) && !(e.Held && st.state == feeding) || !slices.Contains(st.order, n) {
				bad("early")
			}
			if !early[e] {
				early[e] = true
				bytes += e.cost()
				if e.Held {
					fedEarly += 1 + len(e.Copies)
				}
			}
		}
		own := 0
		for _, e := range st.early {
			if !e.Held {
				own++
			}
		}
		if own > m.cfg.MaxEarly+h.retaken {
			bad("too many early ones")
		}
		if st.gap != nil && (st.gap.stream != st || st.gap.from < st.next) {
			bad("gap")
		}
		if quiet := st.state == open && st.isQuiet(); st.idle != quiet && !(quiet && st.idle && st.ended > 0) {
			bad("idle")
		}
		if !sameCounts(st.holding, holding[st]) {
			bad(fmt.Sprintf("holding, which should be %v", holding[st]))
		}
		if st.fed != fed[st] {
			bad(fmt.Sprintf("fed, which should be %d", fed[st]))
		}
		allFed += st.fed
		if m.state == running && (st.feed != feedNot) != slices.Contains(m.writes.feeds, st) {
			bad("feed")
		}
		if head := st.early[st.next]; m.state == running && len(st.early) > 0 {
			switch {
			case head == nil && st.gap == nil && !st.turning && st.missesNext():
				bad("nobody asks for what is missing")
			case head != nil && head.isNext():
				bad("nobody has the next one run")
			}
		}
	}
	c.held(h)
	if m.fed != allFed {
		c.fail("fed %d, should be %d", m.fed, allFed)
	}
	copies := 0
	for e := range early {
		copies += len(e.Copies)
	}
	if m.early != len(early)+copies || m.earlyBytes != bytes {
		c.fail("early %d (%d bytes), should be %d (%d bytes)", m.early, m.earlyBytes, len(early)+copies, bytes)
	}
	if h.retaken == 0 && fedEarly == 0 && m.earlyBytes > m.cfg.MaxEarlyBytes {
		c.fail("%d bytes of early events", m.earlyBytes)
	}
	if m.early-fedEarly > m.cfg.MaxEarlyTotal+h.retaken {
		c.fail("%d early events, %d of which are fed", m.early, fedEarly)
	}
	for p := range m.parkings {
		if p.state == finished || p.into != nil {
			c.fail("parking %s is over", p.id)
		}
		if (p.state == changed) != slices.Contains(m.writes.parkings, p) {
			c.fail("parking %s: state %d, in the list: %v", p.id, p.state, slices.Contains(m.writes.parkings, p))
		}
		for key := range p.streams {
			// An older store may bring a parking of streams that are in memory;
			// then the next write of it is fenced.
			if st := m.streams[key]; (st == nil || st.parking != p) && !c.w.wentBack {
				c.fail("parking %s has not stream %s", p.id, key)
			}
		}
	}
	checking := slices.Concat(m.loads.checks, m.loads.flying)
	pending, bytes := 0, int64(0)
	for _, e := range slices.Concat(m.arrivals, checking, m.writes.allHolds()) {
		pending++
		bytes += e.Size
	}
	if m.pending != pending || m.pendBytes != bytes {
		c.fail("pending %d (%d bytes), should be %d (%d bytes)", m.pending, m.pendBytes, pending, bytes)
	}
	for _, e := range checking {
		if e.state != Checking {
			c.fail("%v is %v, and the store is asked about it", e.Owner.(*delivery).m, e.state)
		}
	}
	for _, e := range m.commands {
		if e.state != Submitted {
			c.fail("%v is %v, and the dispatcher has it", e.Owner.(*delivery).m, e.state)
		}
	}
	if m.idle.len < 0 {
		c.fail("idle %d", m.idle.len)
	}
}

// held looks whether all that is held will come back: it is behind where its
// streams are closed, or on its way.
func (c *checks) held(h *host) {
	if c.w.wentBack || h.term != c.w.store.term || h.m.state != running {
		return
	}
	s := c.w.store
	alive := map[*message]bool{}
	for d := range h.live {
		if d.event.state != Arriving || d.source {
			alive[d.m] = true
		}
	}
	forgets := h.m.writes.forgets
	if f, ok := h.m.writes.flying.(*Forget); ok {
		forgets = append(slices.Clone(forgets), f)
	}
	for _, f := range forgets {
		alive[f.Event.Owner.(*delivery).m] = true
	}
	for _, m := range s.held {
		if own, _ := s.own(m); own != 0 || alive[m] {
			continue
		}
		for _, p := range m.slots {
			switch st := h.m.streams[p.key]; {
			case s.stream(p.key).isDone(p.number):
			case st == nil && s.stream(p.key).parked == "":
				c.fail("%v is held, and its stream %s is neither parked nor in memory", m, p.key)
			case st != nil && hasOther(st, p.number): // it is parked on its other streams
			case st != nil && p.number < min(st.heldFrom, st.readFrom):
				c.fail("%v is held, and is not read any more: %s", m, describe(st))
			}
		}
	}
}

// hasOther reports whether an event in memory has a number.
func hasOther(st *stream, n uint64) bool {
	_, e := st.find(n)
	return e != nil
}

func sameCounts(a, b map[uint64]int) bool {
	if len(a) != len(b) {
		return false
	}
	for n, k := range a {
		if b[n] != k {
			return false
		}
	}
	return true
}
