package ordering

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

// drama is a history with everything that can go wrong in it.
type drama struct {
	events    []*Event
	twisted   map[string]bool // events that contradict others, or are told of
	acts      []act
	processes int
	seed      uint64
	failing   map[string]int // attempts that fail, by event; -1: all, until mended
	durations map[string]time.Duration
	free      bool
	early     int
	active    int
	skips     bool // operators skip, so that numbers may be given up
	workers   int
	pending   int
}

type act struct {
	kind    string
	event   int
	process int
	pause   time.Duration
}

func drawDrama(rt *rapid.T) *drama {
	d := &drama{twisted: map[string]bool{}, failing: map[string]int{}, durations: map[string]time.Duration{}}
	streams := rapid.IntRange(1, 4).Draw(rt, "streams")
	next := make([]uint64, streams)
	n := rapid.IntRange(1, 25).Draw(rt, "events")
	name := func(s int) lockkeys.Key { return key(fmt.Sprintf("s%d", s)) }
	for i := range n {
		e := &Event{ID: fmt.Sprintf("e%d", i)}
		for s := range streams {
			if len(e.Positions) == 0 && s == streams-1 || rapid.IntRange(0, 2).Draw(rt, "on") == 0 {
				next[s]++
				e.Positions = append(e.Positions, Position{Stream: name(s), Number: next[s]})
			}
		}
		d.events = append(d.events, e)
		d.durations[e.ID] = time.Duration(rapid.SampledFrom([]int{0, 0, 1, 20, 200}).Draw(rt, "ms")) * time.Millisecond
		if f := rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2, -1}).Draw(rt, "failures"); f != 0 {
			d.failing[e.ID] = f
		}
	}
	if rapid.IntRange(0, 3).Draw(rt, "ends") == 0 { // the last event of a stream says so
		for i := n - 1; i >= 0; i-- {
			if p := d.events[i].Positions; p[0].Number == next[0] && p[0].Stream == name(0) {
				p[0].End = true
				break
			}
		}
	}
	if streams > 1 && rapid.IntRange(0, 2).Draw(rt, "contradictions") == 0 {
		d.twist(rt, streams, name, next)
	}
	d.processes = rapid.IntRange(1, 2).Draw(rt, "processes")
	d.skips = len(d.twisted) > 0 || rapid.IntRange(0, 2).Draw(rt, "skips") == 0
	kinds := []string{"resume", "resume", "close", "crash", "shaky", "well"}
	if d.skips {
		kinds = append(kinds, "skip", "drop")
	}
	for i := range d.events {
		for range rapid.SampledFrom([]int{0, 1, 1, 1, 2}).Draw(rt, "copies") {
			at := max(0, len(d.acts)-max(0, rapid.IntRange(-10, 15).Draw(rt, "late")))
			a := act{kind: "offer", event: i, process: rapid.IntRange(0, d.processes-1).Draw(rt, "process"),
				pause: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 30, 1500}).Draw(rt, "pause")) * time.Millisecond}
			d.acts = slices.Insert(d.acts, at, a)
		}
	}
	for range rapid.IntRange(0, 8).Draw(rt, "incidents") {
		a := act{kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), event: rapid.IntRange(0, 3).Draw(rt, "which"),
			process: rapid.IntRange(0, d.processes-1).Draw(rt, "process"),
			pause:   time.Duration(rapid.SampledFrom([]int{0, 1, 50, 1100}).Draw(rt, "pause")) * time.Millisecond}
		d.acts = slices.Insert(d.acts, rapid.IntRange(0, len(d.acts)).Draw(rt, "at"), a)
	}
	d.seed = rapid.Uint64().Draw(rt, "seed")
	d.free = rapid.Bool().Draw(rt, "free")
	d.early = rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "MaxEarly")
	d.active = rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "MaxActive")
	d.workers = rapid.IntRange(1, 3).Draw(rt, "workers")
	d.pending = rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "MaxPending")
	return d
}

// twist adds events that contradict others: a second one with the same number,
// and two that wait for each other.
func (d *drama) twist(rt *rapid.T, streams int, name func(int) lockkeys.Key, next []uint64) {
	switch rapid.IntRange(0, 2).Draw(rt, "twist") {
	case 0: // a second event with a number of another
		e := d.events[rapid.IntRange(0, len(d.events)-1).Draw(rt, "victim")]
		d.events = append(d.events, &Event{ID: "x0", Positions: []Position{e.Positions[0]}})
		d.twisted["x0"], d.twisted[e.ID] = true, true
	case 1: // a number of another, and the next one of another stream
		e := d.events[rapid.IntRange(0, len(d.events)-1).Draw(rt, "victim")]
		s := rapid.IntRange(0, streams-1).Draw(rt, "stream")
		if _, ok := e.On(name(s)); ok {
			return
		}
		next[s]++
		d.events = append(d.events, &Event{ID: "x0", Positions: []Position{e.Positions[0], {Stream: name(s), Number: next[s]}}})
		d.twisted["x0"], d.twisted[e.ID] = true, true
	case 2: // two that wait for each other
		a, b := name(0), name(1)
		x := &Event{ID: "x0", Positions: []Position{{Stream: a, Number: next[0] + 1}, {Stream: b, Number: next[1] + 2}}}
		y := &Event{ID: "x1", Positions: []Position{{Stream: a, Number: next[0] + 2}, {Stream: b, Number: next[1] + 1}}}
		d.events = append(d.events, x, y)
		d.twisted["x0"], d.twisted["x1"] = true, true
	}
}

// stage is where a drama is played.
type stage struct {
	*drama
	*world
	runs     []*run // one for each process
	over     sync.WaitGroup
	mended   bool
	attempts map[string]int
	outcomes map[string][]Outcome // of processes that lived to see them
	fault    error
}

// run is a process and its sequencer.
type run struct {
	*process
	seq   *Sequencer[*Event]
	mu    sync.Mutex
	calls int // of Done that are to come
}

func (g *stage) start(i int) (*run, error) {
	r := &run{process: &process{world: g.world, partition: fmt.Sprint(i)}}
	cfg := Config[*Event]{Store: r, Replayer: ReplayerFunc(g.replay), GapTimeout: time.Second, MaxEarly: g.early, MaxActive: g.active,
		Dispatcher: dispatcher.Config[Job[*Event]]{Workers: g.workers, MaxPending: g.pending, MaxAttempts: 3},
		FailureFor: func(Job[*Event], error) dispatcher.FailurePolicy { return dispatcher.Park },
		DeadLetter: func(_ context.Context, e *Event, _ error) error {
			g.world.mu.Lock()
			defer g.world.mu.Unlock()
			g.expelled[e.ID] = true
			return nil
		},
		Handler: func(ctx context.Context, job Job[*Event]) error { return g.handle(ctx, r, job) }}
	if g.free {
		cfg.Keys = func(job Job[*Event], claim *lockkeys.Claim) error {
			e := job.Event
			claim.Exclusive(key(e.ID))
			return nil
		}
	}
	for {
		var err error
		if r.seq, err = New(context.Background(), cfg); !errors.Is(err, errShaky) {
			return r, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// handle has its effect with the commit, as a handler in a transaction.
func (g *stage) handle(ctx context.Context, r *run, job Job[*Event]) error {
	begun := g.tick()
	id := job.Event.ID
	g.world.mu.Lock()
	g.attempts[id]++
	fails := g.failing[id] != 0 && !g.mended && (g.failing[id] < 0 || g.attempts[id] <= g.failing[id])
	g.world.mu.Unlock()
	if err := pause.For(ctx, g.durations[id]); err != nil {
		return err
	}
	if fails {
		return errors.New("an attempt that fails")
	}
	if err := r.commit(ctx, job.Record(), begun); err != nil {
		return &StoreError{"commit", err}
	}
	job.Committed()
	return nil
}

// replay has only what was never acknowledged.
func (g *stage) replay(ctx context.Context, missing Range, deliver func(context.Context, []*Event) error) (Answer, error) {
	if err := pause.For(ctx, 10*time.Millisecond); err != nil {
		return Answer{}, err
	}
	if g.chance(2) {
		return Answer{}, errors.New("the source is away")
	}
	for _, e := range g.events {
		if p, _ := e.On(missing.Stream); missing.Has(p) && !g.acknowledged(e) {
			copied := *e
			if err := deliver(ctx, []*Event{&copied}); err != nil {
				return Answer{}, err
			}
		}
	}
	return Answer{}, nil
}

func (g *stage) acknowledged(e *Event) bool {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	return slices.ContainsFunc(g.outcomes[e.ID], func(o Outcome) bool { return o.Ack() || o.Result == Refused })
}

func (g *stage) blame(format string, args ...any) {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	if g.fault == nil {
		g.fault = fmt.Errorf(format, args...)
	}
}

// offer delivers an event to a process, for a while.
func (g *stage) offer(r *run, e *Event, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	copied := *e
	r.mu.Lock()
	r.calls++
	r.mu.Unlock()
	told := false
	err := r.seq.Offer(ctx, &copied, func(of *Event, o Outcome) {
		r.mu.Lock()
		r.calls--
		if told || of != &copied {
			g.blame("%s was told told, or of another event: %v", e.ID, o)
		}
		told = true
		r.mu.Unlock()
		if !r.dead.Load() {
			g.world.mu.Lock()
			g.outcomes[e.ID] = append(g.outcomes[e.ID], o)
			g.world.mu.Unlock()
		}
	})
	if err != nil {
		r.mu.Lock()
		r.calls--
		r.mu.Unlock()
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errShaky) && !errors.Is(err, ErrStopped) {
			g.blame("offer of %s: %w", e.ID, err)
		}
	}
}

func (g *stage) close(r *run) {
	if err := r.seq.Close(); err != nil {
		g.blame("close: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls != 0 {
		g.blame("%d offers were not told of their outcome", r.calls)
	}
}

func (g *stage) restart(i int) error {
	r, err := g.start(i)
	g.runs[i] = r
	return err
}

// alive returns a process that nobody has taken anything from, as far as it
// knows: one that finds out ends, and is started again.
func (g *stage) alive(i int) (*run, error) {
	for errors.Is(g.runs[i].seq.Err(), ErrFenced) {
		g.close(g.runs[i])
		if err := g.restart(i); err != nil {
			return nil, err
		}
	}
	return g.runs[i], nil
}

func (g *stage) operate(r *run, which int, do func(*Sequencer[*Event]) func(context.Context, lockkeys.Key) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	list, _ := r.store.Reader("").Parked(context.Background())
	if len(list) == 0 {
		return
	}
	streams := list[which%len(list)].Streams
	stream := streams[which%len(streams)].Stream
	err := do(r.seq)(ctx, stream)
	if err != nil && !errors.Is(err, ErrNotParked) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errShaky) &&
		!errors.Is(err, ErrFenced) && !errors.Is(err, ErrStopped) {
		g.blame("operator: %w", err)
	}
}

func (g *stage) play() error {
	for i := range g.processes {
		g.runs = append(g.runs, nil)
		if err := g.restart(i); err != nil {
			return err
		}
	}
	for _, a := range g.acts {
		time.Sleep(a.pause)
		r, err := g.alive(a.process)
		if err != nil {
			return err
		}
		switch a.kind {
		case "offer":
			if e := g.events[a.event]; !g.acknowledged(e) {
				g.offer(r, e, 300*time.Millisecond)
			}
		case "resume":
			g.operate(r, a.event, func(s *Sequencer[*Event]) func(context.Context, lockkeys.Key) error { return s.Resume })
		case "skip":
			g.operate(r, a.event, func(s *Sequencer[*Event]) func(context.Context, lockkeys.Key) error { return s.Skip })
		case "drop":
			g.operate(r, a.event, func(s *Sequencer[*Event]) func(context.Context, lockkeys.Key) error { return s.Drop })
		case "close":
			g.close(r)
			err = g.restart(a.process)
		case "crash":
			r.dead.Store(true)
			g.over.Go(func() { g.close(r) })
			err = g.restart(a.process)
		case "shaky":
			g.shaky.Store(true)
		case "well":
			g.shaky.Store(false)
		}
		if err != nil {
			return err
		}
	}
	return g.end()
}

// end has all go well from now on, until everything is done. The processes take
// turns with all streams.
func (g *stage) end() error {
	g.shaky.Store(false)
	g.world.mu.Lock()
	g.mended = true
	g.world.mu.Unlock()
	for i, r := range g.runs {
		if r.seq.Err() == nil {
			continue
		}
		g.close(r)
		if err := g.restart(i); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Hour)
	defer cancel()
	var left []string
	for round := range 40 {
		turn := round / 4 % len(g.runs) // for more than a round, or two processes may take streams from each other for ever
		r, err := g.alive(turn)
		if err != nil {
			return err
		}
		for _, e := range g.events {
			if !g.acknowledged(e) {
				g.offer(r, e, time.Minute)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if r, err = g.alive(turn); err != nil {
			return err
		}
		left = left[:0]
		for _, e := range g.events {
			if !g.acknowledged(e) {
				left = append(left, e.ID)
			}
		}
		list, err := r.seq.Parked(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 && len(list) == 0 && len(g.held()) == 0 {
			break
		}
		for _, p := range list {
			do := r.seq.Resume
			if g.skips && round > 9 {
				do = r.seq.Skip
			}
			if err := do(ctx, p.Streams[round%len(p.Streams)].Stream); err != nil && !errors.Is(err, ErrNotParked) && !errors.Is(err, ErrStopped) {
				g.blame("operator in the end: %w", err)
			}
			time.Sleep(time.Minute)
		}
	}
	synctest.Wait()
	parked, _ := g.store.Reader("").Parked(ctx)
	if len(left) > 0 || len(parked) > 0 || len(g.held()) > 0 {
		g.blame("not acknowledged: %v\nparked: %+v\nheld: %v\nstreams: %+v", left, parked, g.held(), g.runs[0].seq.Snapshot(10))
	}
	time.Sleep(time.Hour)
	for _, r := range g.runs {
		if errors.Is(r.seq.Err(), ErrFenced) { // it has what the other one has taken over
			g.close(r)
			continue
		}
		if err := r.seq.Drain(ctx); err != nil {
			g.blame("drain: %w", err)
		}
		stats := r.seq.Stats()
		if stats.Open != 0 || stats.Early != 0 || stats.EarlyBytes != 0 || stats.Streams != stats.Idle || stats.Parkings != 0 || stats.OpenGaps != 0 {
			g.blame("left in memory: %+v %+v", stats, r.seq.Snapshot(10))
		}
		g.close(r)
	}
	g.over.Wait()
	if g.fault != nil {
		return g.fault
	}
	return g.judge()
}

// judge compares with what should be: every event once, and in order.
func (g *stage) judge() error {
	g.world.mu.Lock()
	defer g.world.mu.Unlock()
	last := map[lockkeys.Key]*Event{}
	for _, e := range g.events {
		applied, given := g.applied[e.ID], g.givenUp[e.ID]
		refused := slices.ContainsFunc(g.outcomes[e.ID], func(o Outcome) bool { return o.Result == Refused })
		// One of two that contradict each other may be given up before the
		// other has run.
		if applied > 1 || applied+given > 1 && !g.twisted[e.ID] {
			return fmt.Errorf("%s was applied %d times and given up %d times", e.ID, applied, given)
		}
		copied := g.twisted[e.ID] && slices.ContainsFunc(g.outcomes[e.ID], func(o Outcome) bool { return o.Result == Duplicate })
		copied = copied || g.twisted[e.ID] && g.expelled[e.ID]
		if applied+given == 0 && !copied && !(refused && g.skips) && !(g.skips && g.isSkipped(e)) {
			return fmt.Errorf("%s is lost: told %v", e.ID, g.outcomes[e.ID])
		}
		if applied == 0 || g.twisted[e.ID] {
			if !g.skips {
				return fmt.Errorf("%s was given up", e.ID)
			}
			continue
		}
		for _, position := range e.Positions {
			if before := last[position.Stream]; before != nil && !g.free && g.ended[before.ID] > g.begun[e.ID] {
				return fmt.Errorf("%s began before %s ended: %s", e.ID, before.ID, strings.Join(g.order, " "))
			}
			last[position.Stream] = e
		}
	}
	return nil
}

// TestExactlyOnceWhateverHappens: stores that fail, or only seem to, processes
// that are killed or lose their streams to others, handlers that fail until
// they are mended, operators who resume, skip and drop, numbers that contradict
// each other, and sources that deliver again only what was not acknowledged:
// in the end every event has had its effect once and in order, or is given up
// on record, and nothing is left over.
func TestExactlyOnceWhateverHappens(t *testing.T) {
	const times = 10 // as many dramas as is usual: what is rare was found in thousands
	for range times {
		rapid.Check(t, func(rt *rapid.T) { playDrama(t, rt) })
	}
}

func playDrama(t *testing.T, rt *rapid.T) {
	d := drawDrama(rt)
	var err error
	var log []string
	synctest.Test(t, func(*testing.T) {
		g := &stage{drama: d, world: newWorld(d.seed), attempts: map[string]int{}, outcomes: map[string][]Outcome{}}
		err = g.play()
		log = g.log
		for _, r := range g.runs {
			_ = r.seq.Close()
		}
	})
	if err != nil {
		rt.Fatalf("%v\n%v\n%s", err, d, strings.Join(log, "\n"))
	}
}

func (d *drama) String() string {
	var b strings.Builder
	for _, e := range d.events {
		fmt.Fprintf(&b, "%s (%s) takes %v, fails %d\n", e.ID, FormatSequenceID(e.Positions), d.durations[e.ID], d.failing[e.ID])
	}
	for _, a := range d.acts {
		fmt.Fprintf(&b, "%v later %s %d at %d\n", a.pause, a.kind, a.event, a.process)
	}
	fmt.Fprintf(&b, "free %v, early %d, active %d, workers %d, pending %d, skips %v", d.free, d.early, d.active, d.workers, d.pending, d.skips)
	return b.String()
}
