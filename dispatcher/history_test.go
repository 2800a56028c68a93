package dispatcher_test

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/lockkeys"
)

// history records which message held which keys from when to when, by a clock
// that counts what is recorded, and checks it against the rules.
type history struct {
	mu    sync.Mutex
	clock int
	holds []*hold
	open  map[uint64]*hold
}

// hold is a time in which a message had a claim: one attempt, or the part of
// one before or after keys were released.
type hold struct {
	id       uint64
	batch    int // messages of one batch share the keys; 0 for none
	claim    *lockkeys.Claim
	from, to int  // to is 0 while it lasts
	released bool // it ended because keys were released
	undone   bool // what was done meanwhile does not count
}

func newHistory() *history { return &history{open: make(map[uint64]*hold)} }

func (h *history) begin(id uint64, batch int, requests []lockkeys.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	o := &hold{id: id, batch: batch, claim: lockkeys.NewClaim(requests...), from: h.clock}
	h.holds = append(h.holds, o)
	h.open[id] = o
}

func (h *history) end(id uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	h.open[id].to = h.clock
	delete(h.open, id)
}

// leave is end for an attempt whose work may have been undone.
func (h *history) leave(id uint64, undone bool) {
	h.mu.Lock()
	h.open[id].undone = undone
	h.mu.Unlock()
	h.end(id)
}

// release says that the message goes on with rest alone.
func (h *history) release(id uint64, rest []lockkeys.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	before := h.open[id]
	before.to, before.released = h.clock, true
	o := &hold{id: id, batch: before.batch, claim: lockkeys.NewClaim(rest...), from: h.clock}
	h.holds = append(h.holds, o)
	h.open[id] = o
}

// check compares all pairs. claims has what each message claimed when it
// arrived, by its arrival number.
func (h *history) check(claims map[uint64]*lockkeys.Claim) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.checkExclusive(); err != nil {
		return err
	}
	byID := make(map[uint64][]*hold)
	for _, o := range h.holds {
		if !o.undone {
			byID[o.id] = append(byID[o.id], o)
		}
	}
	for i, earlier := range byID {
		for j, later := range byID {
			if i >= j || !claims[i].Conflicts(claims[j]) {
				continue
			}
			last := earlier[len(earlier)-1]
			if last.batch != 0 && last.batch == later[0].batch {
				continue // in one call, in order
			}
			if free := freeFor(earlier, claims[j]); free == 0 || free > later[0].from {
				return fmt.Errorf("order: message %d started at %d, before %d ended at %d, which arrived earlier and conflicts", j, later[0].from, i, free)
			}
		}
	}
	return nil
}

// checkExclusive looks for two messages that had conflicting keys at once.
func (h *history) checkExclusive() error {
	for i, a := range h.holds {
		for _, b := range h.holds[i+1:] {
			apart := a.to != 0 && a.to <= b.from || b.to != 0 && b.to <= a.from
			together := a.id == b.id || a.batch != 0 && a.batch == b.batch
			if !apart && !together && a.claim.Conflicts(b.claim) {
				return fmt.Errorf("exclusive: messages %d (%v) and %d (%v) had conflicting keys at once", a.id, a.claim.Requests(), b.id, b.claim.Requests())
			}
		}
	}
	return nil
}

// freeFor tells when holds let a claim go for the first time: when keys were
// released and the rest did not conflict with it, else when they ended.
func freeFor(holds []*hold, claim *lockkeys.Claim) int {
	for i, o := range holds {
		if o.released && i+1 < len(holds) && !holds[i+1].claim.Conflicts(claim) {
			return o.to
		}
	}
	return holds[len(holds)-1].to
}
