package ordering

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

var (
	errCrashed = errors.New("the process is dead")
	errShaky   = errors.New("the store is not well")
)

// world is what outlives processes: the store's contents, and what handlers
// have done, which is committed with them.
type world struct {
	store *Memory
	shaky atomic.Bool // calls fail at times, whether they have done their work or not

	mu       sync.Mutex
	random   *rand.Rand
	clock    int
	begun    map[string]int // the run that was committed, by event
	ended    map[string]int
	applied  map[string]int
	givenUp  map[string]int
	expelled map[string]bool
	skipped  []Range
	order    []string
	log      []string // of what the store was told
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

func newWorld(seed uint64) *world {
	return &world{store: NewMemory(), random: rand.New(rand.NewPCG(seed, 0)), begun: map[string]int{},
		ended: map[string]int{}, applied: map[string]int{}, givenUp: map[string]int{}, expelled: map[string]bool{}}
}

func (w *world) tick() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return w.clock
}

func (w *world) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n) == 0
}

// process is the store as one process sees it, until it is killed, and its
// term. Each process has a partition of its own.
type process struct {
	*world
	Term
	partition string
	dead      atomic.Bool
}

// Begin implements Store.
func (p *process) Begin(ctx context.Context, c Consumer) (Term, error) {
	err := p.try(ctx, func() (err error) {
		p.Term, err = p.store.Begin(ctx, Consumer{Partition: p.partition})
		return err
	})
	return p, err
}

// End implements Term.
func (p *process) End(ctx context.Context) error {
	return p.try(ctx, func() error { return p.Term.End(ctx) })
}

// Reader implements Store.
func (p *process) Reader(string) Reader { return p }

// try makes a call of the store that may be slow, fail, or seem to fail.
func (p *process) try(ctx context.Context, do func() error) error {
	shaky := p.shaky.Load()
	if shaky && p.chance(6) {
		if err := pause.For(ctx, 30*time.Millisecond); err != nil {
			return err
		}
	}
	if p.dead.Load() {
		return errCrashed
	}
	if shaky && p.chance(6) {
		return errShaky
	}
	err := do()
	if shaky && p.chance(6) {
		return errShaky
	}
	return err
}

func (p *process) Acquire(ctx context.Context, streams []lockkeys.Key) (states []StreamState, err error) {
	err = p.try(ctx, func() (err error) {
		states, err = p.Term.Acquire(ctx, streams)
		return err
	})
	return states, err
}

func (p *process) Commit(ctx context.Context, r Record) error { return p.commit(ctx, r, 0) }

// commit commits, with the effect of a handler that began at a time.
func (p *process) commit(ctx context.Context, r Record, begun int) error {
	return p.try(ctx, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.log = append(p.log, fmt.Sprintf("%p commit %s %v held %v", p, r.Event.Name(), r.Status, r.Held))
		if err := p.Term.Commit(ctx, r); err != nil {
			p.log = append(p.log, "  refused: "+err.Error())
			return err
		}
		p.clock++
		switch name := r.Event.Name(); {
		case r.Status == StatusApplied:
			p.applied[name]++
			p.log = append(p.log, "applied "+name)
			p.begun[name], p.ended[name] = begun, p.clock
			p.order = append(p.order, name)
		default:
			p.givenUp[name]++
		}
		return nil
	})
}

func (p *process) Skip(ctx context.Context, k Skipped) error {
	return p.try(ctx, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		err := p.Term.Skip(ctx, k)
		p.log = append(p.log, fmt.Sprintf("%p skip %s %d-%d: %v", p, k.Stream, k.From, k.To, err))
		if err == nil {
			p.skipped = append(p.skipped, Range{Stream: k.Stream, From: k.From, To: k.To})
		}
		return err
	})
}

func (p *process) Look(ctx context.Context, positions []Position) (states []NumberState, err error) {
	err = p.try(ctx, func() (err error) {
		states, err = p.Term.Look(ctx, positions)
		return err
	})
	return states, err
}

func (p *process) Forget(ctx context.Context, e *Event, fences Fences) error {
	return p.try(ctx, func() error {
		p.note("%p forget %s", p, e.Name())
		return p.Term.Forget(ctx, e, fences)
	})
}

func (p *process) Hold(ctx context.Context, events []*Event, fences Fences) error {
	return p.try(ctx, func() error {
		for _, e := range events {
			p.note("%p hold %s", p, e.Name())
		}
		return p.Term.Hold(ctx, events, fences)
	})
}

func (p *process) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) (list []HeldEvent, err error) {
	err = p.try(ctx, func() (err error) {
		list, err = p.Term.Held(ctx, stream, from, limit, size)
		return err
	})
	return list, err
}

func (p *process) Park(ctx context.Context, parkings []Parking, fences Fences) error {
	return p.try(ctx, func() error {
		for _, parking := range parkings {
			p.note("%p park %s %v %v", p, parking.ID[:4], parking.Reason, parking.Streams)
			for _, h := range parking.Events {
				p.note("%p   with %s", p, h.Name())
			}
		}
		return p.Term.Park(ctx, parkings, fences)
	})
}

func (p *process) Unpark(ctx context.Context, ids []string, fences Fences) error {
	return p.try(ctx, func() error {
		p.note("%p unpark %s", p, ids)
		return p.Term.Unpark(ctx, ids, fences)
	})
}

func (p *process) Parked(ctx context.Context, ids ...string) (list []Parking, err error) {
	err = p.try(ctx, func() (err error) {
		list, err = p.Term.Parked(ctx, ids...)
		return err
	})
	return list, err
}

func (p *process) Backlog(ctx context.Context) (list []lockkeys.Key, err error) {
	err = p.try(ctx, func() (err error) {
		list, err = p.Term.Backlog(ctx)
		return err
	})
	return list, err
}

func (p *process) Prune(context.Context, time.Time, time.Time) (int64, error) { return 0, nil }

func (p *process) Close() error { return nil }

// held lists everything that the store holds.
func (w *world) held() (places []string) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	c := w.store.consumerLocked("default")
	c.index.Ascend(func(p heldPlace) bool {
		places = append(places, fmt.Sprintf("%s=%d %s", p.stream, p.number, c.held[p.id].Name()))
		return true
	})
	return places
}

// isSkipped tells whether a number of the event was skipped as one that never
// came.
func (w *world) isSkipped(e *Event) bool {
	for _, r := range w.skipped {
		if p, _ := e.On(r.Stream); r.Has(p) {
			return true
		}
	}
	return false
}
