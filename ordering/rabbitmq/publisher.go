package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
)

// Publisher publishes events to a broker and reports the outcome of each. It
// implements [outbox.Publisher]. Make it with [NewPublisher] and end it with
// Shutdown. Its methods are safe for concurrent use.
//
// # Order
//
// Events on streams that have their first two segments in common, such as
// client/42/account/7 and client/42/card/1, go through one channel. The broker
// puts them into a queue in the order in which they were given to the
// publisher, over lost connections too: then all that is unconfirmed is sent
// again in its order, before anything newer. So a queue may have an event more
// than once, but no event is in it for the first time before an earlier one of
// its streams. What is not in that order:
//
//   - an event with several positions, with the events of the others of its
//     streams: it goes the way of its first one;
//   - an event whose publishing failed, once it is published again;
//   - an event that no queue had when it was sent, if somebody else declared one before
//     the next event was.
//
// All of these are put in order by their numbers, as an [ordering.Sequencer] does. Or
// wait for an event to be confirmed before the next one on any of its streams
// is published, as the relay of package outbox does.
//
// # What is confirmed
//
// An event is confirmed when the broker has it in every queue that its exchange
// routes it to, on disk for durable queues; and there is at least one, or it
// comes back as [ErrUnroutable]. Before that, a topology that should give it one
// is declared again.
type Publisher struct {
	cfg     PublisherConfig
	link    *link
	lanes   []*lane
	restore Topology      // declared again when something of it is missing
	busy    chan struct{} // has something when there may be something to sweep

	closing     context.Context // ends when nothing is accepted any more
	close       context.CancelFunc
	stop        context.CancelCauseFunc // ends the goroutines
	running     sync.WaitGroup
	connected   atomic.Bool
	alive       atomic.Pointer[context.Context] // of the current or last connection
	connections atomic.Uint64

	confirmed, failed, resent atomic.Uint64

	accepted   tally
	closed     sync.Once
	closeError error // of Shutdown
}

// PublisherStats counts what a publisher has done since it was made.
type PublisherStats struct {
	Connected   bool   // there is a connection
	Blocked     bool   // the broker accepts no messages until it has more memory or disk
	Connections uint64 // connections made
	Confirmed   uint64 // messages confirmed
	Failed      uint64 // messages that ended with an error
	Resent      uint64 // number of times that a message was sent again
	Pending     int    // messages that wait to be sent or confirmed
}

// NewPublisher makes a publisher, which connects in the background. The error
// wraps [ErrConfig].
func NewPublisher(cfg PublisherConfig) (*Publisher, error) {
	return newPublisher(cfg, cfg.Topology)
}

func newPublisher(cfg PublisherConfig, restore Topology) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Publisher{cfg: cfg, link: newLink(cfg.Endpoint), restore: restore, busy: make(chan struct{}, 1)}
	p.link.unblocked = p.wakeLanes
	for range cfg.Channels {
		p.lanes = append(p.lanes, newLane(p))
	}
	none, end := context.WithCancel(context.Background())
	end()
	p.alive.Store(&none)
	p.closing, p.close = context.WithCancel(context.Background())
	ctx, stop := context.WithCancelCause(context.Background())
	p.stop = stop
	p.running.Go(func() { p.run(ctx) })
	p.running.Go(func() { p.sweep(ctx) })
	return p, nil
}

// newLetters makes a publisher of messages that are not events, without a route.
// It does not declare the topology, unless a part of it is missing.
func newLetters(cfg PublisherConfig) (*Publisher, error) {
	restore := cfg.Topology
	cfg.Topology = Topology{}
	cfg.Route = func(*ordering.Event) (exchange, key string, err error) {
		return "", "", errors.New("rabbitmq: this publisher has no route")
	}
	return newPublisher(cfg, restore)
}

// Publish sends an event and returns nil once it is confirmed. While there is
// no connection, or the broker accepts nothing, or the window of the event's
// channel is full, it waits. The error is that of [Publisher.Go].
func (p *Publisher) Publish(ctx context.Context, e *ordering.Event) error {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	p.Go(ctx, e, w.done)
	return <-w.result
}

// Go sends an event without waiting for its confirmation, so that many are on
// their way at the same time. It waits for a place in the window of the event's
// channel. Events that one goroutine gives it stay in order.
//
// done is called once, with nil when the event is confirmed; by any goroutine,
// Go itself if the event cannot be sent. It must return soon, and must not
// publish anything itself; a panic of it is logged. Other errors than nil:
//
//   - a [*PublishError] that wraps [ErrUnroutable], [ErrNacked], or the
//     broker's reason, an [*amqp.Error], if it closed the channel because of
//     this message; the other messages on the channel are sent again;
//   - a [*PublishError] that wraps [ErrNotSent] or [ErrUnknown], and the cause
//     of the context, which ended first; it is noticed within a few
//     milliseconds; or [ErrPublisherClosed]; and why there was no connection or
//     no channel, if there was none;
//   - a [*MessageError] or an [*ordering.EventError] for an event that no
//     message can hold; the error of Route.
//
// Permanent errors are marked by [dispatcher.Permanent].
//
// The event must not be changed, not even when its context has ended: it may
// be sent all the same.
func (p *Publisher) Go(ctx context.Context, e *ordering.Event, done func(error)) {
	if err := p.goEvent(ctx, e, done); err != nil {
		p.failed.Add(1)
		p.refuse(err, done)
	}
}

// refuse calls done, on the goroutine of the caller.
func (p *Publisher) refuse(err error, done func(error)) {
	var caught error
	defer func() {
		if caught != nil {
			p.callbackFailed(caught)
		}
	}()
	defer contain.Recover(&caught)
	done(err)
}

func (p *Publisher) callbackFailed(err error) {
	p.cfg.Logger.Error("rabbitmq: a callback of the publisher failed", "err", err)
}

func (p *Publisher) goEvent(ctx context.Context, e *ordering.Event, done func(error)) error {
	if err := canBeSent(e); err != nil {
		return err
	}
	exchange, key, err := p.cfg.Route(e)
	if err != nil {
		return fmt.Errorf("rabbitmq: no route for event %.80q: %w", e.Name(), err)
	}
	return p.give(ctx, rootHash(e.Positions[0].Stream), message{exchange: exchange, key: key, Publishing: Message(e)}, done)
}

// canBeSent returns an error for an event that cannot be converted to a message,
// wherever it is to go.
func canBeSent(e *ordering.Event) error {
	if e == nil {
		return dispatcher.Permanent(&MessageError{Part: "event", Err: errNoEvent})
	}
	if err := e.Validate(); err != nil {
		return dispatcher.Permanent(err)
	}
	for name := range e.Headers {
		if isReserved(name) {
			return dispatcher.Permanent(&MessageError{e.Name(), fmt.Sprintf("header %q", name), errReserved})
		}
	}
	return nil
}

var (
	errNoEvent  = errors.New("it is nil")
	errReserved = errors.New("the name is reserved for a part of the event itself: choose another one")
)

// publish sends a message and returns nil once it is confirmed. Messages with
// the same lane hash stay in order. The error is that of Go.
func (p *Publisher) publish(ctx context.Context, exchange, key string, lane uint64, m amqp.Publishing) error {
	w := waiters.Get().(*waiter)
	defer waiters.Put(w)
	if err := p.give(ctx, lane, message{exchange: exchange, key: key, Publishing: m}, w.done); err != nil {
		p.failed.Add(1)
		return err
	}
	return <-w.result
}

// give gives a message to its lane. If it returns an error, done is not called.
func (p *Publisher) give(ctx context.Context, lane uint64, m message, done func(error)) error {
	if err := m.measure(); err != nil {
		return dispatcher.Permanent(err)
	}
	p.accepted.enter()
	if err := p.lanes[jump(lane, len(p.lanes))].push(ctx, m, done); err != nil {
		p.accepted.leave()
		return m.failed(err)
	}
	select {
	case p.busy <- struct{}{}:
	default:
	}
	return nil
}

// Stats returns the counts at this moment.
func (p *Publisher) Stats() PublisherStats {
	s := PublisherStats{
		Connected: p.connected.Load(), Blocked: p.link.blocked.Load(), Connections: p.connections.Load(),
		Confirmed: p.confirmed.Load(), Failed: p.failed.Load(), Resent: p.resent.Load(),
	}
	for _, l := range p.lanes {
		s.Pending += l.pending()
	}
	return s
}

// Ready returns nil while events can be sent, for readiness checks. Otherwise
// the error wraps why they cannot, an [*amqp.Error] of the broker's for example,
// as far as that is known.
func (p *Publisher) Ready() error {
	switch {
	case p.closing.Err() != nil:
		return ErrPublisherClosed
	case !p.connected.Load():
		return because(errors.New("rabbitmq: the publisher has no connection"), p.link.why())
	case p.link.blocked.Load():
		return errors.New("rabbitmq: the broker accepts no messages until it has more memory or disk")
	}
	for _, l := range p.lanes {
		if err := l.channelTrouble(); err != nil {
			return fmt.Errorf("rabbitmq: a channel of the publisher cannot be used: %w", err)
		}
	}
	return nil
}

// Alive returns a context that ends with the current connection; if there is
// none, it has ended. Package replay/backup sends events another way until there
// is one again, and a relay of package outbox waits for it.
func (p *Publisher) Alive() context.Context { return *p.alive.Load() }

// Shutdown accepts no more events, waits until all accepted ones are confirmed
// or have failed, and closes the connection. If ctx ends first, the rest fails
// with an error that wraps [ErrPublisherClosed], and so does Shutdown, with the
// cause of ctx. No goroutine is left when it returns, which a broker that does
// not answer delays by a few seconds at most.
//
// Only the first call has an effect; others wait for it and return the same
// error. Do not call it in a callback, which it would wait for.
func (p *Publisher) Shutdown(ctx context.Context) error {
	p.closed.Do(func() { p.closeError = p.shutdown(ctx) })
	return p.closeError
}

// Close is [Publisher.Shutdown] without a deadline. While there is no broker it
// waits until the contexts of all accepted events have ended.
func (p *Publisher) Close() error { return p.Shutdown(context.Background()) }

func (p *Publisher) shutdown(ctx context.Context) (err error) {
	p.close()
	if cause := p.accepted.wait(ctx); cause != nil {
		err = fmt.Errorf("%w before everything was confirmed: %w", ErrPublisherClosed, cause)
	}
	p.stop(ErrPublisherClosed)
	p.running.Wait()
	return err
}

// run keeps the connection until ctx ends, and then fails the remaining messages.
func (p *Publisher) run(ctx context.Context) {
	err := p.link.run(ctx, p.serve)
	if err != nil {
		p.cfg.Logger.Error("rabbitmq: the publisher has ended", "err", err)
	} else {
		err = context.Cause(ctx)
	}
	for _, l := range p.lanes {
		l.end(err)
	}
}

// serve sends over one connection until that is lost.
func (p *Publisher) serve(ctx context.Context, conn *amqp.Connection) error {
	p.connections.Add(1)
	p.alive.Store(&ctx)
	p.connected.Store(true)
	defer p.connected.Store(false)
	var lanes sync.WaitGroup
	for _, l := range p.lanes {
		lanes.Go(func() { l.serve(ctx, conn) })
	}
	lanes.Wait()
	return context.Cause(ctx)
}

// sweepEvery is the interval of checks whether messages' contexts have ended.
const sweepEvery = 10 * time.Millisecond

// sweep sweeps the lanes while they have messages.
func (p *Publisher) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		ticker.Stop()
		select {
		case <-p.busy:
		case <-ctx.Done():
			return
		}
		ticker.Reset(sweepEvery)
		for busy := true; busy; {
			var now time.Time
			select {
			case now = <-ticker.C:
			case <-ctx.Done():
				return
			}
			busy = false
			for _, l := range p.lanes {
				busy = l.sweep(now) || busy
			}
		}
	}
}

func (p *Publisher) wakeLanes() {
	for _, l := range p.lanes {
		signal(l.work)
	}
}

// signal wakes the goroutine that waits on c, now or next.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// waiter waits for one result.
type waiter struct {
	result chan error
	done   func(error)
}

// waiters holds those not in use, so that a message costs no allocation.
var waiters = sync.Pool{New: func() any {
	w := &waiter{result: make(chan error, 1)}
	w.done = func(err error) { w.result <- err }
	return w
}}
