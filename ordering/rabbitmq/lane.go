package rabbitmq

import (
	"context"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
)

// lane holds the messages of one channel, in order, from their acceptance until
// their outcome is known. Channels come and go; the lane stays. At most one
// channel is open at a time, with one goroutine that sends and one that waits for
// confirmations.
type lane struct {
	p      *Publisher
	places chan struct{} // one for each slot in use
	work   chan struct{} // has something when the sender may have something to send
	sent   chan struct{} // has something when the collector may have something to wait for

	// mu guards the slots and the channel they are sent on. Under it, work is
	// linear in the slots concerned; sweep examines all.
	//
	// Slots are numbered consecutively; slot n is ring[n%len(ring)].
	// head ≤ next ≤ tail. Slots from head up to tail are in use, and those from
	// next on were not sent on the open channel. The slot of head is not
	// finished; finished ones behind it stay until it is.
	mu struct {
		sync.Mutex
		ring             []slot
		head, next, tail uint64
		careful          uint64    // slots before it are sent one at a time
		onWire           int       // number of slots with onWire set
		since            time.Time // when the slot of head became the oldest one sent

		ch      *amqp.Channel           // nil while there is none
		giveUp  context.CancelCauseFunc // ends the use of ch
		frame   int                     // largest size of a frame, 0 for no bound
		returns <-chan amqp.Return      // a returned message comes here before its confirmation
		trouble error                   // why the last channel was lost, while there is none

		renewal

		ended error // why nothing is accepted any more
	}
}

// slot holds a message that is not finished: its result is not told, or it is on
// a channel and not confirmed.
type slot struct {
	message
	ctx  context.Context
	done func(error)

	told    bool                       // done was called, or is about to be
	tried   bool                       // it was sent, on this channel or an earlier one
	onWire  bool                       // it was passed to the open channel and is not confirmed
	confirm *amqp.DeferredConfirmation // on the open channel; nil while it is being sent
	refusal error                      // why it was returned; nil if it was not

	restored bool // the topology was declared again for it, or is about to be
}

// result is told once mu is unlocked.
type result struct {
	done func(error)
	err  error
}

func newLane(p *Publisher) *lane {
	l := &lane{
		p:      p,
		places: make(chan struct{}, p.cfg.Window),
		work:   make(chan struct{}, 1),
		sent:   make(chan struct{}, 1),
	}
	l.mu.ring = make([]slot, p.cfg.Window)
	return l
}

// push adds a message when there is a place for it. The error is a reason for a
// [*PublishError]; then done is not called.
func (l *lane) push(ctx context.Context, m message, done func(error)) error {
	if ctx.Err() != nil {
		return notSent(context.Cause(ctx))
	}
	select {
	case l.places <- struct{}{}:
	default:
		select {
		case l.places <- struct{}{}:
		case <-ctx.Done():
			return notSent(context.Cause(ctx))
		case <-l.p.closing.Done():
			return notSent(ErrPublisherClosed)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.whyNotLocked(); err != nil {
		<-l.places
		return notSent(err)
	}
	*l.at(l.mu.tail) = slot{message: m, ctx: ctx, done: done}
	l.mu.tail++
	signal(l.work)
	return nil
}

func (l *lane) whyNotLocked() error {
	if l.mu.ended == nil && l.p.closing.Err() != nil {
		return ErrPublisherClosed
	}
	return l.mu.ended
}

func notSent(cause error) error { return fmt.Errorf("%w: %w", ErrNotSent, cause) }

func (l *lane) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.mu.tail - l.mu.head)
}

// at returns the slot of a number. It needs mu.
func (l *lane) at(number uint64) *slot { return &l.mu.ring[number%uint64(len(l.mu.ring))] }

// toSend returns the next message to send, or nil if there is none now.
func (l *lane) toSend() *slot {
	var told []result
	defer func() { l.tell(told) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.mu.next < l.mu.tail && l.mu.renew == nil && !l.p.link.blocked.Load() {
		s := l.at(l.mu.next)
		if err := s.fits(l.mu.frame); err != nil {
			told = l.finishLocked(s, dispatcher.Permanent(err), told)
		}
		if s.told {
			l.mu.next++
			l.retireLocked()
			continue
		}
		if l.mu.next < l.mu.careful && l.mu.head < l.mu.next {
			break // until that is confirmed
		}
		if s.tried {
			l.p.resent.Add(1)
		}
		s.tried, s.onWire = true, true
		l.mu.onWire++
		if l.mu.next == l.mu.head {
			l.mu.since = time.Now()
		}
		l.mu.next++
		return s
	}
	return nil
}

// isSent notes that a message was sent on the open channel.
func (l *lane) isSent(s *slot, confirm *amqp.DeferredConfirmation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.confirm = confirm
	if s == l.at(l.mu.head) {
		signal(l.sent)
	}
}

// oldest returns a channel that is closed when the oldest message sent is
// confirmed; nil if there is none.
func (l *lane) oldest() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.at(l.mu.head); l.mu.head < l.mu.next && s.confirm != nil {
		return s.confirm.Done()
	}
	return nil
}

// settle finishes the confirmed messages, up to the first unconfirmed one.
func (l *lane) settle(told []result) []result {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.mu.head; n < l.mu.next; n++ {
		var settled bool
		if settled, told = l.settleLocked(l.at(n), told); !settled {
			break
		}
	}
	l.retireLocked()
	l.renewLocked()
	return told
}

// settleLocked finishes a message if it is confirmed. It reports whether the
// message is not on the channel any more.
func (l *lane) settleLocked(s *slot, told []result) (bool, []result) {
	if !s.onWire {
		return true, told
	}
	if s.confirm == nil {
		return false, told
	}
	select {
	case <-s.confirm.Done():
	default:
		return false, told
	}
	l.takeReturnsLocked()
	reason := s.refusal
	if !s.confirm.Acked() {
		if l.mu.ch.IsClosed() { // that is the reason
			return false, told
		}
		reason = ErrNacked
	}
	s.onWire = false
	l.mu.onWire--
	if l.noteLocked(s, reason) {
		s.confirm, s.refusal = nil, nil
		return true, told
	}
	if reason != nil {
		reason = s.failed(reason)
	}
	return true, l.finishLocked(s, reason, told)
}

// finishLocked adds the result of a message to told, unless it was told already.
func (l *lane) finishLocked(s *slot, err error, told []result) []result {
	if s.told {
		return told
	}
	s.told = true
	if err == nil {
		l.p.confirmed.Add(1)
	} else {
		l.p.failed.Add(1)
	}
	return append(told, result{s.done, err})
}

// retireLocked frees the finished slots from head on.
func (l *lane) retireLocked() {
	head := l.mu.head
	for ; l.mu.head < l.mu.tail; l.mu.head++ {
		s := l.at(l.mu.head)
		if !s.told || s.onWire {
			break
		}
		*s = slot{}
		<-l.places
	}
	if l.mu.head == head {
		return
	}
	l.mu.next = max(l.mu.next, l.mu.head)
	l.mu.since = time.Now()
	if l.mu.next < l.mu.careful {
		signal(l.work)
	}
}

// tell calls done of all results, on a goroutine of its own: one that calls
// runtime.Goexit must not end a goroutine of the lane.
func (l *lane) tell(results []result) {
	contain.Each(len(results), func(i int) {
		defer l.p.accepted.leave()
		results[i].done(results[i].err)
	}, l.p.callbackFailed)
}

// sweep finishes messages whose context has ended, and those confirmed before
// an earlier one. It gives the channel up if the oldest message waits for too
// long. It reports whether any message is left.
func (l *lane) sweep(now time.Time) bool {
	var told []result
	defer func() { l.tell(told) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.mu.head; n < l.mu.tail; n++ {
		s := l.at(n)
		if n < l.mu.next {
			_, told = l.settleLocked(s, told)
		}
		if !s.told && s.ctx.Err() != nil {
			told = l.finishLocked(s, s.ended(context.Cause(s.ctx), l.whyLocked()), told)
		}
	}
	l.retireLocked()
	l.renewLocked()
	if l.p.link.blocked.Load() {
		l.mu.since = now
	}
	if l.mu.ch != nil && l.mu.head < l.mu.next && now.Sub(l.mu.since) > l.p.cfg.ConfirmTimeout {
		l.mu.giveUp(l.at(l.mu.head).failed(errConfirmTimeout))
	}
	return l.mu.head < l.mu.tail
}

// whyLocked returns why there is no channel, or nil if that is unknown.
func (l *lane) whyLocked() error {
	if why := l.p.link.why(); why != nil {
		return why
	}
	return l.mu.trouble
}

func (l *lane) channelTrouble() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.trouble
}

// ended returns the error of a message whose context has ended. It includes why
// the message could not be sent, if known.
func (s *slot) ended(cause, why error) error {
	reason := ErrNotSent
	if s.tried {
		reason = ErrUnknown
	}
	return s.failed(because(fmt.Errorf("%w: %w", reason, cause), why))
}

// end fails all messages, and those that come later. No channel is open.
func (l *lane) end(cause error) {
	var told []result
	defer func() { l.tell(told) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ended = cause
	for n := l.mu.head; n < l.mu.tail; n++ {
		s := l.at(n)
		told = l.finishLocked(s, s.ended(cause, nil), told)
	}
	l.retireLocked()
}
