package rabbitmq

import (
	"context"
	"slices"
	"sync"
	"time"
)

// deliveries tracks the deliveries of one channel of a consumer. A delivery is
// settled on the channel that it came by, or not at all: on any other its tag
// means another message, or none. Its methods are called at most once for each
// tag.
type deliveries struct {
	ch   acknowledger
	wake chan struct{} // has something when there is something to acknowledge

	mu struct {
		sync.Mutex
		open    int           // received and not settled, or to be published as a dead letter
		stuck   int           // of those, dead letters that are stuck
		changed chan struct{} // closed when there may be room; nil if nobody waits for that
		settled []uint64      // tags to be acknowledged
		quiet   chan struct{} // closed when open is 0; nil if nobody waits for that
		over    bool
	}

	// Only for the acknowledging goroutine.
	next  uint64              // every smaller tag is acknowledged
	above map[uint64]struct{} // acknowledged tags from next on
	last  time.Time           // of the last acknowledgement
}

// acknowledger is a channel. The broker closes it when an unknown tag, or one
// already acknowledged, is acknowledged.
type acknowledger interface {
	Ack(tag uint64, multiple bool) error
}

func newDeliveries(ch acknowledger) *deliveries {
	return &deliveries{ch: ch, wake: make(chan struct{}, 1), next: 1, above: map[uint64]struct{}{}}
}

// received notes that a delivery is with the receiver.
func (d *deliveries) received() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.open++
}

// leave settles a delivery, with an acknowledgement or without. It reports
// whether the channel was still in use.
func (d *deliveries) leave(tag uint64, ack bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changeLocked()
	if d.mu.open--; d.mu.open == 0 && d.mu.quiet != nil {
		close(d.mu.quiet)
		d.mu.quiet = nil
	}
	if d.mu.over {
		return false
	}
	if ack {
		d.mu.settled = append(d.mu.settled, tag)
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// room returns nil if the window has room for one more message; stuck dead
// letters do not count. Otherwise it returns a channel that is closed when it is
// time to ask again.
func (d *deliveries) room(window int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.open-d.mu.stuck < window {
		return nil
	}
	if d.mu.changed == nil {
		d.mu.changed = make(chan struct{})
	}
	return d.mu.changed
}

// stick counts one more stuck dead letter, or one less for -1.
func (d *deliveries) stick(change int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.stuck += change
	d.changeLocked()
}

func (d *deliveries) changeLocked() {
	if d.mu.changed != nil {
		close(d.mu.changed)
		d.mu.changed = nil
	}
}

// isOpen returns how many deliveries are open.
func (d *deliveries) isOpen() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.open
}

// quiet returns a channel that is closed once all deliveries are settled.
func (d *deliveries) quiet() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.quiet == nil {
		d.mu.quiet = make(chan struct{})
		if d.mu.open == 0 {
			closed := d.mu.quiet
			d.mu.quiet = nil
			close(closed)
			return closed
		}
	}
	return d.mu.quiet
}

// end stops acknowledgements.
func (d *deliveries) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.over = true
}

func (d *deliveries) take(spare []uint64) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	tags := d.mu.settled
	d.mu.settled = spare[:0]
	return tags
}

// acknowledge sends acknowledgements of settled deliveries: one for all tags up
// to the first that is not settled, and one for each other tag. The tag of a
// multiple acknowledgement must not be acknowledged already.
func (d *deliveries) acknowledge(spare []uint64) (tags []uint64, err error) {
	tags = d.take(spare)
	slices.Sort(tags)
	first := 0 // index of the first tag that is acknowledged alone
	for {
		if first < len(tags) && tags[first] == d.next {
			first++
		} else if _, ok := d.above[d.next]; ok {
			delete(d.above, d.next)
		} else {
			break
		}
		d.next++
	}
	if len(tags) > 0 {
		d.last = time.Now()
	}
	if first > 0 {
		if err := d.ch.Ack(tags[first-1], true); err != nil {
			return tags, err
		}
	}
	for _, tag := range tags[first:] {
		if err := d.ch.Ack(tag, false); err != nil {
			return tags, err
		}
		d.above[tag] = struct{}{}
	}
	return tags, nil
}

// acknowledgeUntil acknowledges settled deliveries until ctx ends. After a
// failure it calls end, since the channel is unusable.
func (d *deliveries) acknowledgeUntil(ctx context.Context, end context.CancelCauseFunc) {
	var tags []uint64
	for {
		select {
		case <-d.wake:
			var err error
			if tags, err = d.acknowledge(tags); err != nil {
				end(err)
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
