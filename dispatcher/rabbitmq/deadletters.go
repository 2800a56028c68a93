package rabbitmq

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// deadLetters publishes messages that nobody can use, on a connection of its
// own, which is made with the first of them. It is there for one run of a
// consumer.
//
// A message that its place does not take is stuck: it stays unacknowledged and
// is tried again, all those that are stuck one at a time. They do not count in
// the receiver's window, for which the consumer's channel has more room than
// that, up to [ConsumerConfig.MaxStuck], as soon as it is needed.
type deadLetters struct {
	*Consumer
	running sync.WaitGroup

	probe  chan struct{} // full while one that is stuck is tried, by whom
	delays *backoff.ExponentialBackOff
	fails  bool // the last one that was tried was not taken

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
	delays := backoff.NewExponentialBackOff()
	delays.InitialInterval, delays.MaxInterval = c.cfg.MinBackoff, c.cfg.MaxBackoff
	return &deadLetters{Consumer: c, probe: make(chan struct{}, 1), delays: delays}
}

// publish publishes a message, which is settled then, or when its consumer stops
// or its channel is gone: then it comes again.
func (l *deadLetters) publish(d *delivery, reason error) {
	tag := d.message.DeliveryTag
	if !l.enter() {
		d.leave(tag, Return())
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
			d.leave(tag, Return())
		}
	}()
}

// try publishes a letter, cut if it has to be. It waits for AnswerTimeout, and not
// for long when the consumer is to stop.
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

// tryAgain tries a letter that was not taken until it is, or the consumer stops,
// or the channel is gone.
func (l *deadLetters) tryAgain(d *delivery, letter *amqp.Publishing, err error) error {
	if l.stuck.add(err) >= (l.cfg.Prefetch+1)/2 && !d.wide {
		l.stuck.widen()
		d.end(errStuck)
	}
	d.epoch.stick(1)
	defer func() {
		d.epoch.stick(-1)
		l.stuck.remove(err == nil)
	}()
	for err != nil {
		l.tellStuck(d, err)
		select {
		case l.probe <- struct{}{}:
		case <-d.receiving.Done():
			return err
		}
		if l.fails {
			sleep(d.receiving, l.delays.NextBackOff())
		}
		if d.receiving.Err() == nil {
			err = l.try(d, letter)
		}
		if l.fails = err != nil; !l.fails {
			l.delays.Reset()
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
		l.cfg.Logger.Error("rabbitmq: a dead letter was not taken, and is tried again; such messages wait unacknowledged, and if there are too many, nothing else is consumed",
			append(d.names(), "place", l.cfg.DeadLetter, "waiting", l.stuck.count(), "most", l.cfg.MaxStuck, "not_logged", missed, "error", err)...)
	})
}

// enter tells whether anything is published any more, and lets close wait for
// it: a message may be settled when its consumer has ended.
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

// close ends the connection, when nothing is published any more. The contexts of
// what is have ended: what is not confirmed by now stays in its queue.
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
		_ = p.Close(atOnce)
	}
}

// stuck is what a consumer knows of dead letters that are not taken.
type stuck struct {
	mu      sync.Mutex
	waiting int
	err     error     // why the last one was not
	since   time.Time // when the first of those that wait was not
	wide    bool      // the next channel is to have room for them
}

// add notes one more. It returns how many wait.
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

// widen lets the next channel have room for them.
func (s *stuck) widen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wide = true
}

// remove notes that one does not wait any more.
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

// trouble returns an error for [Consumer.Ready] if any wait.
func (s *stuck) trouble(cfg *ConsumerConfig) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		return nil
	}
	return &StuckError{Queue: cfg.Queue, Place: cfg.DeadLetter, Waiting: s.waiting, Since: s.since, Err: s.err}
}
