package rabbitmq_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// nested returns a header of so many tables in each other, or lists.
func nested(depth int, wrap func(any) any) any {
	value := any("leaf")
	for range depth {
		value = wrap(value)
	}
	return value
}

func inTable(v any) any { return amqp.Table{"n": v} }
func inList(v any) any  { return []any{v} }

func manyHeaders(n int) amqp.Table {
	t := amqp.Table{}
	for i := range n {
		t[fmt.Sprintf("%x", i)] = nil
	}
	return t
}

// Whatever others have put on their messages, these are applied, and those
// behind them. What is left out is counted and told.
func TestMessagesOfOthersDoNotStopAQueue(t *testing.T) {
	onEach(t, func(t *testing.T, kind rabbitmq.QueueType) {
		d := newDesk(t, rabbitmq.Queue{Type: kind})
		exchange := rabbittest.Name(t)
		require.NoError(t, rabbitmq.Topology{
			Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "fanout"}},
			Bindings:  []rabbitmq.Binding{{Queue: d.queue, Exchange: exchange}},
		}.Declare(d.ch))
		var log journal
		o := newOffice(t, ordering.NewMemory(), nil, nil)
		s := d.consume(rabbitmq.ConsumerConfig{
			Endpoint: rabbitmq.Endpoint{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: "no such queue"},
		})
		messages := []amqp.Publishing{
			{Headers: amqp.Table{"X-Sequence-ID": int8(1), "deep": nested(41, inTable)}},
			{Headers: amqp.Table{"X-Sequence-ID": uint8(2), "deep": nested(41, inList)}},
			{Headers: amqp.Table{"X-Sequence-ID": int16(3), "deep": nested(1000, inTable)}},
			{Headers: amqp.Table{"X-Sequence-ID": int32(4), "wide": manyHeaders(9000)}},
			{Headers: amqp.Table{"X-Sequence-ID": float64(5), "binary": "\x00\xff\xfe"}},
			{Headers: amqp.Table{"X-Sequence-ID": "6"}, Timestamp: time.Unix(time.Now().UnixMilli(), 0)},
			{Headers: amqp.Table{"X-Sequence-ID": int64(7), "deep": nested(32, inTable), "list": nested(31, inList)}},
			{Headers: amqp.Table{"X-Sequence-ID": []byte("8")}, MessageId: "\xff"},
			{Headers: manyHeaders(9000)},
			{Headers: amqp.Table{"X-Sequence-ID": uint16(10)}, ContentType: "text/plain", ContentEncoding: "gzip"},
		}
		messages[8].Headers["X-Sequence-ID"] = int64(9)
		for _, m := range messages {
			m.DeliveryMode = amqp.Persistent
			require.NoError(t, d.ch.PublishWithContext(t.Context(), exchange, "a", false, false, m))
		}
		require.Eventually(t, func() bool { return len(o.diary.all()) >= len(messages) }, waitAtMost, tick)
		s.end(t)
		o.diary.requireOnceInOrder(t, []string{"a"}, len(messages))
		stats := s.consumer.Stats()
		assert.Zero(t, stats.DeadLettered)
		assert.EqualValues(t, 1, stats.Channels, "no connection is lost")
		assert.GreaterOrEqual(t, stats.LeftOut, uint64(9))
		for _, says := range []string{"are left out", "queue=" + d.queue, "exchange=" + exchange, "key=a", "deep"} {
			assert.Contains(t, log.text(), says)
		}
		d.requireEmpty()
	})
}

// A message that cannot be processed becomes a dead letter, with the reason, also if its
// own headers fill the frame. It keeps what there is room for.
func TestPoisonWithHeadersThatFillAFrame(t *testing.T) {
	for name, frame := range map[string]int{"as large": 0, "a small one": 8192, "the smallest": 4096} {
		t.Run(name, func(t *testing.T) {
			d, dead := newDesk(t, rabbitmq.Queue{}), newDesk(t, rabbitmq.Queue{})
			o := newOffice(t, ordering.NewMemory(), nil, nil)
			cfg := rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 4, DeadLetter: rabbitmq.Address{Key: dead.queue}}
			var log journal
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			calls := 0
			if frame > 0 { // of the connection of the dead letters, which is the second one
				cfg.Dial = func(ctx context.Context) (*amqp.Connection, error) {
					if calls++; calls == 1 {
						return rabbitmq.Dial(d.node.URL(), amqp.Config{})(ctx)
					}
					return rabbitmq.Dial(d.node.URL(), amqp.Config{FrameSize: frame})(ctx)
				}
			}
			const poison = 6
			for i := range poison {
				headers := amqp.Table{"X-Sequence-ID": strings.Repeat("rubbish", 300), "big": strings.Repeat("h", 123_250), "small": int64(i)}
				for i := range 50 {
					headers[fmt.Sprint("h", i)] = strings.Repeat("é", 50)
				}
				d.publish(amqp.Publishing{MessageId: fmt.Sprint(i), Headers: headers, Body: []byte("the body")})
			}
			d.send("good", "a=1", "")
			s := d.consume(cfg)
			require.Eventually(t, func() bool { return len(o.diary.all()) == 1 && s.consumer.Stats().DeadLettered >= poison }, waitAtMost, tick)
			require.NoError(t, s.consumer.Ready())
			s.end(t)
			d.requireEmpty()
			m, ok, err := dead.ch.Get(dead.queue, true)
			require.NoError(t, err)
			require.True(t, ok)
			assert.Equal(t, "the body", string(m.Body))
			assert.Contains(t, m.Headers[rabbitmq.ReasonHeader], "rubbish")
			assert.Equal(t, d.queue, m.Headers[rabbitmq.QueueHeader])
			require.Contains(t, m.Headers, rabbitmq.DroppedHeader)
			assert.Contains(t, m.Headers[rabbitmq.DroppedHeader], "big")
			if frame == 0 {
				assert.Equal(t, strings.Repeat("h", 1024), m.Headers["big"], "its beginning is kept")
				assert.Contains(t, m.Headers, "small")
			}
			assert.GreaterOrEqual(t, s.consumer.Stats().LeftOut, uint64(poison))
			assert.Contains(t, log.text(), "becomes a dead letter")
		})
	}
}

// poisoned is a queue with messages that are of no use, and good ones behind.
func poisoned(t *testing.T, poison, good int) *desk {
	t.Helper()
	d := newDesk(t, rabbitmq.Queue{})
	for i := range poison {
		d.send(fmt.Sprint("poison", i), "nonsense", "")
	}
	for i := range good {
		d.send("", fmt.Sprintf("a=%d", i+1), "")
	}
	return d
}

// While dead letters have no place, the others are consumed, though these are
// more than the window holds; and the consumer says what is wrong. It stops
// without waiting for a place. When there is one, all go there.
func TestDeadLettersWithoutAPlace(t *testing.T) {
	for name, test := range map[string]struct {
		queue  rabbitmq.Queue // that is there, if it has a name
		reason error
	}{
		"missing": {rabbitmq.Queue{}, rabbitmq.ErrUnroutable},
		"full":    {rabbitmq.Queue{Type: rabbitmq.Classic, Args: amqp.Table{"x-max-length": int32(0), "x-overflow": "reject-publish"}}, rabbitmq.ErrNacked},
	} {
		t.Run(name, func(t *testing.T) {
			const poison, good = 20, 50
			d := poisoned(t, poison, good)
			place := rabbittest.Name(t)
			if test.queue.Type != "" {
				test.queue.Name = place
				require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{test.queue}}.Declare(d.ch))
			}
			o := newOffice(t, ordering.NewMemory(), nil, nil)
			var log journal
			cfg := rabbitmq.ConsumerConfig{
				Endpoint: rabbitmq.Endpoint{Logger: slog.New(slog.NewTextHandler(&log, nil)), Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 50 * time.Millisecond}},
				Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 4, Grace: time.Hour, DeadLetter: rabbitmq.Address{Key: place},
			}
			s := d.consume(cfg)
			require.Eventually(t, func() bool { return len(o.diary.all()) == good && s.consumer.Stats().Stuck == poison }, waitAtMost, tick)
			var stuck *rabbitmq.StuckError
			require.ErrorAs(t, s.consumer.Ready(), &stuck)
			assert.Equal(t, rabbitmq.Address{Key: place}, stuck.Place)
			assert.Equal(t, d.queue, stuck.Queue)
			require.ErrorIs(t, stuck, test.reason)
			require.ErrorContains(t, stuck, place)
			for _, says := range []string{"dead letter could not be published", "message=poison", "queue=" + d.queue} {
				assert.Contains(t, log.text(), says)
			}
			s.end(t) // within its grace
			require.Eventually(t, func() bool { return d.left(d.queue) == poison }, waitAtMost, tick)

			_, err := d.ch.QueueDelete(place, false, false, false)
			require.NoError(t, err)
			s = d.consume(cfg)
			require.Eventually(t, func() bool { return s.consumer.Stats().Stuck == poison }, waitAtMost, tick)
			require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: place}}}.Declare(d.ch))
			require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 && s.consumer.Ready() == nil }, waitAtMost, tick)
			s.end(t)
			require.Eventually(t, func() bool { return d.left(place) >= poison }, waitAtMost, tick)
			d.requireEmpty()
		})
	}
}

// A connection that dead letters have no way to make is no place either.
func TestDeadLettersWithoutAConnection(t *testing.T) {
	const poison, good = 5, 10
	d := poisoned(t, poison, good)
	place := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	var calls, mended atomic.Int64
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{
			AnswerTimeout: time.Second, Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond},
			Dial: func(ctx context.Context) (*amqp.Connection, error) {
				if calls.Add(1) == 1 || mended.Load() > 0 {
					return rabbitmq.Dial(d.node.URL(), amqp.Config{})(ctx)
				}
				return nil, amqp.ErrCredentials
			},
		},
		Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: place.queue},
	})
	require.Eventually(t, func() bool { return len(o.diary.all()) == good && s.consumer.Stats().Stuck > 0 }, waitAtMost, tick)
	require.ErrorIs(t, s.consumer.Ready(), amqp.ErrCredentials)
	mended.Store(1)
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 && s.consumer.Ready() == nil }, waitAtMost, tick)
	s.end(t)
	require.Eventually(t, func() bool { return place.left(place.queue) >= poison }, waitAtMost, tick)
	d.requireEmpty()
}

// More dead letters than may wait stop the queue, until they have a place.
func TestTooManyDeadLettersWithoutAPlace(t *testing.T) {
	const poison, good, prefetch, most = 20, 5, 2, 3
	d := poisoned(t, poison, good)
	place := rabbittest.Name(t)
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond}},
		Receiver: rabbitmq.Events(o.Sequencer), Prefetch: prefetch, MaxStuck: most, DeadLetter: rabbitmq.Address{Key: place},
	})
	require.Eventually(t, func() bool { return s.consumer.Stats().Stuck == prefetch+most }, waitAtMost, tick)
	require.ErrorAs(t, s.consumer.Ready(), new(*rabbitmq.StuckError))
	require.Empty(t, o.diary.all())
	require.NoError(t, rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: place}}}.Declare(d.ch))
	require.Eventually(t, func() bool { return len(o.diary.all()) == good && s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	require.NoError(t, s.consumer.Ready())
	s.end(t)
	require.Eventually(t, func() bool { return d.left(place) >= poison }, waitAtMost, tick)
	d.requireEmpty()
}

// A message ID that many messages have makes none of them a copy of another,
// while they run at the same time, or come again.
func TestAnIDOfMany(t *testing.T) {
	const n = 60
	d := newDesk(t, rabbitmq.Queue{})
	link := d.node.Link(t)
	release := make(chan struct{})
	var began, ended atomic.Int64
	plain, err := dispatcher.New(dispatcher.Config[string]{
		Keys: func(m string, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must(m))
			return nil
		},
		Handler: func(context.Context, string) error {
			began.Add(1)
			<-release
			ended.Add(1)
			return nil
		},
		Workers: n, Logger: quiet(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, plain.Close()) })
	letGo := func() { close(release) }
	t.Cleanup(func() {
		if letGo != nil {
			letGo()
		}
	})
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{URL: link.URL()},
		Receiver: rabbitmq.Messages(plain, func(m amqp.Delivery) (string, error) { return fmt.Sprint(m.DeliveryTag), nil }),
	})
	for i := range n { // half of them are alike in all
		d.publish(amqp.Publishing{MessageId: fmt.Sprint(i % 2), Body: fmt.Appendf(nil, "%d", max(i, n/2))})
	}
	require.Eventually(t, func() bool { return began.Load() == n }, waitAtMost, tick)
	link.Cut()
	link.Mend()
	require.Eventually(t, func() bool { return s.consumer.Stats().Received >= 2*n }, waitAtMost, tick)
	assert.EqualValues(t, n, began.Load(), "what comes again joins its first copy")
	letGo()
	letGo = nil
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	s.end(t)
	assert.EqualValues(t, n, ended.Load())
	d.requireEmpty()
}

// An ID that is unique per order only makes no event a copy of another one: all
// that is acknowledged was run, also what waited for an earlier event meanwhile,
// in memory or in the store.
func TestAnIDOfManyEvents(t *testing.T) {
	const orders, last = 10, 6
	d := newDesk(t, rabbitmq.Queue{})
	dead := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, func(c *ordering.Config[*ordering.Event]) { c.GapTimeout = time.Hour })
	s := d.consume(rabbitmq.ConsumerConfig{
		Receiver: rabbitmq.Events(o.Sequencer), Prefetch: 16, DeadLetter: rabbitmq.Address{Key: dead.queue},
	})
	streams := strings.Split("abcdefghij", "")
	for _, order := range streams {
		for n := 2; n <= last; n++ {
			d.send(fmt.Sprint(n), fmt.Sprintf("%s=%d", order, n), "")
		}
	}
	require.Eventually(t, func() bool { return s.consumer.Stats().Received >= orders*(last-1) }, waitAtMost, tick)
	for _, order := range streams {
		d.send("1", order+"=1", "")
	}
	require.Eventually(t, func() bool { return len(o.diary.all()) >= orders*last }, waitAtMost, tick)
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	s.end(t)
	o.diary.requireOnceInOrder(t, streams, last)
	assert.Zero(t, s.consumer.Stats().DeadLettered)
	d.requireEmpty()
}

// Another event in the place of one that was done is a dead letter, which says so.
func TestAnImpostorIsADeadLetter(t *testing.T) {
	d, dead := newDesk(t, rabbitmq.Queue{}), newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: dead.queue}})
	settled := func(received uint64) {
		t.Helper()
		require.Eventually(t, func() bool { return s.consumer.Stats().Received >= received && s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	}
	d.send("first", "a=1", "10 to Ann")
	settled(1)
	d.send("first", "a=1", "10 to Ann") // is one again
	settled(2)
	assert.Zero(t, s.consumer.Stats().DeadLettered)
	d.send("second", "a=1", "20 to Bob")
	d.send("first", "a=1", "20 to Bob")
	settled(4)
	s.end(t)
	assert.EqualValues(t, 2, s.consumer.Stats().DeadLettered)
	assert.Equal(t, []string{"a=1"}, o.diary.all())
	d.requireEmpty()
	for range 2 {
		m, ok, err := dead.ch.Get(dead.queue, true)
		require.NoError(t, err)
		require.True(t, ok)
		assert.Equal(t, "20 to Bob", string(m.Body))
		assert.NotEmpty(t, m.Headers[rabbitmq.ReasonHeader])
	}
}

// What the sequencer refuses, since it contradicts what was done, is a dead
// letter that says why.
func TestARefusedEventIsADeadLetter(t *testing.T) {
	dead := newDesk(t, rabbitmq.Queue{})
	d := newDesk(t, rabbitmq.Queue{})
	o := newOffice(t, ordering.NewMemory(), nil, nil)
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Events(o.Sequencer), DeadLetter: rabbitmq.Address{Key: dead.queue}})
	d.send("1", "a=1,b=1", "")
	d.send("2", "a=2,b=2", "")
	d.send("twisted", "a=2,b=3", "")
	require.Eventually(t, func() bool { return s.consumer.Stats().DeadLettered >= 1 && s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	s.end(t)
	d.requireEmpty()
	m, ok, err := dead.ch.Get(dead.queue, true)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, "twisted", m.MessageId)
	assert.NotEmpty(t, m.Headers[rabbitmq.ReasonHeader])
}

// A store that is away does not use up the messages' delivery limit: the channel
// is kept, with what it has, and the consumer says for what it waits.
func TestAStoreThatIsAwayWithADeliveryLimit(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true, DeliveryLimit: 2})
	store := &faulty{Store: ordering.NewMemory()}
	diary := newDiary()
	p := d.join(store, func(_ context.Context, job ordering.Job[*ordering.Event]) error {
		defer diary.begin(job.Event.Positions[0].String())()
		return nil
	})
	store.fails.Store(1 << 40)
	const n = 30
	for i := range n {
		d.send("", fmt.Sprintf("a=%d", i+1), "")
	}
	before := store.fails.Load()
	require.Eventually(t, func() bool { return p.consumer.Ready() != nil && p.terms.Load()+before-store.fails.Load() > 20 }, waitAtMost, tick)
	require.ErrorAs(t, p.consumer.Ready(), new(*ordering.StoreError))
	store.fails.Store(0)
	require.Eventually(t, func() bool { return len(diary.all()) == n && p.consumer.Stats().Open == 0 }, waitAtMost, tick)
	require.NoError(t, p.consumer.Ready())
	p.end(t)
	diary.requireOnceInOrder(t, []string{"a"}, n)
	assert.EqualValues(t, 1, p.consumer.Stats().Channels)
	d.requireEmpty()
}

// Where lost channels count, it is told that one was lost, and which messages are
// near the limit.
func TestNearTheDeliveryLimit(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{DeliveryLimit: 4})
	link := d.node.Link(t)
	var log journal
	release := make(chan struct{})
	o := newOffice(t, ordering.NewMemory(), func(context.Context, ordering.Job[*ordering.Event]) error {
		<-release
		return nil
	}, nil)
	s := d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{
			URL: link.URL(), Backoff: dispatcher.Backoff{Initial: time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: d.queue, DeliveryLimit: 4}}},
		},
		Receiver: rabbitmq.Events(o.Sequencer),
	})
	d.send("often", "a=1", "")
	for channel := uint64(1); ; channel++ {
		require.Eventually(t, func() bool { return s.consumer.Stats().Received >= channel }, waitAtMost, tick)
		if channel == 3 {
			break
		}
		assert.Zero(t, s.consumer.Stats().NearLimit)
		link.Cut()
		link.Mend()
	}
	require.Eventually(t, func() bool {
		return s.consumer.Stats().NearLimit >= 1 && strings.Contains(log.text(), "has returned to its queue often")
	}, waitAtMost, tick)
	for _, says := range []string{"a channel was lost", "has returned to its queue often", "message=often", "came_back=2", "limit=4"} {
		assert.Contains(t, log.text(), says)
	}
	close(release)
	require.Eventually(t, func() bool { return s.consumer.Stats().Open == 0 }, waitAtMost, tick)
	s.end(t)
	d.requireEmpty()
}
