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
//
// Settled deliveries are acknowledged together: when they are a share of the window,
// when nothing else is on its way, or after ackDelay. One acknowledgement for each
// would cost client and broker about as much as the messages themselves.
type deliveries struct {
	ch   acknowledger
	many int           // so many are acknowledged without delay
	wake chan struct{} // has something when there is something to acknowledge
	ripe chan struct{} // has something when that is to be done without delay

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
	apart []uint64            // settled tags behind one that is not, in order, for the next time
	tags  []uint64            // a buffer
	last  time.Time           // of the last acknowledgement
}

// acknowledger is a channel. The broker closes it when an unknown tag, or one
// already acknowledged, is acknowledged.
type acknowledger interface {
	Ack(tag uint64, multiple bool) error
}

// ackDelay is how long an acknowledgement may wait for others while more messages are
// being processed. If the process dies meanwhile, the message is delivered again, as if
// the acknowledgement were lost on its way.
const ackDelay = time.Millisecond

// newDeliveries tracks deliveries on a channel with a window of so many messages.
func newDeliveries(ch acknowledger, window int) *deliveries {
	return &deliveries{
		ch: ch, many: max(1, window/8), wake: make(chan struct{}, 1), ripe: make(chan struct{}, 1),
		next: 1, above: map[uint64]struct{}{},
	}
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
	}
	n := len(d.mu.settled)
	if ack && n == 1 {
		signal(d.wake)
	}
	if n == d.many || n > 0 && d.mu.open == d.mu.stuck {
		signal(d.ripe)
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

// take takes the tags that were settled since the last time.
func (d *deliveries) take() []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	tags := d.mu.settled
	d.mu.settled, d.tags = d.tags[:0], tags
	return tags
}

// acknowledge sends acknowledgements of settled deliveries: one for all tags up
// to the first that is not settled, and one for each other tag. The latter is left for
// the next time first, when it may be part of the former, unless all is true. The tag
// of a multiple acknowledgement must not be acknowledged already.
func (d *deliveries) acknowledge(all bool) error {
	waited := d.apart
	tags := append(d.take(), waited...)
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
			return err
		}
	}
	d.apart = nil
	for _, tag := range tags[first:] {
		if _, again := slices.BinarySearch(waited, tag); !again && !all {
			d.apart = append(d.apart, tag)
			continue
		}
		if err := d.ch.Ack(tag, false); err != nil {
			return err
		}
		d.above[tag] = struct{}{}
	}
	return nil
}

// acknowledgeUntil acknowledges settled deliveries until ctx ends; what is left then
// is for acknowledge. After a failure it calls end, since the channel is unusable.
func (d *deliveries) acknowledgeUntil(ctx context.Context, end context.CancelCauseFunc) {
	delay := time.NewTimer(ackDelay)
	defer delay.Stop()
	for {
		if len(d.apart) == 0 {
			select {
			case <-d.wake:
			case <-ctx.Done():
				return
			}
		}
		delay.Reset(ackDelay)
		select {
		case <-d.ripe:
		case <-delay.C:
		case <-ctx.Done():
			return
		}
		if err := d.acknowledge(false); err != nil {
			end(err)
			return
		}
	}
}
