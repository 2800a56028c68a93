package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
)

// consuming is a consumer at work on one channel.
type consuming struct {
	*Consumer
	letters   *deadLetters    // nil if there is nowhere to publish them
	stop      context.Context // ends when the consumer is to stop
	alive     context.Context // ends with the channel
	end       context.CancelCauseFunc
	receiving context.Context // the receiver's: ends when either does
	epoch     *epoch
	limit     int  // the queue's delivery limit, 0 if that is not known
	wide      bool // the channel has room for dead letters that are stuck

	takers   sync.Map // see meet
	watchers sync.WaitGroup
}

// consumingKey is the key of a consuming in its receiver's context. Receivers of
// this package find it there, also behind those that are wrapped around them.
type consumingKey struct{}

// consumingOf returns whose receiver was given ctx, or nil.
func consumingOf(ctx context.Context) *consuming {
	w, _ := ctx.Value(consumingKey{}).(*consuming)
	return w
}

// consume consumes for one life of a connection, until stop or connected ends.
func (c *Consumer) consume(stop, connected context.Context, conn *amqp.Connection, letters *deadLetters) error {
	var (
		ch        *amqp.Channel
		messages  <-chan amqp.Delivery
		closed    = make(chan *amqp.Error, 1)
		cancelled = make(chan string, 1)
	)
	wide := c.stuck.isWide()
	err := answered(stop, c.cfg.AnswerTimeout, conn, func() (err error) {
		if ch, err = conn.Channel(); err != nil {
			return err
		}
		if err := ch.Qos(c.window(wide), 0, false); err != nil {
			return err
		}
		ch.NotifyClose(closed)
		ch.NotifyCancel(cancelled)
		messages, err = ch.Consume(c.cfg.Queue, c.cfg.Tag, false, false, false, false, c.cfg.Args)
		return err
	})
	if stop.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	alive, end := context.WithCancelCause(connected)
	acks, endAcks := context.WithCancel(alive)
	w := &consuming{
		Consumer: c, letters: letters, stop: stop, alive: alive, end: end, epoch: newEpoch(ch),
		limit: c.deliveryLimit(conn), wide: wide,
	}
	var acker sync.WaitGroup
	w.watchers.Go(func() {
		select {
		case reason := <-closed:
			end(closeReason(reason))
		case <-cancelled:
			end(errCancelled)
		case <-alive.Done():
		}
	})
	acker.Go(func() { w.epoch.acknowledgeUntil(acks, end) })
	c.connected.Store(true)
	c.epochs.Add(1)
	defer func() {
		c.connected.Store(false)
		w.epoch.end()
		end(nil)
		endAcks()
		w.watchers.Wait()
		acker.Wait()
	}()

	acked := c.acked.Load()
	err = w.receive(messages)
	if err == nil {
		err = w.finish()
	} else {
		w.tellLost(err)
		err = c.pause(err, c.acked.Load() > acked)
	}
	endAcks()
	acker.Wait()
	w.epoch.end()
	return errors.Join(err, w.wayOut(ch, conn))
}

// receive gives messages to the receiver until stop or alive ends. It returns
// nil when it was stop.
func (w *consuming) receive(messages <-chan amqp.Delivery) error {
	ctx, cancel := context.WithCancelCause(w.alive)
	defer cancel(nil)
	defer context.AfterFunc(w.stop, func() { cancel(context.Cause(w.stop)) })()
	ctx = context.WithValue(ctx, consumingKey{}, w)
	w.receiving = ctx
	for {
		next, room := messages, w.epoch.room(w.cfg.Prefetch)
		if room != nil {
			next = nil
		}
		select {
		case <-room:
		case m, ok := <-next:
			switch {
			case w.stop.Err() != nil:
				return nil
			case !ok: // why is about to be known
				<-w.alive.Done()
				return context.Cause(w.alive)
			}
			if err := w.give(ctx, m); err != nil {
				return err
			}
		case <-ctx.Done():
			if w.stop.Err() != nil && w.alive.Err() == nil {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// finish waits until all that the receiver has is settled.
func (w *consuming) finish() error {
	grace, cancel := context.WithTimeoutCause(w.alive, w.cfg.Grace, ErrGrace)
	defer cancel()
	select {
	case <-w.epoch.quiet():
		return nil
	case <-grace.Done():
		return context.Cause(grace)
	}
}

// give gives one message to the receiver. While that cannot take it, for a reason
// that passes, it keeps the channel, with all that it has, and gives the message
// again after a while: a message that goes back to its queue too often is dropped
// by the broker.
func (w *consuming) give(ctx context.Context, m amqp.Delivery) error {
	m.Acknowledger = nil
	w.received.Add(1)
	w.open.Add(1)
	w.epoch.received()
	w.look(m)
	d := &delivery{consuming: w, message: m}
	err := w.call(ctx, d)
	if passes(err) && !d.settled.Load() {
		err = w.giveAgain(ctx, d, err)
	}
	if err == nil {
		return nil
	}
	if !d.settled.Swap(true) {
		w.leave(m.DeliveryTag, Return())
	}
	switch ended := ctx.Err() != nil || w.stop.Err() != nil; { // ctx ends a moment after stop
	case errors.As(err, new(*dispatcher.PanicError)):
		return w.fault(err)
	case ended:
		return nil // receive looks why
	case passes(err):
		return fmt.Errorf("a message was not taken, and is to come again: %w", err)
	}
	return w.fault(err)
}

// passes reports whether a message was not taken for a reason that passes: the
// store did not answer as it should, or as much is parked as may be.
func passes(err error) bool {
	return errors.Is(err, dispatcher.ErrTooManyParked) ||
		errors.As(err, new(*ordering.StoreError)) && !errors.Is(err, ordering.ErrStopped)
}

// giveAgain gives a message to the receiver until the reason has passed, or ctx
// ends.
func (w *consuming) giveAgain(ctx context.Context, d *delivery, err error) error {
	defer w.obstacle.Store(nil)
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = w.cfg.MinBackoff, w.cfg.MaxBackoff
	for passes(err) && !d.settled.Load() && ctx.Err() == nil {
		reason := err
		w.obstacle.Store(&reason)
		wait := delays.NextBackOff()
		w.rare.obstacle.say(func(missed int) {
			w.cfg.Logger.Warn("rabbitmq: a message cannot be taken now and is given again; the queue waits",
				"queue", w.cfg.Queue, "message", d.message.MessageId, "again_in", wait, "not_logged", missed, "error", err)
		})
		sleep(ctx, wait)
		if ctx.Err() == nil {
			err = w.call(ctx, d)
		}
	}
	return err
}

// call calls the receiver. A panic counts as its error.
func (w *consuming) call(ctx context.Context, d *delivery) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &dispatcher.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return w.cfg.Receiver.Receive(ctx, d.message, d.settle)
}

// fault ends the consumer with an error of its receiver.
func (w *consuming) fault(err error) error {
	return fatal{fmt.Errorf("rabbitmq: receiver of queue %s: %w", w.cfg.Queue, err)}
}

// taker is to whom a receiver gives messages: a sequencer or a dispatcher.
type taker interface{ Err() error }

// watchEvery is how soon it is noticed that a taker was stopped.
const watchEvery = time.Second

// meet tells whether a taker is new to this channel. If one is stopped by a
// failure, so is the consumer: what it has may fill the window, so that no
// message comes that could be refused.
func (w *consuming) meet(t taker) (isNew bool) {
	if _, known := w.takers.LoadOrStore(t, nil); known {
		return false
	}
	w.watchers.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-w.alive.Done():
				return
			}
			if err := t.Err(); errors.Is(err, ordering.ErrStopped) || errors.Is(err, dispatcher.ErrStopped) {
				w.end(w.fault(err))
				return
			}
		}
	})
	return true
}

// Reasons for the end of a channel.
var (
	// errCancelled: the queue was deleted, or a time limit of the broker's ran
	// out.
	errCancelled = errors.New("the broker cancelled the consumer")
	// errReturned: a message goes back to the queue with the channel only.
	errReturned = errors.New("a message was returned, to come again")
	// errStuck: a channel's window is what it was when it was opened.
	errStuck = errors.New("dead letters are not taken: a wider channel has room for them")
)
