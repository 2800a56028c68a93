package ordering

import (
	"cmp"
	"context"

	"github.com/interlock-go/interlock/lockkeys"
)

// heldPlace is the place of a held event on one of its streams.
type heldPlace struct {
	stream lockkeys.Key
	number uint64
	id     int64
}

// less orders places by stream, then number, then age: contradictory events
// may have the same number.
func (p heldPlace) less(q heldPlace) bool {
	return cmp.Or(p.stream.Compare(q.stream), cmp.Compare(p.number, q.number), cmp.Compare(p.id, q.id)) < 0
}

// Hold implements [Term].
func (t *memoryTerm) Hold(ctx context.Context, events []*Event, fences Fences) error {
	for _, e := range events {
		if err := checkHeld(e); err != nil {
			return err
		}
	}
	c, err := t.begin(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	for _, e := range events {
		for _, p := range e.Positions {
			if _, err := c.heldByLocked(fences[p.Stream], p.Stream); err != nil {
				return err
			}
		}
	}
	last := c.lastHeld
	for _, e := range events {
		id := c.heldLocked(e.Positions)
		if id == 0 {
			c.holdLocked(HeldEvent{Event: e})
		} else if held := c.held[id].Event; !held.IsCopy(e) {
			for ; c.lastHeld > last; c.lastHeld-- { // none of them
				c.forgetLocked(c.held[c.lastHeld].Positions)
			}
			return conflict(e, held)
		}
	}
	return nil
}

// heldLocked returns the key of the held event with these numbers, or 0.
func (c *memoryConsumer) heldLocked(positions []Position) (id int64) {
	if len(positions) == 0 {
		return 0
	}
	at := positions[0]
	c.index.AscendGreaterOrEqual(heldPlace{stream: at.Stream, number: at.Place()}, func(p heldPlace) bool {
		if p.stream != at.Stream || p.number != at.Place() {
			return false
		}
		if SameNumbers(c.held[p.id].Positions, positions) {
			id = p.id
		}
		return id == 0
	})
	return id
}

func (c *memoryConsumer) holdLocked(h HeldEvent) {
	c.lastHeld++
	c.held[c.lastHeld] = h
	for _, p := range h.Positions {
		c.index.ReplaceOrInsert(heldPlace{p.Stream, p.Place(), c.lastHeld})
		c.streamLocked(p.Stream).held++
	}
}

// forgetLocked deletes the held event with these numbers, if there is one.
func (c *memoryConsumer) forgetLocked(positions []Position) {
	id := c.heldLocked(positions)
	if id == 0 {
		return
	}
	delete(c.held, id)
	for _, p := range positions {
		c.index.Delete(heldPlace{p.Stream, p.Place(), id})
		c.streams[p.Stream].held--
	}
}

// Forget implements [Term].
func (t *memoryTerm) Forget(ctx context.Context, e *Event, fences Fences) error {
	if err := checkHeld(e); err != nil {
		return err
	}
	c, err := t.begin(ctx)
	if err != nil {
		return err
	}
	defer t.leave()
	for _, p := range e.Positions {
		if _, err := c.heldByLocked(fences[p.Stream], p.Stream); err != nil {
			return err
		}
	}
	c.forgetLocked(e.Positions)
	return nil
}

// Held implements [Reader].
func (r memoryReader) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error) {
	c, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	var events []HeldEvent
	c.index.AscendGreaterOrEqual(heldPlace{stream: stream, number: from}, func(p heldPlace) bool {
		h := c.held[p.id]
		if p.stream != stream || len(events) >= limit {
			return false
		}
		if size -= h.Size(); size < 0 && len(events) > 0 {
			return false
		}
		events = append(events, h)
		return true
	})
	return events, nil
}

// firstHeldLocked returns the number of the first event held of a stream, or 0.
func (c *memoryConsumer) firstHeldLocked(stream lockkeys.Key) (number uint64) {
	c.index.AscendGreaterOrEqual(heldPlace{stream: stream}, func(p heldPlace) bool {
		if p.stream == stream {
			number = p.number
		}
		return false
	})
	return number
}

// Reached implements [Reader].
func (r memoryReader) Reached(ctx context.Context, stream lockkeys.Key) (uint64, error) {
	c, err := r.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer r.leave()
	if st := c.streams[stream]; st != nil {
		return st.last, nil
	}
	return 0, nil
}

// Backlog implements [Reader].
func (r memoryReader) Backlog(ctx context.Context) ([]lockkeys.Key, error) {
	c, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer r.leave()
	var streams []lockkeys.Key
	c.index.Ascend(func(p heldPlace) bool {
		st := c.streams[p.stream]
		open := st == nil || st.parking == nil
		if open && (len(streams) == 0 || streams[len(streams)-1] != p.stream) {
			streams = append(streams, p.stream)
		}
		return true
	})
	return streams, nil
}
