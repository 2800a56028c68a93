package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

var queueTypes = []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic}

func onEach(t *testing.T, test func(t *testing.T, kind rabbitmq.QueueType)) {
	for _, kind := range queueTypes {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// Late, early and doubled messages have their effects once, in order, and leave
// the queue.
func TestEventsAreAppliedOnceAndAcknowledged(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		d := newDesk(t, rabbitmq.Queue{Type: kind})
		o := newOffice(t, ordering.NewMemory(), nil, nil)
		s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer)})
		for _, n := range []int{2, 1, 1, 4, 3, 2, 5} {
			for _, stream := range []string{"a", "b"} {
				at := fmt.Sprintf("%s=%d", stream, n)
				d.send(at, at, "")
			}
		}
		require.Eventually(t, func() bool { return s.consumer.Stats().Acked >= 14 }, waitAtMost, tick)
		s.end(t)
		o.diary.requireOnceInOrder(t, []string{"a", "b"}, 5)
		d.requireEmpty()
		assert.Zero(t, s.consumer.Stats().Open)
	})
}

// A message whose first copy still runs when the connection is lost comes again
// and shares its result: its handler is not called twice. That the first copy
// ends is too late to be acknowledged on the old channel.
func TestARedeliveryJoinsTheCopyThatRuns(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		d := newDesk(t, rabbitmq.Queue{Type: kind})
		link := d.node.Link(t)
		release := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(release) })
		o := newOffice(t, ordering.NewMemory(), func(context.Context, ordering.Job[*ordering.Event]) error {
			<-release
			return nil
		}, nil)
		t.Cleanup(letGo) // before it is closed
		s := d.consume(rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Receiver: rabbitmq.Events(o.Sequencer)})
		for _, at := range []string{"a=1", "b=1", "c=1"} {
			d.send(at, at, "")
		}
		require.Eventually(t, func() bool { return len(o.diary.all()) == 3 }, waitAtMost, tick)
		for channel := uint64(2); channel <= 4; channel++ {
			link.Cut()
			link.Mend()
			require.Eventually(t, func() bool {
				stats := s.consumer.Stats()
				return stats.Channels >= channel && stats.Received >= 3*channel
			}, waitAtMost, tick)
		}
		letGo()
		require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
		s.end(t)
		assert.Len(t, o.diary.all(), 3, "each ran once")
		stats := s.consumer.Stats()
		assert.EqualValues(t, 3, stats.Acked)
		assert.Equal(t, stats.Received-3, stats.Late)
		d.requireEmpty()
	})
}

// The same with a plain dispatcher, which knows messages by their IDs.
func TestMessagesForADispatcher(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	dead := newDesk(t, rabbitmq.Queue{})
	link := d.node.Link(t)
	release := make(chan struct{})
	var ran atomic.Int64
	plain, err := dispatcher.New(dispatcher.Config[string]{
		Keys: func(m string, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must(m))
			return nil
		},
		Handler: func(_ context.Context, m string) error {
			ran.Add(1)
			if m == "bad" {
				return dispatcher.Permanent(errors.New("no such account"))
			}
			<-release
			return nil
		},
		Logger: quiet(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plain.Close()) })
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(letGo)
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint:   rabbitmq.Endpoint{URL: link.URL()},
		DeadLetter: rabbitmq.Address{Key: dead.queue},
		Receiver: rabbitmq.Messages(plain, func(m amqp.Delivery) (string, error) {
			switch string(m.Body) {
			case "?":
				return "", errors.New("unreadable")
			case "!":
				panic("decoder")
			}
			return string(m.Body), nil
		}),
	})
	d.publish(amqp.Publishing{MessageId: "1", Body: []byte("x")})
	require.Eventually(t, func() bool { return ran.Load() == 1 }, waitAtMost, tick)
	link.Cut()
	link.Mend()
	require.Eventually(t, func() bool { return s.consumer.Stats().Received >= 2 }, waitAtMost, tick)
	for i, body := range []string{"bad", "?", "!"} {
		d.publish(amqp.Publishing{MessageId: fmt.Sprint("dead", i), Body: []byte(body)})
	}
	require.Eventually(t, func() bool { return s.consumer.Stats().DeadLettered >= 3 }, waitAtMost, tick)
	letGo()
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	s.end(t)
	assert.EqualValues(t, 2, ran.Load())
	d.requireEmpty()
	assert.Equal(t, 3, dead.left(dead.queue))
}

// What cannot be read, or can never run, is kept where it can be looked at,
// with its bytes and why.
func TestPoisonIsADeadLetter(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	dead, copies := newDesk(t, rabbitmq.Queue{}), newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: dead.queue}})
	body := "\x00\xff not text"
	d.publish(amqp.Publishing{
		MessageId: "odd", Type: "deposit", Body: []byte(body), Expiration: "60000", Timestamp: time.Unix(7, 0),
		Headers: amqp.Table{ordering.SequenceIDHeader: "a=zero", "CC": []any{copies.queue}, "n": int64(7)},
	})
	require.Eventually(t, func() bool { return s.consumer.Stats().DeadLettered >= 1 }, waitAtMost, tick)
	d.send("one", "a=1", "")
	d.send("other", "a=1", "an impostor, which comes when the first is done")
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 && s.consumer.Stats().Received >= 3 }, waitAtMost, tick)
	s.end(t)
	d.requireEmpty()

	m, ok, err := dead.ch.Get(dead.queue, true)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, body, string(m.Body))
	assert.Equal(t, "odd", m.MessageId)
	assert.Equal(t, "deposit", m.Type)
	assert.Equal(t, int64(7), m.Headers["n"])
	assert.Equal(t, "a=zero", m.Headers[ordering.SequenceIDHeader])
	assert.Contains(t, m.Headers[rabbitmq.ReasonHeader], "a=zero")
	assert.Equal(t, d.queue, m.Headers[rabbitmq.QueueHeader])
	at, err := time.Parse(time.RFC3339Nano, m.Headers[rabbitmq.TimeHeader].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), at, time.Hour)
	assert.Empty(t, m.Expiration)
	assert.Equal(t, 1, copies.left(copies.queue), "the dead letter has none")
}

// Without a place for dead letters the consumer ends, and loses nothing.
func TestPoisonWithoutAPlaceForIt(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	d.send("odd", "nonsense", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer)})
	var poison *rabbitmq.PoisonError
	require.ErrorAs(t, <-s.done, &poison)
	assert.Equal(t, "odd", poison.MessageID)
	assert.ErrorIs(t, poison, ordering.ErrSequenceID)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// A consumer that stops lets what runs end and hands the rest back in order: the
// other consumer of the queue gets it only then.
func TestHandOver(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		d := newDesk(t, rabbitmq.Queue{Type: kind, SingleActive: true})
		diary := newDiary()
		store := ordering.NewMemory()
		release := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(release) })
		var active atomic.Int64
		work := func(wait <-chan struct{}) *office {
			return newOffice(t, store, nil, func(c *ordering.Config[*ordering.Event]) {
				c.Dispatcher.Workers = 2
				c.Handler = func(_ context.Context, job ordering.Job[*ordering.Event]) error {
					active.Add(1)
					defer active.Add(-1)
					defer diary.begin(job.Event.Positions[0].String())()
					<-wait
					return nil
				}
			})
		}
		first := work(release)
		free := make(chan struct{})
		close(free)
		t.Cleanup(letGo) // before they are closed
		one := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(first.Sequencer)})
		require.Eventually(t, func() bool { return one.consumer.Ready() == nil }, waitAtMost, tick)
		two := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) {
			return rabbitmq.Events(work(free).Sequencer), nil // which takes the store over from the first one
		})})
		require.Eventually(t, func() bool { return two.consumer.Ready() == nil }, waitAtMost, tick)
		streams := []string{"a", "b", "c"}
		for n := 1; n <= 30; n++ {
			for _, stream := range streams {
				at := fmt.Sprintf("%s=%d", stream, n)
				d.send(at, at, "")
			}
		}
		require.Eventually(t, func() bool { return active.Load() == 2 && one.consumer.Stats().Received >= 90 }, waitAtMost, tick)

		one.stop()
		stopped := make(chan error, 1)
		go func() { stopped <- first.Shutdown(context.Background()) }()
		require.Eventually(t, func() bool { return first.Err() != nil }, waitAtMost, tick)
		assert.Zero(t, two.consumer.Stats().Received, "what runs has not ended")
		letGo()
		require.NoError(t, <-stopped)
		require.NoError(t, <-one.done)

		require.Eventually(t, func() bool { return two.consumer.Stats().Acked >= 88 && two.consumer.Stats().Open == 0 }, waitAtMost, tick)
		two.end(t)
		diary.requireOnceInOrder(t, streams, 30)
		d.requireEmpty()
	})
}

// What the receiver does not settle in time comes again.
func TestGraceIsBounded(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	var held rabbitmq.Settle
	got := make(chan struct{})
	s := d.consume(rabbitmq.ConsumerConfig{Grace: time.Millisecond, Receiver: receiver(func(_ context.Context, _ amqp.Delivery, settle rabbitmq.Settle) error {
		held = settle
		close(got)
		return nil
	})})
	d.send("1", "a=1", "")
	<-got
	s.stop()
	require.ErrorIs(t, <-s.done, rabbitmq.ErrGrace)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
	held(rabbitmq.Ack()) // too late
	assert.EqualValues(t, 1, s.consumer.Stats().Late)
}

// A message that is found to be of no use when its consumer has ended comes
// again, and nothing is left at work on it.
func TestADeadLetterThatIsTooLate(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	dead := newDesk(t, rabbitmq.Queue{})
	got := make(chan rabbitmq.Settle, 1)
	s := d.consume(rabbitmq.ConsumerConfig{
		Grace: time.Millisecond, DeadLetter: rabbitmq.Address{Key: dead.queue},
		Receiver: receiver(func(_ context.Context, _ amqp.Delivery, settle rabbitmq.Settle) error {
			got <- settle
			return nil
		}),
	})
	d.send("1", "a=1", "")
	settle := <-got
	s.stop()
	require.ErrorIs(t, <-s.done, rabbitmq.ErrGrace)
	settle(rabbitmq.DeadLetter(errors.New("of no use")))
	assert.EqualValues(t, 1, s.consumer.Stats().Requeued)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
	assert.Zero(t, dead.left(dead.queue))
}

// Dead letters are published though the topology has become another one since
// the consumer began.
func TestPoisonWhenTheTopologyHasChanged(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	dead, other := newDesk(t, rabbitmq.Queue{}), newDesk(t, rabbitmq.Queue{Type: rabbitmq.Classic})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	topology := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: other.queue, Type: rabbitmq.Classic}}}
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{Topology: topology},
		Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: dead.queue},
	})
	require.Eventually(t, func() bool { return s.consumer.Ready() == nil }, waitAtMost, tick)
	_, err := other.ch.QueueDelete(other.queue, false, false, false)
	require.NoError(t, err)
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: other.queue}}}.Declare(other.ch))
	d.send("odd", "nonsense", "")
	require.Eventually(t, func() bool { return s.consumer.Stats().DeadLettered >= 1 }, waitAtMost, tick)
	s.end(t)
}

type receiver func(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error

func (r receiver) Receive(ctx context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
	return r(ctx, m, settle)
}

// The error of a receiver ends the consumer, and its message goes back.
func TestAReceiverThatCannotGoOn(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	broken := errors.New("broken")
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, m amqp.Delivery, _ rabbitmq.Settle) error {
		require.Error(t, m.Ack(false), "it has no methods that work")
		return broken
	})})
	require.ErrorIs(t, <-s.done, broken)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)

	o := newOffice(t, ordering.NewMemory(), nil, nil)
	require.NoError(t, o.Close())
	s = d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer)})
	require.ErrorIs(t, <-s.done, ordering.ErrClosed)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// A receiver that panics ends the consumer, not the process. Its message goes
// back, unless it was settled before.
func TestAReceiverThatPanics(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	d.send("settled", "a=1", "")
	d.send("open", "a=2", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
		if m.MessageId == "settled" {
			settle(rabbitmq.Ack())
			return nil
		}
		panic("a bug")
	})})
	var caught *dispatcher.PanicError
	require.ErrorAs(t, <-s.done, &caught)
	assert.Equal(t, "a bug", caught.Value)
	assert.Zero(t, s.consumer.Stats().Open)

	s = d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, _ amqp.Delivery, settle rabbitmq.Settle) error {
		settle(rabbitmq.Ack())
		panic("a bug, too late")
	})})
	require.ErrorAs(t, <-s.done, &caught)
	assert.Zero(t, s.consumer.Stats().Open)
}

// A queue that is deleted is declared again, and consumed.
func TestAQueueThatIsDeleted(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{Type: rabbitmq.Classic})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	topology := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: d.queue, Type: rabbitmq.Classic}}}
	s := d.consume(rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{Topology: topology}, Receiver: rabbitmq.Events(o.Sequencer)})
	d.send("1", "a=1", "")
	require.Eventually(t, func() bool { return s.consumer.Stats().Acked >= 1 }, waitAtMost, tick)
	_, err := d.ch.QueueDelete(d.queue, false, false, false)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.consumer.Stats().Channels >= 2 && s.consumer.Ready() == nil }, waitAtMost, tick)
	d.send("2", "a=2", "")
	require.Eventually(t, func() bool { return s.consumer.Stats().Acked >= 2 }, waitAtMost, tick)
	s.end(t)
	o.diary.requireOnceInOrder(t, []string{"a"}, 2)
}

// A queue that is there and is another kind of queue is a mistake that waiting
// does not mend.
func TestAQueueThatIsNotAsWanted(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{Type: rabbitmq.Classic})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	topology := rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: d.queue, Type: rabbitmq.Quorum}}}
	s := d.consume(rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{Topology: topology}, Receiver: rabbitmq.Events(o.Sequencer)})
	var refused *rabbitmq.TopologyError
	require.ErrorAs(t, <-s.done, &refused)
	require.ErrorContains(t, refused, d.queue)
}

// A stream that cannot go on, since a number is missing, does not take the
// window, with the sequencer's own settings, or with copies of what waits: what
// comes for it is held by the store.
func TestOneStreamDoesNotFillTheWindow(t *testing.T) {
	for name, times := range map[string]int{"events": 1, "copies": 4} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rabbitmq.Queue{})
			o := newOffice(t, ordering.NewMemory(), nil, func(c *ordering.Config[*ordering.Event]) { c.GapTimeout = time.Hour })
			s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 16})
			for n := 2; n <= 100; n++ {
				at := fmt.Sprintf("a=%d", n)
				for range times {
					d.send(at, at, "")
				}
			}
			for n := 1; n <= 10; n++ {
				at := fmt.Sprintf("b=%d", n)
				d.send(at, at, "")
			}
			require.Eventually(t, func() bool { return len(o.diary.all()) == 10 }, waitAtMost, tick, "b goes on")
			d.send("a=1", "a=1", "")
			require.Eventually(t, func() bool { return len(o.diary.all()) == 110 }, waitAtMost, tick)
			s.end(t)
			o.diary.requireOnceInOrder(t, []string{"a"}, 100)
			d.requireEmpty()
		})
	}
}

// A window of one message has no room for any that waits.
func TestAWindowOfOne(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, func(c *ordering.Config[*ordering.Event]) { c.GapTimeout = time.Hour })
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 1})
	for _, at := range []string{"a=3", "a=2", "a=1"} {
		d.send(at, at, "")
	}
	require.Eventually(t, func() bool { return len(o.diary.all()) == 3 }, waitAtMost, tick)
	s.end(t)
	o.diary.requireOnceInOrder(t, []string{"a"}, 3)
	d.requireEmpty()
}

// A sequencer or a dispatcher that was stopped ends its consumer, also if what it
// has fills the window, so that no message comes that it could refuse.
func TestWhoIsStoppedEndsTheConsumer(t *testing.T) {
	broken := dispatcher.Permanent(errors.New("broken"))
	for name, test := range map[string]struct {
		receiver func(full <-chan struct{}) rabbitmq.Receiver
		reason   error
	}{
		"sequencer": {func(full <-chan struct{}) rabbitmq.Receiver {
			return rabbitmq.Events(newOffice(t, ordering.NewMemory(), func(context.Context, ordering.Job[*ordering.Event]) error {
				<-full
				return broken
			}, func(c *ordering.Config[*ordering.Event]) { c.Failure = dispatcher.Stop }).Sequencer)
		}, ordering.ErrStopped},
		"dispatcher": {func(full <-chan struct{}) rabbitmq.Receiver {
			d, err := dispatcher.New(dispatcher.Config[string]{
				Keys: func(_ string, claim *lockkeys.Claim) error {
					claim.Exclusive(lockkeys.Must("a"))
					return nil
				},
				Handler: func(context.Context, string) error {
					<-full
					return broken
				},
				Failure: dispatcher.Stop, Logger: quiet(),
			})
			require.NoError(t, err)
			t.Cleanup(func() { assert.ErrorIs(t, d.Close(), dispatcher.ErrUnfinished) })
			return rabbitmq.Messages(d, func(m amqp.Delivery) (string, error) { return m.MessageId, nil })
		}, dispatcher.ErrStopped},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rabbitmq.Queue{})
			full := make(chan struct{})
			s := d.consume(rabbitmq.ConsumerConfig{Receiver: test.receiver(full), Prefetch: 2})
			for n := 1; n <= 3; n++ {
				at := fmt.Sprintf("a=%d", n)
				d.send(at, at, "")
			}
			require.Eventually(t, func() bool { return s.consumer.Stats().Received >= 2 }, waitAtMost, tick)
			close(full)
			err := <-s.done
			require.ErrorIs(t, err, test.reason)
			require.ErrorContains(t, err, "broken")
			require.Eventually(t, func() bool { return d.left(d.queue) == 3 }, waitAtMost, tick)
		})
	}
}

func TestConsumerConfig(t *testing.T) {
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	good := func() rabbitmq.ConsumerConfig {
		return rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{URL: "amqp://localhost"}, Queue: "q", Receiver: rabbitmq.Events(o.Sequencer)}
	}
	_, err := rabbitmq.NewConsumer(good())
	require.NoError(t, err)
	for says, change := range map[string]func(*rabbitmq.ConsumerConfig){
		"URL and Dial are empty": func(c *rabbitmq.ConsumerConfig) { c.URL = "" },
		"Events has a nil sequencer": func(c *rabbitmq.ConsumerConfig) {
			c.Receiver = rabbitmq.Events[*ordering.Event](nil)
		},
		"Owner has a nil function":       func(c *rabbitmq.ConsumerConfig) { c.Receiver = rabbitmq.Owner(nil) },
		"Messages has a nil dispatcher":  func(c *rabbitmq.ConsumerConfig) { c.Receiver = rabbitmq.Messages[int](nil, nil) },
		"Queue is empty":                 func(c *rabbitmq.ConsumerConfig) { c.Queue = "" },
		"Receiver is nil":                func(c *rabbitmq.ConsumerConfig) { c.Receiver = nil },
		"Prefetch is -1":                 func(c *rabbitmq.ConsumerConfig) { c.Prefetch = -1 },
		"Prefetch is 65536":              func(c *rabbitmq.ConsumerConfig) { c.Prefetch = 1 << 16 },
		"MaxStuck is -1":                 func(c *rabbitmq.ConsumerConfig) { c.MaxStuck = -1 },
		"Grace is -1s":                   func(c *rabbitmq.ConsumerConfig) { c.Grace = -time.Second },
		"protocol allows 255":            func(c *rabbitmq.ConsumerConfig) { c.Queue = strings.Repeat("q", 300) },
		"name \"ttt":                     func(c *rabbitmq.ConsumerConfig) { c.Tag = strings.Repeat("t", 300) },
		"name \"eee":                     func(c *rabbitmq.ConsumerConfig) { c.DeadLetter.Exchange = strings.Repeat("e", 300) },
		"name \"kkk":                     func(c *rabbitmq.ConsumerConfig) { c.DeadLetter.Key = strings.Repeat("k", 300) },
		"DeadLetter is the queue itself": func(c *rabbitmq.ConsumerConfig) { c.DeadLetter.Key = c.Queue },
	} {
		c := good()
		change(&c)
		_, err := rabbitmq.NewConsumer(c)
		require.ErrorIs(t, err, rabbitmq.ErrConfig, says)
		require.ErrorContains(t, err, says)
	}
}

// One consumer runs once at a time, and again after it has ended.
func TestRunTwice(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer)})
	require.Eventually(t, func() bool { return s.consumer.Ready() == nil }, waitAtMost, tick)
	require.ErrorIs(t, s.consumer.Run(t.Context()), rabbitmq.ErrRunning)
	s.end(t)
	require.ErrorContains(t, s.consumer.Ready(), d.queue)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, s.consumer.Run(ctx))
}

// A message that is returned comes again, though the consumer goes on; one that
// is settled twice is settled once.
func TestWhatIsReturnedComesAgain(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	var times atomic.Int64
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{Backoff: dispatcher.Backoff{Initial: time.Millisecond}},
		Receiver: receiver(func(_ context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
			if times.Add(1) < 3 {
				settle(rabbitmq.Requeue())
			}
			settle(rabbitmq.Ack())
			return nil
		}),
	})
	d.send("1", "a=1", "")
	require.Eventually(t, func() bool { return s.consumer.Stats().Acked >= 1 }, waitAtMost, tick)
	s.end(t)
	stats := s.consumer.Stats()
	assert.GreaterOrEqual(t, stats.Received, uint64(3))
	assert.EqualValues(t, 2, stats.Requeued)
	assert.GreaterOrEqual(t, stats.Channels, uint64(3))
	d.requireEmpty()
}

// A receiver that is shut down as soon as the consumer is to stop may say so
// before it is told to return. That is no fault.
func TestAReceiverThatIsFasterThanTheStop(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	d.send("1", "a=1", "")
	for range 20 {
		ctx, stop := context.WithCancel(t.Context())
		c, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
			Endpoint: rabbitmq.Endpoint{URL: d.node.URL(), Logger: quiet()}, Queue: d.queue,
			Receiver: receiver(func(context.Context, amqp.Delivery, rabbitmq.Settle) error {
				stop()
				return ordering.ErrClosed
			}),
		})
		require.NoError(t, err)
		require.NoError(t, c.Run(ctx))
	}
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}
