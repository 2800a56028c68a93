package core

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// world is a simulation: producers, sources, the store, and the processes that
// have a machine. All of it follows from a seed.
type world struct {
	seed  uint64
	rnd   *rand.Rand
	kills *rand.Rand // of what ends processes
	now   time.Time
	plan  *plan
	cfg   Config
	store *store
	hosts []*host // the last one has the term, those before do not know yet, and go on
	check *checks

	todo []*message // to be brought by a source, in about this order

	terms   int
	deaths  int // of processes that a message has killed
	crashed int // messages that did not run any more for that
	steps   int
	stale   int // of them, those of processes that had lost their terms
	iter    int
	notices [EpochBegan + 1]int
	older   *store // a copy that may be restored
	// wentBack says that the store was restored, and that the machine of that
	// time may not know yet.
	wentBack bool
	restores int
	losses   int  // how often a machine has noticed
	stole    bool // the holder of another partition has had a stream
	calm     bool // no more faults

	// In the end:
	patient bool // operators wait for what is missing and will come
	lossy   bool // what was dropped is brought by replays only

	// How often something goes wrong: once in so many times, 0 for never.
	storeFails, storeFailsAfter                        int
	handlerFails, handlerPanics, inTx                  int
	failureStops, failureGivesUp                       int
	replayMisses, replayFails, replayLies              int
	drops, doubles, shuffle                            int
	crashes, takeovers, restored, shutdowns, operators int
	tooLarge, widens                                   int
	prunes, steals                                     int
	timeouts, late                                     int
	maxCrashes                                         int

	trace bool
	lines []string
	story *story // is told of all actions, in place of a simulation
}

func newWorld(seed uint64, events int, trace bool) *world {
	rnd := rand.New(rand.NewPCG(seed, 1))
	w := &world{seed: seed, rnd: rnd, now: time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), trace: trace}
	w.plan = newPlan(rnd, events)
	w.cfg = w.plan.settings()
	w.check = &checks{w: w}
	w.store = newStore()
	w.store.check = w.check
	one := func(of ...int) int { return of[rnd.IntN(len(of))] }
	w.storeFails, w.storeFailsAfter = one(0, 0, 3, 20), one(0, 0, 5, 50)
	w.handlerFails, w.handlerPanics, w.inTx = one(0, 0, 3, 20, 100), one(0, 0, 10, 50), one(0, 1, 2)
	w.failureStops, w.failureGivesUp = one(0, 0, 0, 20), one(0, 1, 3)
	w.replayMisses, w.replayFails, w.replayLies = one(0, 1, 2, 10), one(0, 0, 3), one(0, 0, 0, 10)
	w.drops, w.doubles, w.shuffle = one(0, 3, 20), one(0, 5, 50), one(1, 3, 20, 200)
	w.crashes, w.takeovers, w.restored = one(0, 0, 300, 3000), one(0, 0, 50, 500), one(0, 0, 0, 0, 400)
	w.late = one(0, 0, 2, 10)
	w.shutdowns, w.operators = one(0, 0, 0, 1000), one(0, 20, 200)
	w.tooLarge = one(0, 0, 0, 300)
	w.widens = one(0, 0, 30)
	w.prunes, w.steals = one(0, 0, 30, 1000), one(0, 0, 0, 0, 1000)
	w.patient, w.lossy = rnd.IntN(2) == 0, rnd.IntN(4) == 0
	w.kills = rand.New(rand.NewPCG(seed, 2))
	oneOf := func(of ...int) int { return of[w.kills.IntN(len(of))] }
	w.timeouts, w.maxCrashes = oneOf(0, 5, 50), oneOf(1, 2, 3, 3)
	for range oneOf(0, 0, 0, 1, 2, 5) {
		w.plan.messages[w.kills.IntN(len(w.plan.messages))].kills = true
	}
	for _, m := range w.plan.messages {
		if w.happens(w.drops) {
			m.dropped = true
		} else {
			w.todo = append(w.todo, m)
			m.waiting = true
		}
	}
	return w
}

// happens reports whether something happens that does once in n times.
func (w *world) happens(n int) bool { return n > 0 && w.rnd.IntN(n) == 0 }

func (w *world) tracef(format string, args ...any) {
	if w.trace {
		w.lines = append(w.lines, fmt.Sprintf("%8d ", w.iter)+fmt.Sprintf(format, args...))
	}
}

// run lets everything happen: first with faults, then without any, until all is
// over.
func (w *world) run() {
	w.begin()
	most := 2000 + 60*len(w.plan.messages)
	for w.iter = 0; w.iter < most && (len(w.todo) > 0 || w.rnd.IntN(200) > 0); w.iter++ {
		w.fault()
		w.next()
	}
	w.tracef("all is well from now on")
	w.settleDown()
	for end := w.iter + 400*len(w.plan.messages); w.iter < end; w.iter++ {
		if !w.next() || w.isOver() {
			if !w.isOver() {
				break
			}
			w.check.atEnd()
			return
		}
	}
	w.check.fail("it does not come to an end: %s", w.whatIsLeft())
}

// settleDown ends all faults, and has what is left brought.
func (w *world) settleDown() {
	w.calm, w.late = true, 0
	w.storeFails, w.storeFailsAfter, w.handlerFails, w.handlerPanics, w.tooLarge = 0, 0, 0, 0, 0
	w.failureStops, w.failureGivesUp = 0, 0
	w.replayMisses, w.replayFails, w.replayLies = 0, 0, 0
	w.drops, w.doubles = 0, 0
	w.operators = 100
	w.cfg.GapPolicy, w.cfg.SpreadStops = GapPolicy(w.rnd.IntN(2)), false // somebody changes it
	if w.wentBack || w.lossy {                                           // what is missing is asked for once more
		w.crashAll()
	}
	for _, m := range w.plan.messages {
		m.dropped = m.dropped && w.lossy && w.isMissed(m)
		if !m.dropped {
			w.bringAgain(m)
		}
	}
}

// isMissed reports whether a message will be asked for, since a later one comes on
// one of its streams.
func (w *world) isMissed(m *message) bool {
	if m.late || m.beyond || m.knots || len(m.rivals) > 0 {
		return false
	}
	own, others := w.store.own(m)
	return own == 0 && !others && slices.ContainsFunc(m.slots, func(p place) bool {
		later := w.plan.at[p.key][p.number+1]
		return len(later) == 1 && !later[0].late && !later[0].knots && !later[0].beyond && len(later[0].rivals) == 0
	})
}

// heals reports whether what a parking misses will come, so that it is over then
// without an operator.
func (w *world) heals(p ParkingState) bool {
	missing := w.plan.at[p.Gap.Key][p.Gap.From]
	if len(p.Faults) > 0 || len(missing) != 1 || missing[0].beyond || missing[0].knots || w.store.letters[missing[0]] {
		return false
	}
	_, others := w.store.own(missing[0])
	return !others
}

// bringAgain has a source bring a message that was not acknowledged.
func (w *world) bringAgain(m *message) {
	if !m.acked && !m.waiting {
		m.waiting = true
		w.todo = append(w.todo, m)
	}
}

func (w *world) host() *host { return w.hosts[len(w.hosts)-1] }

// next lets one thing happen; it returns false if there is none but the passing
// of time.
func (w *world) next() bool {
	if w.rnd.IntN(4) == 0 {
		w.now = w.now.Add(time.Duration(w.rnd.IntN(4_000_000)))
	}
	for range 30 {
		if w.try() {
			return true
		}
	}
	if h := w.hosts[0]; h != w.host() {
		switch {
		case h.over && len(h.untold) == 0:
			w.hosts = w.hosts[1:]
			return true
		case !h.stopped:
			h.step(Fenced{errFenced}) // it looks by itself at times
			return true
		}
	}
	for _, h := range w.hosts { // there may be one that chance has not found
		for h.tellOn() || h.tick() || h.wind() || h.answer(&h.reads) || h.answer(&h.writes) || h.replayOn() {
			return true
		}
		for range h.tasks {
			for range 20 {
				if h.work() {
					return true
				}
			}
		}
	}
	if w.host().over {
		w.restart()
		return true
	}
	if len(w.todo) > 0 && w.bring(w.host()) {
		return true
	}
	if w.calm && w.rnd.IntN(4) == 0 && w.host().operate() {
		return true
	}
	var at time.Time
	for _, h := range w.hosts {
		if n := h.m.Next(); !h.over && !n.IsZero() && (at.IsZero() || n.Before(at)) {
			at = n
		}
	}
	if at.IsZero() {
		return w.calm && w.host().operate()
	}
	if at.After(w.now) {
		w.now = at
	}
	return true
}

// try lets something happen that chance has chosen.
func (w *world) try() bool {
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	switch r := w.rnd.IntN(100); {
	case r < 15:
		return w.bring(h)
	case r < 60:
		return h.work()
	case r < 70:
		return h.answer(&h.reads)
	case r < 85:
		return h.answer(&h.writes)
	case r < 93:
		return h.replayOn()
	case r < 95:
		return h.tick()
	case r < 96:
		return h.tellOn()
	case r < 98:
		return h.wind()
	}
	return w.happens(w.operators) && h.operate()
}

// bring has the source bring the next message, or one near it.
func (w *world) bring(h *host) bool {
	if pending, _ := h.m.Pending(); len(w.todo) == 0 || h.stopped || pending > 10 || !h.turn() {
		return false
	}
	if w.happens(w.doubles) {
		h.deliver(w.plan.messages[w.rnd.IntN(len(w.plan.messages))], 0)
		return true
	}
	i := w.rnd.IntN(min(len(w.todo), w.shuffle))
	m := w.todo[i]
	w.todo = slices.Delete(w.todo, i, i+1)
	m.waiting = false
	h.deliver(m, 0)
	return true
}

// fault lets something go wrong with the process as a whole.
func (w *world) fault() {
	switch {
	case w.host().over:
		w.restart()
	case w.happens(w.crashes):
		w.crash()
	case w.happens(w.takeovers) && len(w.hosts) < 3:
		w.takeOver()
	case w.happens(w.shutdowns) && !w.host().stopped:
		w.host().step(Stopped{fmt.Errorf("shut down")})
	case w.happens(w.restored):
		w.goBack()
	case w.happens(w.prunes):
		w.store.prune()
	case w.happens(w.steals):
		w.steal()
	}
}

// takeOver has another process begin a term. The one before goes on, and does not
// know it. The source may believe that it is gone, and bring again what it has.
func (w *world) takeOver() {
	w.tracef("another process takes over")
	old := w.host()
	old.unlucky()
	if w.rnd.IntN(2) == 0 {
		w.loses(old)
	}
	w.begin()
}

// crash ends a process without a word, or all.
func (w *world) crash() {
	if len(w.hosts) == 1 || w.rnd.IntN(2) == 0 {
		w.crashAll()
		return
	}
	h := w.hosts[w.rnd.IntN(len(w.hosts))]
	w.tracef("%s crashes", h.name)
	if h == w.host() {
		h.unlucky()
	}
	w.ends(h)
}

// crashAll ends the processes without a word.
func (w *world) crashAll() {
	w.tracef("crash")
	w.host().unlucky()
	for len(w.hosts) > 1 {
		w.ends(w.hosts[0])
	}
	w.ends(w.host())
}

// ends ends a process. If it has the term, another one begins the next.
func (w *world) ends(h *host) {
	w.loses(h)
	if h == w.host() {
		w.restart()
	} else {
		w.hosts = slices.DeleteFunc(w.hosts, func(o *host) bool { return o == h })
	}
}

// loses has brought again what a process had that is no more.
func (w *world) loses(h *host) {
	for _, d := range w.deliveriesOf(h) {
		if d.source {
			w.bringAgain(d.m)
		}
	}
}

// dies ends a process by what a message does in it.
func (w *world) dies(t *task) {
	w.tracef("%s %v: the process is killed", t.h.name, t.m)
	w.check.kills(t)
	w.deaths++
	w.ends(t.h)
}

// deliveriesOf returns what was brought to a host and not told, in an order that
// follows from the seed.
func (w *world) deliveriesOf(h *host) []*delivery {
	live := slices.Collect(maps.Keys(h.live))
	for _, e := range h.untold {
		for _, c := range append([]*Event{e}, e.Copies...) {
			live = append(live, c.Owner.(*delivery))
		}
	}
	slices.SortFunc(live, func(a, b *delivery) int { return a.m.id - b.m.id })
	return live
}

// restart begins the next term, since the process that had the last one is gone.
func (w *world) restart() {
	older := slices.Clone(w.hosts[:len(w.hosts)-1])
	if w.wentBack { // what the store has forgotten is brought again
		for _, h := range older {
			w.loses(h)
		}
		older, w.wentBack = nil, false
		w.check.ledger.forget()
		for _, m := range w.plan.messages {
			m.acked, m.wasHeld = false, false
			w.bringAgain(m)
		}
	}
	w.hosts = older
	w.begin()
}

// goBack restores an older copy of the store, or makes one.
func (w *world) goBack() {
	if w.older == nil || len(w.hosts) > 1 || w.wentBack {
		w.older = w.store.snapshot()
		return
	}
	w.tracef("the store is restored from a copy")
	term, ended := w.store.term, w.store.ended
	w.store, w.older = w.older, nil
	w.store.term, w.store.ended = term, ended
	for m, runs := range w.store.marks {
		m.unlucky += runs
	}
	w.wentBack = true
	w.restores++
}

// steal has the holder of another partition take over the streams of an event whose
// turn it is, and process it.
func (w *world) steal() {
	if len(w.hosts) > 1 || w.wentBack {
		return
	}
	m := w.plan.messages[w.rnd.IntN(len(w.plan.messages))]
	if m.command != "" || m.beyond || m.knots || len(m.rivals) > 0 {
		return
	}
	for _, p := range m.slots {
		st := w.store.stream(p.key)
		if low, above := st.last(); st.parked != "" || low+1 != p.number || len(above) > 0 || len(w.store.heldOf(p.key, 0)) > 0 {
			return
		}
	}
	w.tracef("another one takes the streams of %v, and processes it", m)
	w.stole = true
	for _, p := range m.slots {
		st := w.store.stream(p.key)
		st.fence++
		st.stolen = true
		st.setDone(p.number, job{status: processed, m: m})
		if p.end {
			st.ended = max(st.ended, p.number)
		}
	}
}

// parkings returns those in the store in order of their IDs.
func (w *world) parkings() (list []ParkingState) {
	for _, id := range slices.Sorted(maps.Keys(w.store.parkings)) {
		list = append(list, copyOf(w.store.parkings[id]))
	}
	return list
}

// isOver reports whether nothing is left to be done.
func (w *world) isOver() bool {
	h := w.host()
	if len(w.hosts) > 1 || len(w.todo)+len(w.store.held)+len(w.store.parkings) > 0 ||
		len(h.tasks)+len(h.queue)+len(h.untold)+len(h.reads)+len(h.writes)+len(h.replays)+len(h.decisions) > 0 {
		return false
	}
	for d := range h.live {
		if d.source || d.event.state != Arriving { // others were read from the store in vain
			return false
		}
	}
	return true
}

func (w *world) whatIsLeft() string {
	var b strings.Builder
	h := w.host()
	fmt.Fprintf(&b, "%d hosts, %d to be brought, %d held, %d parkings, %d live, %d tasks, %d in the queue, %d reads, %d writes, %d replays, %d decisions\n",
		len(w.hosts), len(w.todo), len(w.store.held), len(w.store.parkings), len(h.live), len(h.tasks), len(h.queue), len(h.reads), len(h.writes), len(h.replays), len(h.decisions))
	for _, d := range w.deliveriesOf(h) {
		fmt.Fprintf(&b, "  live: %v %v held=%v\n", d.m, d.event.state, d.event.Held)
	}
	for _, m := range w.store.held {
		fmt.Fprintf(&b, "  held: %v\n", m)
	}
	for _, p := range w.parkings() {
		fmt.Fprintf(&b, "  parking: %s\n", describe(p))
	}
	for _, st := range h.m.sortedStreams() {
		fmt.Fprintf(&b, "  %s\n", describe(st))
	}
	for _, a := range h.writes {
		fmt.Fprintf(&b, "  write: %s\n", describe(a))
	}
	return b.String()
}

// describe shows an input or an action.
func describe(x any) string {
	events := func(list []*Event) string {
		var b strings.Builder
		for _, e := range list {
			fmt.Fprintf(&b, " %v", e.Owner.(*delivery).m)
		}
		return b.String()
	}
	switch x := x.(type) {
	case Arrived:
		return fmt.Sprintf("Arrived %v held=%v", x.Owner.(*delivery).m, x.Held)
	case Loaded:
		return fmt.Sprintf("Loaded %s %s", describe(x.Streams), describe(x.Parkings))
	case Began:
		return fmt.Sprintf("Began %s came %v", describe(x.Loaded), x.Came)
	case []StreamState:
		var b strings.Builder
		for _, s := range x {
			fmt.Fprintf(&b, " %s(last %d %v heldAt %d parked %s)", s.Key, s.Last, s.Done, s.HeldAt, s.Parked)
		}
		return b.String()
	case []ParkingState:
		var b strings.Builder
		for _, p := range x {
			b.WriteString(describe(p))
		}
		return b.String()
	case ParkingState:
		var b strings.Builder
		for _, c := range copyOf(x).Streams {
			fmt.Fprintf(&b, " %s:%d", c.Key, c.Number)
		}
		for _, f := range x.Faults {
			fmt.Fprintf(&b, " !%v", f.Owner)
		}
		return fmt.Sprintf("{%s reason %d%s gap %v}", x.ID, x.Reason, b.String(), x.Gap)
	case NotSubmitted:
		return fmt.Sprintf("NotSubmitted%s: %v", events(x.Events), x.Cause)
	case Ended:
		return fmt.Sprintf("Ended %v %d %v", x.Owner.(*delivery).m, x.Outcome, x.Cause)
	case Looked:
		return fmt.Sprintf("Looked%s %v", events(x.Events), x.Verdicts)
	case HoldDone:
		return fmt.Sprintf("HoldDone%s %v", events(x.Events), x.Errs)
	case ParkDone:
		return describe(x.Park)
	case UnparkDone:
		return fmt.Sprintf("UnparkDone %v", x.IDs)
	case HeldRead:
		return fmt.Sprintf("HeldRead %s from %d:%s", x.Key, x.From, events(x.Events))
	case SkipDone:
		return fmt.Sprintf("SkipDone %s %v", x.Key, x.Parts)
	case GiveUpDone:
		return fmt.Sprintf("GiveUpDone %v %d %v", x.Event.Owner.(*delivery).m, x.Result, x.Err)
	case ForgetDone:
		return fmt.Sprintf("ForgetDone %v", x.Event.Owner.(*delivery).m)
	case Replayed:
		return fmt.Sprintf("Replayed %v, no such %v, err %v", x.Range, x.NoSuch, x.Err)
	case Decide:
		return fmt.Sprintf("Decide %d %s last %d", x.Kind, x.Key, x.Last)
	case Submit:
		return fmt.Sprintf("Submit %v", x.Owner.(*delivery).m)
	case Recall:
		return fmt.Sprintf("Recall %v", x.Owner.(*delivery).m)
	case Tell:
		return fmt.Sprintf("Tell %v %d %v copies %d held=%v", x.Owner.(*delivery).m, x.Result, x.Err, len(x.Copies), x.Held)
	case Notify:
		return fmt.Sprintf("Notify %d %v %v", x.Kind, x.Range, x.Err)
	case Replay:
		return fmt.Sprintf("Replay %v", x.Range)
	case Decided:
		return fmt.Sprintf("Decided %d %s: %v", x.Kind, x.Key, x.Err)
	case *Load:
		return fmt.Sprintf("Load %v", x.Keys)
	case *Look:
		return fmt.Sprintf("Look%s", events(x.Events))
	case *Hold:
		return fmt.Sprintf("Hold%s", events(x.Events))
	case *Park:
		text := "Park"
		for _, c := range x.Parkings {
			text += " " + describe(c.ParkingState)
		}
		return text
	case *Unpark:
		return fmt.Sprintf("Unpark %v", x.IDs)
	case *ReadHeld:
		return fmt.Sprintf("ReadHeld %s from %d limit %d bytes %d decision %v", x.Key, x.From, x.Limit, x.Bytes, x.decision != nil)
	case *Skip:
		return fmt.Sprintf("Skip %s %v: %v", x.Key, x.Parts, x.Why)
	case *GiveUp:
		return fmt.Sprintf("GiveUp %v at %d slots: %v", x.Event.Owner.(*delivery).m, len(x.Slots), x.Why)
	case *Forget:
		return fmt.Sprintf("Forget %v: %v", x.Event.Owner.(*delivery).m, x.Why)
	case RunStep:
		return fmt.Sprintf("%s result %d %v", [...]string{"handle", "commit", "look", "wait", "retry", "end", "mark", "mark alone"}[x.Kind], x.Result, x.Err)
	case *stream:
		return fmt.Sprintf("%s %v next %d ahead %v window %d early %v heldFrom %d missing %d holding %v skipping %v fed %d feed %d pins %d gap %+v replaying %v turning %v",
			x.key, x.state, x.next, x.ahead, len(x.window.entries)-x.window.head, slices.Sorted(maps.Keys(x.early)), x.heldFrom, x.missing, x.holding, x.skipping, x.fed, x.feed, x.pins, x.gap, x.replaying, x.turning)
	case lockkeys.Key:
		return x.String()
	}
	return fmt.Sprintf("%T %+v", x, x)
}
