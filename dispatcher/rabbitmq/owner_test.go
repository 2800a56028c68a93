package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// process is one of several that consume a queue in turns, with a store that
// they share.
type process struct {
	*shift
	link  *rabbittest.Link
	terms atomic.Int64
	last  atomic.Pointer[ordering.Sequencer] // of the last term
}

func (d *desk) join(store ordering.Store, handler ordering.Handler) *process {
	p := &process{link: d.node.Link(d.T)}
	p.shift = d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{URL: p.link.URL(), MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond},
		Receiver: rabbitmq.Owner(func(ctx context.Context) (*ordering.Sequencer, error) {
			p.terms.Add(1)
			s, err := ordering.New(ctx, ordering.Config{
				Store: store, Handler: handler, Logger: quiet(), GapTimeout: 50 * time.Millisecond,
			})
			p.last.Store(s)
			return s, err
		}),
	})
	require.Eventually(d, func() bool { return p.consumer.Ready() == nil }, waitAtMost, tick)
	return p
}

// The queue goes from one process to the other and back. The first one does not
// rely on what it knew of the streams.
func TestTheQueueComesBack(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	store, diary := ordering.NewMemory(), newDiary()
	by := func(name string) ordering.Handler {
		return func(_ context.Context, job ordering.Job) error {
			defer diary.begin(job.Event.Positions[0].String())()
			return nil
		}
	}
	one, two := d.join(store, by("one")), d.join(store, by("two"))
	n := 0
	work := func(p *process) {
		before := p.consumer.Stats().Acked
		for range 5 {
			n++
			at := fmt.Sprintf("a=%d", n)
			d.send(at, at, "")
		}
		// An acknowledgement counts before it is sent: what a cut overtakes comes
		// again, to the other one.
		require.Eventually(t, func() bool { return len(diary.all()) == n && p.consumer.Stats().Acked >= before+5 }, waitAtMost, tick)
	}
	work(one)
	for range 3 {
		for _, pair := range [][2]*process{{one, two}, {two, one}} {
			epochs := pair[0].consumer.Stats().Epochs
			pair[0].link.Cut()
			work(pair[1])
			pair[0].link.Mend()
			require.Eventually(t, func() bool { return pair[0].consumer.Stats().Epochs > epochs }, waitAtMost, tick)
		}
	}
	one.end(t)
	two.end(t)
	diary.requireOnceInOrder(t, []string{"a"}, n)
	d.requireEmpty()
	assert.GreaterOrEqual(t, one.terms.Load(), int64(4), "each time that the queue comes back")
	assert.GreaterOrEqual(t, two.terms.Load(), int64(3))
	parked, err := store.Parked(t.Context())
	require.NoError(t, err)
	assert.Empty(t, parked)
}

// A handler that still runs when the channel is lost comes to its end, and its
// redelivery waits for that: it is a duplicate then.
func TestATermWaitsForTheOneBefore(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	diary, release := newDiary(), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	p := d.join(ordering.NewMemory(), func(_ context.Context, job ordering.Job) error {
		defer diary.begin(job.Event.Positions[0].String())()
		<-release
		return nil
	})
	t.Cleanup(letGo)
	d.send("1", "a=1", "")
	d.send("2", "a=2", "")
	require.Eventually(t, func() bool { return len(diary.all()) == 1 }, waitAtMost, tick)
	p.link.Cut()
	p.link.Mend()
	require.Eventually(t, func() bool { return p.consumer.Stats().Received >= 3 }, waitAtMost, tick)
	assert.Len(t, diary.all(), 1)
	letGo()
	require.Eventually(t, func() bool { return p.consumer.Stats().Acked >= 2 }, waitAtMost, tick)
	p.end(t)
	diary.requireOnceInOrder(t, []string{"a"}, 2)
	d.requireEmpty()
}

// Who stops hands over by itself: what runs ends, and all else is the other's.
func TestAnOwnerLeaves(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	store, diary, release := ordering.NewMemory(), newDiary(), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	handler := func(_ context.Context, job ordering.Job) error {
		defer diary.begin(job.Event.Positions[0].String())()
		<-release
		return nil
	}
	one, two := d.join(store, handler), d.join(store, handler)
	t.Cleanup(letGo)
	for n := 1; n <= 20; n++ {
		at := fmt.Sprintf("a=%d", n)
		d.send(at, at, "")
	}
	require.Eventually(t, func() bool { return len(diary.all()) == 1 && one.consumer.Stats().Received >= 20 }, waitAtMost, tick)
	one.stop()
	require.Eventually(t, func() bool { return one.last.Load().Err() != nil }, waitAtMost, tick)
	assert.Zero(t, two.consumer.Stats().Received)
	letGo()
	require.NoError(t, <-one.done)
	assert.EqualValues(t, 1, one.consumer.Stats().Acked)
	require.Eventually(t, func() bool { return two.consumer.Stats().Acked >= 19 }, waitAtMost, tick)
	two.end(t)
	diary.requireOnceInOrder(t, []string{"a"}, 20)
	d.requireEmpty()
}

func TestATermThatCannotBegin(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	broken := errors.New("broken")
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Owner(func(context.Context) (*ordering.Sequencer, error) { return nil, broken })})
	require.ErrorIs(t, <-s.done, broken)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// A store that fails when a term begins, or when it is asked for a stream, costs
// the term, not the consumer.
func TestAStoreThatFailsForAWhile(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	diary := newDiary()
	store := &faulty{Store: ordering.NewMemory()}
	p := d.join(store, func(_ context.Context, job ordering.Job) error {
		defer diary.begin(job.Event.Positions[0].String())()
		return nil
	})
	store.fails.Store(3)
	for _, at := range []string{"a=1", "a=2", "b=1"} {
		d.send(at, at, "")
	}
	require.Eventually(t, func() bool { return p.consumer.Stats().Acked >= 3 }, waitAtMost, tick)
	p.end(t)
	assert.ElementsMatch(t, []string{"a=1", "a=2", "b=1"}, diary.all())
	assert.EqualValues(t, 1, p.consumer.Stats().Epochs, "the channel is kept")
	d.requireEmpty()
}

// faulty is a store of which some calls fail.
type faulty struct {
	ordering.Store
	fails atomic.Int64
}

func (f *faulty) failure() error {
	if f.fails.Add(-1) < 0 {
		return nil
	}
	return &ordering.StoreError{Op: "test", Err: errors.New("the database is away")}
}

func (f *faulty) Parked(ctx context.Context, ids ...string) ([]ordering.Parking, error) {
	if f.fails.Load() > 1 {
		return nil, f.failure()
	}
	return f.Store.Parked(ctx, ids...)
}

func (f *faulty) Acquire(ctx context.Context, streams []lockkeys.Key) ([]ordering.StreamState, error) {
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.Store.Acquire(ctx, streams)
}

// Who wraps an owner and keeps the consumer's context from it is told so.
func TestAnOwnerWithoutItsConsumer(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	owner := rabbitmq.Owner(func(context.Context) (*ordering.Sequencer, error) { panic("not called") })
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
		return owner.Receive(context.Background(), m, settle)
	})})
	require.ErrorContains(t, <-s.done, "pass on what Receive is given")
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// A handler that does not end is not waited for longer than the grace.
func TestAnOwnerWithAHandlerThatHangs(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	release := make(chan struct{})
	var runs atomic.Int64
	var sequencer *ordering.Sequencer
	s := d.consume(rabbitmq.ConsumerConfig{Grace: 10 * time.Millisecond, Receiver: rabbitmq.Owner(func(ctx context.Context) (_ *ordering.Sequencer, err error) {
		sequencer, err = ordering.New(ctx, ordering.Config{
			Store: ordering.NewMemory(), Logger: quiet(),
			Handler: func(context.Context, ordering.Job) error {
				runs.Add(1)
				<-release
				return nil
			},
		})
		return sequencer, err
	})})
	d.send("1", "a=1", "")
	require.Eventually(t, func() bool { return runs.Load() == 1 }, waitAtMost, tick)
	s.stop()
	require.ErrorIs(t, <-s.done, rabbitmq.ErrGrace)
	close(release)
	require.NoError(t, sequencer.Close())
}

// An owner with a priority could begin before the one before has ended.
func TestAnOwnerHasNoPriority(t *testing.T) {
	priority := amqp.Table{"x-priority": int32(1)}
	owner := rabbitmq.Owner(func(context.Context) (*ordering.Sequencer, error) { panic("not called") })
	_, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{Endpoint: rabbitmq.Endpoint{URL: "amqp://localhost"}, Queue: "q", Receiver: owner, Args: priority})
	require.ErrorIs(t, err, rabbitmq.ErrConfig)
	require.ErrorContains(t, err, "must not have a priority")
	d := newDesk(t, rabbitmq.Queue{})
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: owner, Args: priority}) // in a wrapper
	require.ErrorContains(t, <-s.done, "must not have a priority")
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// Who loses a stream to somebody else, without losing the channel, learns of it
// from the store. The next term does not rely on what this one knew.
func TestAnOwnerThatLosesAStream(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	store, diary := ordering.NewMemory(), newDiary()
	handler := func(_ context.Context, job ordering.Job) error {
		defer diary.begin(job.Event.Positions[0].String())()
		return nil
	}
	p := d.join(store, handler)
	d.send("1", "a=1", "")
	require.Eventually(t, func() bool { return len(diary.all()) == 1 && p.consumer.Stats().Open == 0 }, waitAtMost, tick)

	other, err := ordering.New(t.Context(), ordering.Config{Store: store, Handler: handler, Logger: quiet()})
	require.NoError(t, err)
	e := &ordering.Event{ID: "2", Positions: []ordering.Position{{Stream: lockkeys.Must("a"), Number: 2}}}
	require.NoError(t, other.Offer(t.Context(), e, nil))
	require.NoError(t, other.Drain(t.Context()))
	require.NoError(t, other.Close())

	d.send("2", "a=2", "")
	d.send("3", "a=3", "")
	require.Eventually(t, func() bool {
		stats := p.consumer.Stats()
		return p.terms.Load() >= 2 && stats.Acked >= 3 && stats.Open == 0
	}, waitAtMost, tick)
	p.end(t)
	assert.Contains(t, diary.all(), "a=3")
	parked, err := store.Parked(t.Context())
	require.NoError(t, err)
	assert.Empty(t, parked)
	d.requireEmpty()
}
