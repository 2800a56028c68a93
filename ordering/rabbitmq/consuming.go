package rabbitmq

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering"
)

// consuming is a consumer at work on one channel.
type consuming struct {
	*Consumer
	letters    *deadLetters    // nil if there is nowhere to publish them
	stop       context.Context // ends when the consumer is to stop
	alive      context.Context // ends with the channel
	end        context.CancelCauseFunc
	receiving  context.Context // the receiver's: ends when either does
	deliveries *deliveries
	limit      int  // the queue's delivery limit, 0 if unknown
	wide       bool // the channel has room for stuck dead letters

	takers   sync.Map // see meet
	watchers sync.WaitGroup
}

// consumingKey is the key of a consuming in its receiver's context. Receivers of
// this package find it there, also behind those that are wrapped around them.
type consumingKey struct{}

// consumingOf returns the consuming that passed ctx to its receiver, or nil.
func consumingOf(ctx context.Context) *consuming {
	w, _ := ctx.Value(consumingKey{}).(*consuming)
	return w
}

// consume consumes over one connection, until stop or connected ends.
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
		Consumer: c, letters: letters, stop: stop, alive: alive, end: end, deliveries: newDeliveries(ch, c.cfg.Prefetch),
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
	acker.Go(func() { w.deliveries.acknowledgeUntil(acks, end) })
	c.connected.Store(true)
	c.channels.Add(1)
	defer func() {
		c.connected.Store(false)
		w.deliveries.end()
		end(nil)
		endAcks()
		w.watchers.Wait()
		acker.Wait()
	}()

	acked := c.Stats().Acked
	err = w.receive(messages)
	if err == nil {
		err = w.finish()
	} else {
		w.tellLost(err)
		err = c.pause(err, c.Stats().Acked > acked)
	}
	endAcks()
	acker.Wait()
	w.deliveries.end()
	return errors.Join(err, w.wayOut(ch, conn))
}

// receive gives messages to the receiver until stop or alive ends. It returns
// nil for stop.
func (w *consuming) receive(messages <-chan amqp.Delivery) error {
	ctx, cancel := context.WithCancelCause(w.alive)
	defer cancel(nil)
	defer context.AfterFunc(w.stop, func() { cancel(context.Cause(w.stop)) })()
	ctx = context.WithValue(ctx, consumingKey{}, w)
	w.receiving = ctx
	for {
		next, room := messages, w.deliveries.room(w.cfg.Prefetch)
		if room != nil {
			next = nil
		}
		select {
		case <-room:
		case m, ok := <-next:
			switch {
			case w.stop.Err() != nil:
				return nil
			case !ok: // the reason is about to be known
				<-w.alive.Done()
				return context.Cause(w.alive)
			}
			if err := w.give(ctx, m); err != nil {
				cancel(err)
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

// finish waits until all messages of the receiver are settled.
func (w *consuming) finish() error {
	grace, cancel := context.WithTimeoutCause(w.alive, w.cfg.Grace, ErrGrace)
	defer cancel()
	select {
	case <-w.deliveries.quiet():
		return nil
	case <-grace.Done():
		return context.Cause(grace)
	}
}

// give gives one message to the receiver. While the receiver cannot take it for
// a temporary reason, give keeps the channel and all its messages, and gives the
// message again after a back-off: the broker drops a message that goes back to
// its queue too often.
func (w *consuming) give(ctx context.Context, m amqp.Delivery) error {
	m.Acknowledger = nil
	w.received.Add(1)
	w.open.Add(1)
	w.deliveries.received()
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
		w.leave(m.DeliveryTag, Requeue())
	}
	switch ended := ctx.Err() != nil || w.stop.Err() != nil; { // ctx ends a moment after stop
	case errors.As(err, new(*dispatcher.PanicError)):
		return w.fault(err)
	case ended:
		return nil // receive finds the reason
	case passes(err):
		return fmt.Errorf("a message was not accepted and returns to the queue: %w", err)
	}
	return w.fault(err)
}

// passes reports whether a message was not taken for a temporary reason: the
// store failed, or the bound of parked messages is reached.
func passes(err error) bool {
	return errors.Is(err, dispatcher.ErrTooManyParked) ||
		errors.As(err, new(*ordering.StoreError)) && !errors.Is(err, ordering.ErrStopped)
}

// giveAgain gives a message to the receiver until the reason has passed, or ctx
// ends.
func (w *consuming) giveAgain(ctx context.Context, d *delivery, err error) error {
	defer w.obstacle.Store(nil)
	for failed := 1; passes(err) && !d.settled.Load() && ctx.Err() == nil; failed++ {
		reason := err
		w.obstacle.Store(&reason)
		wait := w.cfg.Backoff.Wait(failed)
		w.rare.obstacle.say(func(missed int) {
			w.cfg.Logger.Warn("rabbitmq: a message cannot be accepted now and is tried again; the queue waits",
				"queue", w.cfg.Queue, "message", d.message.MessageId, "again_in", wait, "not_logged", missed, "err", err)
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
	defer contain.Recover(&err)
	return w.cfg.Receiver.Receive(ctx, d.message, d.settle)
}

// fault ends the consumer with an error of its receiver.
func (w *consuming) fault(err error) error {
	return fatal{fmt.Errorf("rabbitmq: receiver of queue %s: %w", w.cfg.Queue, err)}
}

// taker is what a receiver passes messages to: a sequencer or a dispatcher.
type taker interface{ Err() error }

// watchEvery is the interval of checks whether a taker was stopped.
const watchEvery = time.Second

// meet reports whether a taker is new to this channel. A taker that is stopped by
// a failure ends the consumer: its messages may fill the window, so that none
// comes whose refusal would tell.
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
	// errCancelled: the queue was deleted, or a time limit of the broker has
	// expired.
	errCancelled = errors.New("the broker cancelled the consumer")
	// errRequeued: a message returns to the queue only when its channel is closed.
	errRequeued = errors.New("a message returns to the queue")
	// errStuck: the window of a channel is fixed when it is opened.
	errStuck = errors.New("dead letters cannot be published: a channel with a larger window is opened, with room for them")
)
