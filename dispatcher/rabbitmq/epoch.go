package rabbitmq

import (
	"context"
	"slices"
	"sync"
	"time"
)

// epoch is one life of a consumer's channel. A delivery is settled in the epoch
// that it came in, or not at all: in any other its tag means another message,
// or none. Everything here is called at most once for each tag.
type epoch struct {
	ch   acknowledger
	wake chan struct{} // has something when there is something to acknowledge

	mu struct {
		sync.Mutex
		open    int           // received and not settled, or to be published as a dead letter
		stuck   int           // of those, dead letters that wait for their place
		changed chan struct{} // closed when there may be room, if someone waits for that
		settled []uint64      // tags to be acknowledged
		quiet   chan struct{} // closed when open is 0, if someone waits for that
		over    bool
	}

	// The acknowledging goroutine's.
	next  uint64              // every smaller tag is acknowledged
	above map[uint64]struct{} // tags from next on that are
	last  time.Time           // when the last one was
}

// acknowledger is a channel, which closes when a tag is acknowledged that it
// does not know, or not any more.
type acknowledger interface {
	Ack(tag uint64, multiple bool) error
}

func newEpoch(ch acknowledger) *epoch {
	return &epoch{ch: ch, wake: make(chan struct{}, 1), next: 1, above: map[uint64]struct{}{}}
}

// received notes that a delivery is with the receiver.
func (e *epoch) received() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.open++
}

// leave settles a delivery, which is acknowledged or left alone. It tells
// whether the epoch was still there.
func (e *epoch) leave(tag uint64, ack bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.changeLocked()
	if e.mu.open--; e.mu.open == 0 && e.mu.quiet != nil {
		close(e.mu.quiet)
		e.mu.quiet = nil
	}
	if e.mu.over {
		return false
	}
	if ack {
		e.mu.settled = append(e.mu.settled, tag)
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// room returns nil if the receiver may have one more message, of a window of so
// many, in which dead letters that are stuck do not count; else a channel that is
// closed when it is time to ask again.
func (e *epoch) room(window int) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.open-e.mu.stuck < window {
		return nil
	}
	if e.mu.changed == nil {
		e.mu.changed = make(chan struct{})
	}
	return e.mu.changed
}

// stick notes that one dead letter more is stuck, or with -1 one less.
func (e *epoch) stick(change int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.stuck += change
	e.changeLocked()
}

func (e *epoch) changeLocked() {
	if e.mu.changed != nil {
		close(e.mu.changed)
		e.mu.changed = nil
	}
}

// isOpen returns how many deliveries are open.
func (e *epoch) isOpen() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.open
}

// quiet returns a channel that is closed once all deliveries are settled.
func (e *epoch) quiet() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.quiet == nil {
		e.mu.quiet = make(chan struct{})
		if e.mu.open == 0 {
			closed := e.mu.quiet
			e.mu.quiet = nil
			close(closed)
			return closed
		}
	}
	return e.mu.quiet
}

// end lets nothing be acknowledged any more.
func (e *epoch) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.over = true
}

func (e *epoch) take(spare []uint64) []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	tags := e.mu.settled
	e.mu.settled = spare[:0]
	return tags
}

// acknowledge sends what was settled: the tags up to the first that is not
// settled in one step, and the others one by one. An acknowledgement of many
// must not be of a tag that is acknowledged already.
func (e *epoch) acknowledge(spare []uint64) (tags []uint64, err error) {
	tags = e.take(spare)
	slices.Sort(tags)
	first := 0 // of those that the step leaves
	for {
		if first < len(tags) && tags[first] == e.next {
			first++
		} else if _, ok := e.above[e.next]; ok {
			delete(e.above, e.next)
		} else {
			break
		}
		e.next++
	}
	if len(tags) > 0 {
		e.last = time.Now()
	}
	if first > 0 {
		if err := e.ch.Ack(tags[first-1], true); err != nil {
			return tags, err
		}
	}
	for _, tag := range tags[first:] {
		if err := e.ch.Ack(tag, false); err != nil {
			return tags, err
		}
		e.above[tag] = struct{}{}
	}
	return tags, nil
}

// acknowledgeUntil acknowledges what is settled until ctx ends; when that
// fails, the channel is of no use any more.
func (e *epoch) acknowledgeUntil(ctx context.Context, end context.CancelCauseFunc) {
	var tags []uint64
	for {
		select {
		case <-e.wake:
			var err error
			if tags, err = e.acknowledge(tags); err != nil {
				end(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
