package ordering

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

// history is what a producer sent, how it arrives, and what happens on the way.
type history struct {
	events    []*Event
	arrivals  []arrival
	durations []time.Duration // of the handler, by event
	failures  []int           // attempts that fail, by event
	restarts  map[int]bool    // before these arrivals
	flaky     int             // replay requests that fail, out of any 4
	free      bool            // events of a stream may run side by side
	early     int             // MaxEarly
	active    int             // MaxActive
	skips     map[string]bool // events that fail for good
}

type arrival struct {
	event int
	pause time.Duration
}

func drawHistory(rt *rapid.T) *history {
	h := &history{restarts: map[int]bool{}, skips: map[string]bool{}}
	streams := rapid.IntRange(1, 4).Draw(rt, "streams")
	next := make([]uint64, streams)
	n := rapid.IntRange(1, 40).Draw(rt, "events")
	ids := rapid.SampledFrom([]string{"of their own", "one for all", "the default"}).Draw(rt, "IDs")
	for i := range n {
		e := &Event{Type: fmt.Sprintf("e%d", i)} // by which the test knows it
		for s := range streams {
			if len(e.Positions) == 0 && s == streams-1 || rapid.IntRange(0, 2).Draw(rt, "on") == 0 {
				next[s]++
				e.Positions = append(e.Positions, Position{Stream: key(fmt.Sprintf("s%d", s)), Number: next[s]})
			}
		}
		switch ids {
		case "of their own":
			e.ID = e.Type
		case "one for all":
			e.ID = "same"
		}
		h.events = append(h.events, e)
		h.durations = append(h.durations, time.Duration(rapid.IntRange(0, 50).Draw(rt, "ms"))*time.Millisecond)
		h.failures = append(h.failures, rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "failures"))
		if rapid.IntRange(0, 9).Draw(rt, "skip") == 0 {
			h.skips[e.Type] = true
		}
	}
	// Every event arrives never, once or more often, near its place or not.
	for i := range n {
		for range rapid.SampledFrom([]int{0, 1, 1, 1, 1, 2, 3}).Draw(rt, "copies") {
			at := len(h.arrivals)
			if back := rapid.IntRange(0, 30).Draw(rt, "late"); back > 15 {
				at = max(0, at-(back-15))
			}
			pause := time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 10, 1500}).Draw(rt, "pause")) * time.Millisecond
			h.arrivals = append(h.arrivals[:at], append([]arrival{{i, pause}}, h.arrivals[at:]...)...)
		}
	}
	for i := range h.arrivals {
		if rapid.IntRange(0, 19).Draw(rt, "restart") == 0 {
			h.restarts[i] = true
		}
	}
	h.flaky = rapid.IntRange(0, 3).Draw(rt, "flaky")
	h.free = rapid.Bool().Draw(rt, "free")
	h.early = rapid.SampledFrom([]int{1, 2, 5, 1000}).Draw(rt, "MaxEarly")
	h.active = rapid.SampledFrom([]int{1, 2, 1000}).Draw(rt, "MaxActive")
	return h
}

// play is one run of a history.
type play struct {
	*history
	store    *Memory
	mu       sync.Mutex
	clock    int
	begun    map[string]int // by ID, of the run that ended well
	ended    map[string]int
	applied  map[string]int
	attempts map[string]int
	requests int
	told     map[string][]Outcome
	offered  map[string]int
}

func (p *play) config() Config[*Event] {
	cfg := Config[*Event]{Store: p.store, Handler: p.handle, Replayer: ReplayerFunc(p.replay), GapTimeout: time.Second,
		MaxEarly: p.early, MaxActive: p.active,
		Dispatcher: dispatcher.Config[Job[*Event]]{Workers: 3, MaxAttempts: 3},
		FailureFor: func(job Job[*Event], _ error) dispatcher.FailurePolicy {
			e := job.Event
			if p.skips[e.Type] {
				return dispatcher.DeadLetter
			}
			return dispatcher.Park
		}}
	if p.free {
		cfg.Keys = func(job Job[*Event], claim *lockkeys.Claim) error {
			e := job.Event
			claim.Exclusive(key(e.Type))
			return nil
		}
	}
	return cfg
}

func (p *play) handle(ctx context.Context, job Job[*Event]) error {
	id := job.Event.Type
	var i int
	fmt.Sscanf(id, "e%d", &i)
	p.mu.Lock()
	p.clock++
	begin := p.clock
	p.attempts[id]++
	fails := p.attempts[id] <= p.failures[i] || p.skips[id]
	p.mu.Unlock()
	if err := pause.For(ctx, p.durations[i]); err != nil {
		return err
	}
	if fails {
		return errors.New("an attempt that fails")
	}
	if err := p.store.Commit(ctx, job.Record()); err != nil {
		return err
	}
	job.Committed()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock++
	p.begun[id], p.ended[id] = begin, p.clock
	p.applied[id]++
	return nil
}

// replay answers in chunks of one, with more than asked, and sometimes not at
// all; not for ever, as a source with p_s > 0.
func (p *play) replay(ctx context.Context, missing Range, deliver func(context.Context, []*Event) error) (Answer, error) {
	for {
		p.mu.Lock()
		p.requests++
		fails := p.requests%4 < p.flaky
		p.mu.Unlock()
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return Answer{}, err
		}
		if !fails {
			break
		}
	}
	for i := len(p.events) - 1; i >= 0; i-- {
		if at, ok := p.events[i].On(missing.Stream); ok && at.Number >= missing.From && at.Number <= missing.To+1 {
			if err := deliver(ctx, p.events[i:i+1]); err != nil {
				return Answer{}, err
			}
		}
	}
	return Answer{}, nil
}

func (p *play) run() error {
	seq, err := New(context.Background(), p.config())
	if err != nil {
		return err
	}
	for i, a := range p.arrivals {
		if p.restarts[i] {
			if err := seq.Close(); err != nil {
				return err
			}
			if seq, err = New(context.Background(), p.config()); err != nil {
				return err
			}
		}
		time.Sleep(a.pause)
		copied := *p.events[a.event]
		p.mu.Lock()
		p.offered[copied.Type]++
		p.mu.Unlock()
		if err := seq.Offer(context.Background(), &copied, p.done); err != nil {
			return err
		}
	}
	// What was not acknowledged is delivered again; the last events of all
	// streams come, so that no loss goes unnoticed.
	for _, e := range p.events {
		p.mu.Lock()
		p.offered[e.Type]++
		p.mu.Unlock()
		if last := e == p.events[len(p.events)-1]; last || !p.acknowledged(e) {
			if err := seq.Offer(context.Background(), e, p.done); err != nil {
				return err
			}
		} else {
			p.mu.Lock()
			p.offered[e.Type]--
			p.mu.Unlock()
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := seq.Drain(ctx); err != nil {
		return fmt.Errorf("drain: %w: %+v", err, seq.Snapshot(10))
	}
	time.Sleep(time.Minute) // what the store took in comes back from it
	synctest.Wait()
	parked, err := seq.Parked(ctx)
	if err == nil && len(parked) > 0 {
		err = fmt.Errorf("parked: %+v", parked)
	}
	return errors.Join(err, p.impostors(seq), seq.Close(), p.check())
}

// impostors are other events with the numbers of those that were.
func (p *play) impostors(seq *Sequencer[*Event]) error {
	for _, e := range p.events {
		for _, positions := range [][]Position{e.Positions, e.Positions[:1], append(e.Positions[:len(e.Positions):len(e.Positions)], Position{Stream: key("new"), Number: 1})} {
			impostor := &Event{ID: e.ID, Type: e.Type, Positions: positions, Payload: []byte("another amount")}
			told := make(chan Outcome, 1)
			if err := seq.Offer(context.Background(), impostor, func(_ *Event, o Outcome) { told <- o }); err != nil {
				return err
			}
			if o := <-told; o.Result != Refused || !errors.Is(o.Err, ErrContradiction) {
				return fmt.Errorf("an impostor of %s (%s) was %v: %w", e.Type, FormatSequenceID(positions), o.Result, o.Err)
			}
		}
	}
	return nil
}

func (p *play) acknowledged(e *Event) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.told[e.Type] {
		if o.Ack() {
			return true
		}
	}
	return false
}

func (p *play) done(e *Event, o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told[e.Type] = append(p.told[e.Type], o)
}

// check compares with the reference model, which is: every event once, and on
// every stream one after the other.
func (p *play) check() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[lockkeys.Key]*Event{}
	for _, e := range p.events {
		if len(p.told[e.Type]) != p.offered[e.Type] {
			return fmt.Errorf("%s: offered %d times, told %v", e.Type, p.offered[e.Type], p.told[e.Type])
		}
		want := 1
		if p.skips[e.Type] {
			want = 0
		}
		if p.applied[e.Type] != want {
			return fmt.Errorf("%s was applied %d times, not %d", e.Type, p.applied[e.Type], want)
		}
		if want == 0 {
			continue
		}
		for _, position := range e.Positions {
			if before := last[position.Stream]; before != nil && !p.free && p.ended[before.Type] > p.begun[e.Type] {
				return fmt.Errorf("%s began before %s ended", e.Type, before.Type)
			}
			last[position.Stream] = e
		}
	}
	term, err := p.store.Begin(context.Background(), Consumer{})
	if err != nil {
		return err
	}
	for _, e := range p.events {
		for _, position := range e.Positions {
			states, err := term.Acquire(context.Background(), []lockkeys.Key{position.Stream})
			if err != nil {
				return err
			}
			if states[0].Last < position.Number || states[0].HeldAt != 0 {
				return fmt.Errorf("%s: position %v, but state %+v", e.Type, position, states[0])
			}
		}
	}
	return nil
}

// TestTheorems: safety (theorem 1) and liveness (theorem 2) of A. Kolodiuk and
// O. Voloschuk, DOI 10.31673/2412-9070.2025.061213: whatever is lost, doubled,
// late, fails for a while or is cut short by a restart, every event takes
// effect once, in the order of its numbers on every stream, and nothing waits
// for ever while the source has what is missing.
func TestTheorems(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := drawHistory(rt)
		var err error
		synctest.Test(t, func(*testing.T) {
			p := &play{history: h, store: NewMemory(), begun: map[string]int{}, ended: map[string]int{}, applied: map[string]int{},
				attempts: map[string]int{}, told: map[string][]Outcome{}, offered: map[string]int{}}
			err = p.run()
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}
