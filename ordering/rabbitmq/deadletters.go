package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// deadLetters publishes the dead letters of one run of a consumer, on a
// connection of its own, which the first of them opens.
//
// A message that cannot be published is stuck: it stays unacknowledged and is
// tried again; stuck ones are tried one at a time. They do not count in the
// receiver's window. When half a window of them is stuck, the consumer opens a
// channel whose window is larger by [ConsumerConfig.MaxStuck].
type deadLetters struct {
	*Consumer
	running sync.WaitGroup

	probe  chan struct{} // full while a stuck one is tried
	failed int           // failed attempts at stuck ones in a row; guarded by probe

	mu struct {
		sync.Mutex
		publisher *Publisher
		closed    bool
	}
}

func newDeadLetters(c *Consumer) *deadLetters {
	if c.cfg.DeadLetter == (Address{}) {
		return nil
	}
	return &deadLetters{Consumer: c, probe: make(chan struct{}, 1)}
}

// publish publishes a message and then settles it. If its consumer stops or its
// channel is lost first, the message is redelivered.
func (l *deadLetters) publish(d *delivery, reason error) {
	tag := d.message.DeliveryTag
	if !l.enter() {
		d.leave(tag, Requeue())
		return
	}
	go func() {
		defer l.running.Done()
		letter := letterOf(d.message, l.cfg.Queue, reason)
		err := l.try(d, &letter)
		if err != nil && d.receiving.Err() == nil {
			err = l.tryAgain(d, &letter, err)
		}
		if err == nil {
			d.leave(tag, DeadLetter(reason))
		} else {
			d.leave(tag, Requeue())
		}
	}()
}

// try publishes a letter, cut if necessary. It waits for AnswerTimeout, or for
// closeTimeout once the consumer is to stop.
func (l *deadLetters) try(d *delivery, letter *amqp.Publishing) error {
	p, err := l.publisher()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(d.alive, l.cfg.AnswerTimeout)
	defer cancel()
	defer context.AfterFunc(d.stop, func() {
		sleep(ctx, closeTimeout)
		cancel()
	})()
	for {
		err = p.publish(ctx, l.cfg.DeadLetter.Exchange, l.cfg.DeadLetter.Key, 0, *letter)
		var large *headError
		if !errors.As(err, &large) {
			return err
		}
		names := cutHead(letter, large.head, large.frame)
		if names == nil {
			return err
		}
		l.tellLeft(d.message, names...)
	}
}

// tryAgain tries a stuck letter until it is published, the consumer stops, or the
// channel is lost.
func (l *deadLetters) tryAgain(d *delivery, letter *amqp.Publishing, err error) error {
	if l.stuck.add(err) >= (l.cfg.Prefetch+1)/2 && !d.wide {
		l.stuck.widen()
		d.end(errStuck)
	}
	d.deliveries.stick(1)
	defer func() {
		d.deliveries.stick(-1)
		l.stuck.remove(err == nil)
	}()
	for err != nil {
		l.tellStuck(d, err)
		select {
		case l.probe <- struct{}{}:
		case <-d.receiving.Done():
			return err
		}
		if l.failed > 0 {
			sleep(d.receiving, l.cfg.Backoff.Wait(l.failed))
		}
		if d.receiving.Err() == nil {
			err = l.try(d, letter)
		}
		if l.failed++; err == nil {
			l.failed = 0
		}
		<-l.probe
		if d.receiving.Err() != nil {
			return err
		}
		if err != nil {
			l.stuck.note(err)
		}
	}
	return nil
}

func (l *deadLetters) tellStuck(d *delivery, err error) {
	l.rare.stuck.say(func(missed int) {
		l.cfg.Logger.Error("rabbitmq: a dead letter could not be published and is tried again; such messages wait unacknowledged, and if there are too many, nothing else is consumed",
			append(d.names(), "place", l.cfg.DeadLetter, "waiting", l.stuck.count(), "most", l.cfg.MaxStuck, "not_logged", missed, "err", err)...)
	})
}

// enter reports whether a message may still be published, and makes close wait
// for it: a message may be settled after its consumer has ended.
func (l *deadLetters) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.mu.closed {
		l.running.Add(1)
	}
	return !l.mu.closed
}

func (l *deadLetters) publisher() (*Publisher, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.publisher != nil {
		return l.mu.publisher, nil
	}
	var err error
	l.mu.publisher, err = newLetters(PublisherConfig{Endpoint: l.cfg.Endpoint, Channels: 1})
	return l.mu.publisher, err
}

// close waits until nothing is published any more, and closes the connection. The
// contexts of running attempts have ended; unconfirmed messages stay in their
// queue.
func (l *deadLetters) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.mu.closed = true
	l.mu.Unlock()
	l.running.Wait()
	if p := l.mu.publisher; p != nil {
		atOnce, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(atOnce)
	}
}

// stuck records the stuck dead letters of a consumer.
type stuck struct {
	mu      sync.Mutex
	waiting int
	err     error     // of the last failed attempt
	since   time.Time // since when there are stuck ones
	wide    bool      // the next channel is to have room for them
}

// add counts one more, and returns their number.
func (s *stuck) add(err error) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		s.since = time.Now()
	}
	s.waiting++
	s.err = err
	return s.waiting
}

// widen makes the next channel have room for them.
func (s *stuck) widen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wide = true
}

// remove counts one less. When the last one was taken, the next channel is a
// normal one again.
func (s *stuck) remove(taken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting--; s.waiting == 0 && taken {
		s.wide = false
	}
}

func (s *stuck) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *stuck) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *stuck) isWide() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wide
}

// trouble returns the error for [Consumer.Ready], nil if none is stuck.
func (s *stuck) trouble(cfg *ConsumerConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return nil
	}
	return &StuckError{Queue: cfg.Queue, Place: cfg.DeadLetter, Waiting: s.waiting, Since: s.since, Err: s.err}
}
