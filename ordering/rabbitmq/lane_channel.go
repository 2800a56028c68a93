package rabbitmq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/interlock-go/interlock/dispatcher"
)

var errConfirmTimeout = errors.New("no confirmation within ConfirmTimeout")

// serve sends the lane's messages, on one channel after the other, until the
// connection is lost.
func (l *lane) serve(ctx context.Context, conn *amqp.Connection) {
	failed := 0
	for ctx.Err() == nil && !conn.IsClosed() {
		progress, err := l.serveChannel(ctx, conn)
		if ctx.Err() != nil || conn.IsClosed() {
			return
		}
		restore := l.isLost(err)
		l.p.cfg.Logger.Warn("rabbitmq: a channel of the publisher was closed, its messages are sent again", "err", err)
		switch {
		case restore:
			l.restore(ctx, conn)
		case progress:
			failed = 0
		default:
			failed++
			sleep(ctx, l.p.cfg.Backoff.Wait(failed))
		}
	}
}

// serveChannel sends on one channel until that is closed, and reports whether it
// finished any message.
func (l *lane) serveChannel(ctx context.Context, conn *amqp.Connection) (progress bool, err error) {
	var ch *amqp.Channel
	err = answered(ctx, l.p.cfg.AnswerTimeout, conn, func() error {
		if ch, err = conn.Channel(); err != nil {
			return err
		}
		return ch.Confirm(false)
	})
	if err != nil {
		return false, fmt.Errorf("opening a channel: %w", err)
	}
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	returns := ch.NotifyReturn(make(chan amqp.Return, l.p.cfg.Window)) // has room for all, so the client never waits
	alive, end := context.WithCancelCause(ctx)
	first := l.begin(ch, returns, end, conn.Config.FrameSize)
	var running sync.WaitGroup
	running.Go(func() { l.send(alive, ch, end) })
	running.Go(func() { l.collect(alive, ch) })
	select {
	case reason := <-closed:
		end(closeReason(reason))
	case <-alive.Done():
		closeChannel(ch, conn)
	}
	running.Wait()
	return l.over(context.Cause(alive)) > first, context.Cause(alive)
}

// closeChannel closes a channel, and the connection with it if the broker does
// not answer.
func closeChannel(ch *amqp.Channel, conn *amqp.Connection) {
	late := time.AfterFunc(closeTimeout, func() { _ = conn.CloseDeadline(time.Now()) })
	defer late.Stop()
	_ = ch.Close()
}

// begin takes a new channel into use. It returns the number of the first slot;
// sending starts there.
func (l *lane) begin(ch *amqp.Channel, returns <-chan amqp.Return, giveUp context.CancelCauseFunc, frame int) (first uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ch, l.mu.returns, l.mu.giveUp, l.mu.frame = ch, returns, giveUp, frame
	l.mu.since, l.mu.trouble = time.Now(), nil
	l.beginRenewalLocked()
	return l.mu.head
}

// send sends messages, in order, until ctx ends.
func (l *lane) send(ctx context.Context, ch *amqp.Channel, end context.CancelCauseFunc) {
	for ctx.Err() == nil {
		s := l.toSend()
		if s == nil {
			select {
			case <-l.work:
			case <-ctx.Done():
			}
			continue
		}
		confirm, err := ch.PublishWithDeferredConfirm(s.exchange, s.key, true, false, s.Publishing)
		if err != nil {
			// The broker's reason, if any, comes by NotifyClose; err may only
			// say that the channel is closed.
			if !ch.IsClosed() {
				end(err)
			}
			return
		}
		l.isSent(s, confirm)
	}
}

// collect waits for confirmations until ctx ends.
func (l *lane) collect(ctx context.Context, ch *amqp.Channel) {
	var told []result
	for {
		select {
		case <-l.oldest():
			if ch.IsClosed() {
				return // over examines the confirmations
			}
			told = l.settle(told[:0])
			l.tell(told)
			clear(told)
		case <-l.sent:
		case <-ctx.Done():
			return
		}
	}
}

// takeReturnsLocked records the returned messages. The client delivers a return
// before its confirmation.
func (l *lane) takeReturnsLocked() {
	for {
		select {
		case r, ok := <-l.mu.returns:
			if !ok { // closed with the channel
				l.mu.returns = nil
				return
			}
			l.returnedLocked(r)
		default:
			return
		}
	}
}

// returnedLocked records the return of a message. Of several that look alike any may be
// the one that came back: two attempts at an event, with a queue that was bound or deleted
// between them, or two events with one ID that an exchange tells apart by their headers.
// So all of them count as returned. One that a queue has is sent again by that, which its
// numbers make harmless; one that no queue has would be lost if it counted as confirmed.
func (l *lane) returnedLocked(r amqp.Return) {
	for n := l.mu.head; n < l.mu.next; n++ {
		s := l.at(n)
		if s.onWire && s.exchange == r.Exchange && s.key == r.RoutingKey && s.MessageId == r.MessageId && bytes.Equal(s.Body, r.Body) {
			s.refusal = fmt.Errorf("%w (%d %s)", ErrUnroutable, r.ReplyCode, r.ReplyText)
		}
	}
}

// over ends the use of a channel. Unconfirmed messages will be sent again in
// order, except those whose result was told meanwhile. It returns the number of
// the first slot left.
//
// The broker closes a channel because of one message, but does not say which. A
// single suspect fails. Several are sent again one at a time, until it is found.
func (l *lane) over(cause error) (first uint64) {
	var told []result
	defer func() { l.tell(told) }()
	l.mu.Lock()
	defer l.mu.Unlock()
	var suspects []uint64
	for n := l.mu.head; n < l.mu.next; n++ {
		s := l.at(n)
		if _, told = l.settleLocked(s, told); s.onWire {
			suspects = append(suspects, n)
		}
		s.onWire, s.confirm, s.refusal = false, nil, nil
	}
	l.mu.onWire = 0
	reason := refusal(cause)
	if reason != nil && l.mayRestoreLocked(reason, suspects) {
		reason = nil
	}
	if reason != nil && len(suspects) == 1 {
		s := l.at(suspects[0])
		told = l.finishLocked(s, s.failed(reason), told)
	} else if reason != nil && len(suspects) > 1 {
		l.mu.careful = suspects[len(suspects)-1] + 1
	}
	l.mu.ch, l.mu.returns, l.mu.giveUp = nil, nil, nil
	l.mu.next = l.mu.head
	l.retireLocked()
	return l.mu.head
}

// refusal returns the broker's reason for closing a channel because of a message,
// or nil if the channel was closed for another reason.
func refusal(cause error) error {
	var e *amqp.Error
	if !errors.As(cause, &e) || !e.Server {
		return nil
	}
	switch e.Code {
	case amqp.PreconditionFailed, amqp.ContentTooLarge: // it is too large, or has an invalid property
		return dispatcher.Permanent(e)
	case amqp.NotFound, amqp.AccessRefused: // the exchange
		return e
	}
	return nil
}
