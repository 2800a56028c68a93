package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

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
	err := answered(stop, c.cfg.AnswerTimeout, conn, func() (err error) {
		if ch, err = conn.Channel(); err != nil {
			return err
		}
		if err := ch.Qos(c.cfg.Prefetch, 0, false); err != nil {
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
	w := &consuming{Consumer: c, letters: letters, stop: stop, alive: alive, end: end, epoch: newEpoch(ch)}
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

	if err := w.receive(messages); err != nil {
		return err
	}
	err = w.finish()
	endAcks()
	acker.Wait()
	_, ackErr := w.epoch.acknowledge(nil)
	return errors.Join(err, ackErr)
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
		select {
		case m, ok := <-messages:
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

// give gives one message to the receiver.
func (w *consuming) give(ctx context.Context, m amqp.Delivery) error {
	m.Acknowledger = nil
	w.received.Add(1)
	w.open.Add(1)
	w.epoch.received()
	d := &delivery{consuming: w, message: m}
	err := w.call(ctx, d)
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
	case errors.As(err, new(*ordering.StoreError)) && !errors.Is(err, ordering.ErrStopped):
		return fmt.Errorf("a message was not taken, and is to come again: %w", err)
	}
	return w.fault(err)
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

// delivery is a message that the receiver has.
type delivery struct {
	*consuming
	message amqp.Delivery
	settled atomic.Bool
}

// settle is the delivery's [Settle].
func (d *delivery) settle(s Settlement) {
	if d.settled.Swap(true) {
		d.cfg.Logger.Error("rabbitmq: a receiver has settled a message twice", "queue", d.cfg.Queue, "message", d.message.MessageId)
		return
	}
	tag := d.message.DeliveryTag
	switch {
	case s.verdict == deadLetter && d.letters == nil:
		d.leave(tag, Return())
		d.end(fatal{&PoisonError{Queue: d.cfg.Queue, MessageID: d.message.MessageId, Err: s.reason}})
	case s.verdict == deadLetter:
		d.letters.publish(d.alive, d.message, s.reason, func(published bool) {
			if published {
				d.leave(tag, s)
			} else {
				d.leave(tag, Return())
			}
		})
	default:
		d.leave(tag, s)
		if s.verdict == giveBack && d.stop.Err() == nil {
			d.end(errReturned)
		}
	}
}

// leave settles a delivery.
func (w *consuming) leave(tag uint64, s Settlement) {
	w.open.Add(-1)
	switch inTime := w.epoch.leave(tag, s.verdict != giveBack); {
	case s.verdict == giveBack:
		w.returned.Add(1)
	case !inTime:
		w.late.Add(1)
	default:
		w.acked.Add(1)
		if s.verdict == deadLetter {
			w.deadLettered.Add(1)
		}
	}
}

// Reasons for the end of a channel.
var (
	// errCancelled: the queue was deleted, or a time limit of the broker's ran
	// out.
	errCancelled = errors.New("the broker cancelled the consumer")
	// errReturned: a message goes back to the queue with the channel only.
	errReturned = errors.New("a message was returned, to come again")
)
