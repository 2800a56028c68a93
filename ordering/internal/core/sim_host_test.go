package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// host is a process that has a machine: it executes the actions, each at a
// moment that chance decides.
type host struct {
	w    *world
	m    *Machine
	term int
	name string

	reads, writes []Action
	answers       map[Action]Input // of the store, which have not come yet
	replays       []*replay
	untold        []*Event // whose outcome no source knows yet
	queue         []*Event // of which a Submit is under way
	tasks         []*task  // the dispatcher's, in the order in which they came
	workers, room int
	live          map[*delivery]bool // accepted, and not told of
	decisions     map[*Decision]bool // not decided yet
	retaken       int                // events that were given back by the dispatcher, which may be too many for memory
	submitted     map[*message]bool  // at any time
	cautious      bool               // the term before did not end in good order
	alone         *task              // nothing else runs
	stopped, over bool
	ids           int
	arrivals      int
	buf           []Action
}

// delivery is an event as a source or the store has brought it.
type delivery struct {
	m      *message
	h      *host
	source bool
	told   bool
	recall bool
	event  *Event
	nth    int // in the order in which sources have brought them; 0 if the store has
}

// replay is a replay under way.
type replay struct {
	Replay
	bring []*message
	in    Replayed
}

// begin begins a term with a new machine, and takes up what the store has.
func (w *world) begin() *host {
	w.terms++
	h := &host{w: w, term: w.terms, name: fmt.Sprintf("h%d", w.terms), live: map[*delivery]bool{}, answers: map[Action]Input{}, decisions: map[*Decision]bool{}, submitted: map[*message]bool{}}
	h.workers, h.room = 1+w.rnd.IntN(6), 1+w.rnd.IntN(12)
	cfg := w.cfg
	cfg.Host = hostOf{h}
	cfg.NewID = func() string { h.ids++; return fmt.Sprintf("%s.%d", h.name, h.ids) }
	h.m = New(cfg)
	s := w.store
	h.cautious = w.terms > 1 && !s.ended
	s.term, s.ended = h.term, false
	w.check.begins(h)
	backlog := s.backlog()
	in := Began{}
	for _, p := range w.parkings() {
		if p.Reason != Gap && p.Reason != Waiting {
			continue
		}
		backlog = append(backlog, p.Gap.Key)
		for _, c := range p.Streams {
			if held := s.heldOf(c.Key, c.Number); c.By == "" && len(held) > 0 && held[0].on(c.Key) == c.Number {
				in.Came = append(in.Came, p.ID)
			}
		}
	}
	slices.SortFunc(backlog, lockkeys.Key.Compare)
	in.Loaded, _ = s.load(h.term, slices.Compact(backlog))
	w.hosts = append(w.hosts, h)
	h.step(in)
	return h
}

// step has the machine take in an input, and begins what it wants done.
func (h *host) step(in Input) {
	if h.w.trace {
		h.w.tracef("%s <- %s", h.name, describe(in))
	}
	h.buf = h.m.Step(func() time.Time { return h.w.now }, in, h.buf[:0])
	h.w.steps++
	if h != h.w.host() {
		h.w.stale++
	}
	for _, a := range h.buf {
		if h.w.trace {
			h.w.tracef("%s    -> %s", h.name, describe(a))
		}
		h.take(a)
	}
	h.w.check.step(h)
}

func (h *host) take(a Action) {
	if h.w.story != nil {
		h.w.story.told(a)
	}
	switch a := a.(type) {
	case Submit:
		h.queue = append(h.queue, a.Event)
		h.submitted[a.Owner.(*delivery).m] = true
	case Recall:
		a.Owner.(*delivery).recall = true
	case Tell:
		h.tell(a.Event)
	case Notify:
		h.w.notices[a.Kind]++
	case Stop:
		h.stopped = true
	case Replay:
		h.startReplay(a)
	case Decided:
		h.decided(a)
	case *Load, *Look:
		h.reads = append(h.reads, a)
	case *GiveUp:
		for _, s := range a.Slots {
			h.w.check.knows(h, s.Key, s.Known)
		}
		h.writes = append(h.writes, a)
	case *Skip:
		h.w.check.knows(h, a.Key, a.Known)
		h.writes = append(h.writes, a)
	default:
		h.writes = append(h.writes, a)
	}
}

// tell looks at an outcome, which its source is told now or later.
func (h *host) tell(e *Event) {
	h.w.check.tells(h, e, e.Result, e.Err)
	for _, c := range e.Copies {
		r := e.Result
		if r == Applied {
			r = Duplicate
		}
		h.w.check.tells(h, c, r, e.Err)
	}
	h.untold = append(h.untold, e)
	if !h.w.happens(h.w.late) {
		h.tellOn()
	}
}

// tellOn has a source know an outcome.
func (h *host) tellOn() bool {
	if len(h.untold) == 0 {
		return false
	}
	i := h.w.rnd.IntN(len(h.untold))
	e := h.untold[i]
	h.untold = slices.Delete(h.untold, i, i+1)
	for _, c := range append([]*Event{e}, e.Copies...) {
		d := c.Owner.(*delivery)
		h.w.check.isDurable(d.m, e.Result)
		if d.source && e.Result == Unfinished {
			h.w.bringAgain(d.m)
		} else if d.source {
			d.m.acked = true
		}
	}
	return true
}

// deliver has a source bring a message.
func (h *host) deliver(m *message, link int) {
	e := h.event(m)
	e.Link = link
	d := e.Owner.(*delivery)
	h.arrivals++
	d.source, d.nth = true, h.arrivals
	h.step(Arrived{e})
}

func (h *host) event(m *message) *Event {
	d := &delivery{m: m, h: h}
	e := &Event{Owner: d, ID: m.command, Size: m.size, Cost: m.size + 50}
	for _, p := range m.slots {
		e.Add(p.key, p.number, p.end)
	}
	d.event = e
	h.live[d] = true
	m.firstTerm = cmp.Or(m.firstTerm, h.term)
	return e
}

// turn reports whether an input may be given that needs the turn: whoever has it
// waits while the dispatcher is full.
func (h *host) turn() bool {
	h.submit()
	return len(h.queue) == 0
}

// submit gives the dispatcher as much as it takes.
func (h *host) submit() {
	for len(h.queue) > 0 && !h.stopped && len(h.tasks) < h.room {
		if h.w.happens(h.w.tooLarge) {
			h.giveBack(errors.New("too large"))
			return
		}
		e := h.queue[0]
		h.queue = h.queue[1:]
		h.tasks = append(h.tasks, &task{h: h, e: e, m: e.Owner.(*delivery).m})
	}
}

// giveBack tells that the dispatcher does not take what is in the queue.
func (h *host) giveBack(cause error) {
	events := h.queue
	h.queue = nil
	for _, e := range events {
		e.Owner.(*delivery).recall = false
	}
	h.retaken += len(events)
	h.step(NotSubmitted{events, cause})
}

func (h *host) startReplay(a Replay) {
	r := &replay{Replay: a, in: Replayed{Range: a.Range}}
	w := h.w
	known, never := w.plan.known(a.Range)
	for _, m := range append(w.plan.before(known, a.Before), known...) {
		if !w.happens(w.replayMisses) {
			r.bring = append(r.bring, m)
		}
	}
	if w.happens(w.replayMisses) {
		never = nil
	}
	r.in.NoSuch = never
	if w.happens(w.replayFails) {
		r.in.Err = errors.New("the source is away")
		r.bring = r.bring[:w.rnd.IntN(len(r.bring)+1)]
		r.in.NoSuch = nil
	}
	if w.happens(w.replayLies) && len(known) > 0 {
		p := known[w.rnd.IntN(len(known))].on(a.Key)
		r.in.NoSuch = append(r.in.NoSuch, Range{a.Key, p, p})
	}
	h.replays = append(h.replays, r)
}

// replayOn goes on with a replay.
func (h *host) replayOn() bool {
	if len(h.replays) == 0 {
		return false
	}
	i := h.w.rnd.IntN(len(h.replays))
	r := h.replays[i]
	if len(r.bring) == 0 {
		h.replays = slices.Delete(h.replays, i, i+1)
		h.step(r.in)
		return true
	}
	if pending, _ := h.m.Pending(); pending > 10 || h.stopped || !h.turn() {
		return false
	}
	m := r.bring[0]
	r.bring = r.bring[1:]
	h.deliver(m, r.Link+1)
	return true
}

// answer executes an action of the store, if the store is well.
func (h *host) answer(lane *[]Action) bool {
	if len(*lane) == 0 || h.over {
		return false
	}
	w := h.w
	i := w.rnd.IntN(len(*lane))
	if w.happens(w.storeFails) {
		return true
	}
	a := (*lane)[i]
	switch a.(type) {
	case *Load, *Unpark, *ReadHeld, *Skip, *GiveUp:
		if !h.turn() {
			return false
		}
	}
	if i >= len(*lane) || (*lane)[i] != a { // by what taking the turn has led to
		return true
	}
	in, executed := h.answers[a]
	var err error
	if !executed {
		in, err = h.execute(a)
	}
	switch {
	case errors.Is(err, errAway), err == nil && !executed && w.happens(w.storeFailsAfter):
		return true
	case err == nil && !executed && w.happens(w.late):
		h.answers[a] = in
		return true
	}
	delete(h.answers, a)
	*lane = slices.Delete(*lane, i, i+1)
	if err != nil {
		if h.term == w.store.term && !w.wentBack && !w.stole {
			w.check.fail("%s: %v", describe(a), err)
		}
		in = Fenced{err}
	}
	h.step(in)
	if l, ok := in.(Looked); ok {
		w.check.loses(h, l)
	}
	return true
}

func (h *host) execute(a Action) (in Input, err error) {
	s := h.w.store
	switch a := a.(type) {
	case *Load:
		if h.w.happens(h.w.storeFailsAfter) {
			_, err = s.load(h.term, a.Keys)
		}
		if err == nil {
			var l Loaded
			l, err = s.load(h.term, a.Keys)
			in = l
		}
	case *Look:
		if err = s.mayWrite(h.term, nil); err != nil {
			break
		}
		l := Looked{Events: a.Events}
		for _, e := range a.Events {
			l.Verdicts = append(l.Verdicts, s.look(e.Owner.(*delivery).m))
		}
		in = l
	case *Hold:
		var errs []error
		errs, err = s.hold(h.term, a.Events)
		if !slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			errs = nil
		}
		in = HoldDone{a.Events, errs}
	case *Park:
		err = s.parkAll(h.term, a)
		in = ParkDone{a}
	case *Unpark:
		if n := len(a.IDs); n > 1 && h.w.happens(h.w.storeFailsAfter) { // they are deleted one by one
			if err = s.unpark(h.term, a.IDs[:1+h.w.rnd.IntN(n-1)], a.Fences); err == nil {
				err = errAway
			}
			break
		}
		err = s.unpark(h.term, a.IDs, a.Fences)
		in = UnparkDone{a}
	case *ReadHeld:
		if err = s.mayWrite(h.term, nil); err != nil {
			break
		}
		read := HeldRead{ReadHeld: a}
		size := a.Bytes
		for _, m := range s.heldOf(a.Key, a.From) {
			if size -= m.size; len(read.Events) >= a.Limit || size < 0 && len(read.Events) > 0 {
				break
			}
			e := h.event(m)
			e.Held = true
			read.Events = append(read.Events, e)
		}
		in = read
	case *Skip:
		err = s.skip(h.term, a)
		in = SkipDone{a}
	case *GiveUp:
		var done GiveUpDone
		done, err = s.giveUp(h.term, a)
		in = done
	case *Forget:
		err = s.forgetHeld(h.term, a)
		in = ForgetDone{a}
	default:
		h.w.check.fail("no such action: %T", a)
	}
	return in, err
}

// tick lets the machine know the time, if it wants to.
func (h *host) tick() bool {
	if at := h.m.Next(); h.over || at.IsZero() || at.After(h.w.now) {
		return false
	}
	h.step(Ticked{})
	return true
}

// wind goes on with the end of a machine that has stopped.
func (h *host) wind() bool {
	switch {
	case !h.stopped || h.over:
		return false
	case len(h.queue) > 0:
		h.giveBack(nil)
	case len(h.tasks) > 0:
		return false
	case (len(h.writes) > 0 || len(h.reads) > 0) && h.w.rnd.IntN(4) > 0:
		return false
	default:
		h.step(Abandoned{errors.New("over")})
		h.over = true
		h.w.store.ended = h.w.store.ended || h.term == h.w.store.term
		h.w.check.isOver(h)
	}
	return true
}

// operate has an operator decide something.
func (h *host) operate() bool {
	w := h.w
	if h.stopped {
		return false
	}
	if len(h.decisions) > 0 && w.rnd.IntN(3) == 0 {
		for d := range h.decisions {
			if len(h.decisions) == 1 && h.m.Withdraw(d) {
				w.tracef("%s withdraws a decision about %s", h.name, d.Key)
				delete(h.decisions, d)
			}
		}
		return true
	}
	var keys []lockkeys.Key
	for _, p := range w.parkings() {
		if w.calm && w.patient && w.heals(p) {
			continue
		}
		for _, c := range p.Streams {
			keys = append(keys, c.Key)
		}
	}
	if !w.calm && w.rnd.IntN(20) == 0 {
		keys = append(keys, w.plan.streams[w.rnd.IntN(len(w.plan.streams))])
	}
	if len(keys) == 0 {
		return false
	}
	key := keys[w.rnd.IntN(len(keys))]
	kinds := []DecisionKind{Resume, Resume, Resume, SkipHead, SkipHead, Drop}
	if w.calm { // it is to come to an end
		kinds = []DecisionKind{Resume, SkipHead, SkipHead, Drop}
	} else if w.rnd.IntN(10) == 0 {
		kinds = []DecisionKind{SkipTo}
	}
	h.decide(&Decision{Kind: kinds[w.rnd.IntN(len(kinds))], Key: key, By: "operator", Why: errors.New("decided"),
		Last: w.plan.anyOf(key)})
	return true
}

func (h *host) decide(d *Decision) {
	h.decisions[d] = true
	h.step(Decide{d})
}

func (h *host) decided(a Decided) {
	if a.Kind > Drop {
		h.w.check.fail("a decision of the machine's own is told")
	}
	if !h.decisions[a.Decision] {
		h.w.check.fail("a decision about %s has ended that is not under way", a.Key)
	}
	delete(h.decisions, a.Decision)
}

// hostOf is the [Host] of a machine.
type hostOf struct{ h *host }

func (hostOf) IsCopy(e, of *Event) bool { return e.Owner.(*delivery).m == of.Owner.(*delivery).m }
func (hostOf) Name(e *Event) string     { return e.Owner.(*delivery).m.String() }
func (hostOf) FaultOf(e *Event) Fault {
	return Fault{Owner: e.Owner.(*delivery).m, Slots: slices.Clone(e.Slots)}
}
func (hostOf) Detach(e *Event) *Event {
	c := &Event{Owner: &delivery{m: e.Owner.(*delivery).m, h: e.Owner.(*delivery).h}, Slots: slices.Clone(e.Slots), Held: e.Held}
	return c
}
func (hostOf) ConflictError(e, other *Event) error {
	return fmt.Errorf("%v conflicts with %v", e.Owner.(*delivery).m, other.Owner.(*delivery).m)
}
func (hostOf) ContradictionError(events []*Event) error {
	return fmt.Errorf("%d events wait for each other", len(events))
}
func (hostOf) EndedError(e *Event) error {
	return fmt.Errorf("%v is behind the end", e.Owner.(*delivery).m)
}
func (hostOf) GapError(r Range, cause error) error { return fmt.Errorf("gap %v: %w", r, cause) }
func (hostOf) TooFarError(r Range, n uint64) error { return fmt.Errorf("too far: %d of %v", n, r) }
func (hostOf) SpreadError(p ParkingState) error    { return fmt.Errorf("%s spreads too far", p.ID) }
func (hostOf) NotParkedError(key lockkeys.Key, at uint64) error {
	if at != 0 {
		return fmt.Errorf("%s is not parked at %d", key, at)
	}
	return fmt.Errorf("%s is not parked", key)
}
func (hostOf) LostError(*Event) error { return errLost }
