package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
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

// process is one of several that consume a queue in turns, with a store that
// they share.
type process struct {
	*shift
	link  *rabbittest.Link
	terms atomic.Int64
	last  atomic.Pointer[ordering.Sequencer[*ordering.Event]] // of the last term
}

func (d *desk) join(store ordering.Store, handler ordering.Handler[*ordering.Event]) *process {
	p := &process{link: d.node.Link(d.T)}
	p.shift = d.consume(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{URL: p.link.URL(), Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 50 * time.Millisecond}},
		Receiver: rabbitmq.Owner(func(ctx context.Context) (rabbitmq.Term, error) {
			p.terms.Add(1)
			s, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
				Store: store, Handler: handler, Logger: quiet(), GapTimeout: 50 * time.Millisecond,
			})
			p.last.Store(s)
			if err != nil {
				return nil, err
			}
			return rabbitmq.Events(s), nil
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
	by := func(name string) ordering.Handler[*ordering.Event] {
		return func(_ context.Context, job ordering.Job[*ordering.Event]) error {
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
			channels := pair[0].consumer.Stats().Channels
			pair[0].link.Cut()
			work(pair[1])
			pair[0].link.Mend()
			require.Eventually(t, func() bool { return pair[0].consumer.Stats().Channels > channels }, waitAtMost, tick)
		}
	}
	one.end(t)
	two.end(t)
	diary.requireOnceInOrder(t, []string{"a"}, n)
	d.requireEmpty()
	assert.GreaterOrEqual(t, one.terms.Load(), int64(4), "each time that the queue comes back")
	assert.GreaterOrEqual(t, two.terms.Load(), int64(3))
	parked, err := store.Reader("").Parked(t.Context())
	require.NoError(t, err)
	assert.Empty(t, parked)
}

// A handler that still runs when the channel is lost comes to its end, and its
// redelivery waits for that: it is a duplicate then.
func TestATermWaitsForTheOneBefore(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	diary, release := newDiary(), make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	p := d.join(ordering.NewMemory(), func(_ context.Context, job ordering.Job[*ordering.Event]) error {
		defer diary.begin(job.Event.Positions[0].String())()
		<-release
		return nil
	})
	t.Cleanup(letGo)
	d.send("1", "a=1", "")
	d.send("2", "a=2", "")
	require.Eventually(t, func() bool { return len(diary.all()) == 1 && p.consumer.Stats().Received >= 2 }, waitAtMost, tick)
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
	handler := func(_ context.Context, job ordering.Job[*ordering.Event]) error {
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
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) { return nil, broken })})
	require.ErrorIs(t, <-s.done, broken)
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// A store that fails when a term begins, or when it is asked for a stream, costs
// the term, not the consumer.
func TestAStoreThatFailsForAWhile(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{SingleActive: true})
	diary := newDiary()
	store := &faulty{Store: ordering.NewMemory()}
	p := d.join(store, func(_ context.Context, job ordering.Job[*ordering.Event]) error {
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
	assert.EqualValues(t, 1, p.consumer.Stats().Channels, "the channel is kept")
	d.requireEmpty()
}

// faulty is a store of which some calls fail.
type faulty struct {
	ordering.Store
	fails atomic.Int64
}

func (f *faulty) Begin(ctx context.Context, c ordering.Consumer) (ordering.Term, error) {
	term, err := f.Store.Begin(ctx, c)
	return &faultyTerm{term, f}, err
}

type faultyTerm struct {
	ordering.Term
	of *faulty
}

func (f *faulty) failure() error {
	if f.fails.Add(-1) < 0 {
		return nil
	}
	return &ordering.StoreError{Op: "test", Err: errors.New("the database is away")}
}

func (t *faultyTerm) Parked(ctx context.Context, ids ...string) ([]ordering.Parking, error) {
	if t.of.fails.Load() > 1 {
		return nil, t.of.failure()
	}
	return t.Term.Parked(ctx, ids...)
}

func (t *faultyTerm) Acquire(ctx context.Context, streams []lockkeys.Key) ([]ordering.StreamState, error) {
	if err := t.of.failure(); err != nil {
		return nil, err
	}
	return t.Term.Acquire(ctx, streams)
}

// Who wraps an owner and keeps the consumer's context from it is told so.
func TestAnOwnerWithoutItsConsumer(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	owner := rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) { panic("not called") })
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: receiver(func(_ context.Context, m amqp.Delivery, settle rabbitmq.Settle) error {
		return owner.Receive(context.Background(), m, settle)
	})})
	require.ErrorContains(t, <-s.done, "pass on what Receive is given")
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}

// An owner that is given to two consumers does not let the second one wait for ever.
func TestAnOwnerOfTwoConsumers(t *testing.T) {
	one, two := newDesk(t, rabbitmq.Queue{}), newDesk(t, rabbitmq.Queue{})
	owner := rabbitmq.Owner(func(ctx context.Context) (rabbitmq.Term, error) {
		sequencer, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(), Logger: quiet(), Handler: func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
		})
		return rabbitmq.Events(sequencer), err
	})
	first := one.consume(rabbitmq.ConsumerConfig{Receiver: owner})
	one.send("1", "a=1", "")
	require.Eventually(t, func() bool { return first.consumer.Stats().Acked == 1 }, waitAtMost, tick)
	two.send("1", "b=1", "")
	require.ErrorContains(t, <-two.consume(rabbitmq.ConsumerConfig{Receiver: owner}).done, "make one for each")
	first.end(t)
	one.requireEmpty()
}

// A handler that does not end is not waited for longer than the grace.
func TestAnOwnerWithAHandlerThatHangs(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	release := make(chan struct{})
	var runs atomic.Int64
	var sequencer *ordering.Sequencer[*ordering.Event]
	s := d.consume(rabbitmq.ConsumerConfig{Grace: 10 * time.Millisecond, Receiver: rabbitmq.Owner(func(ctx context.Context) (_ rabbitmq.Term, err error) {
		sequencer, err = ordering.New(ctx, ordering.Config[*ordering.Event]{
			Store: ordering.NewMemory(), Logger: quiet(),
			Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
				runs.Add(1)
				<-release
				return nil
			},
		})
		return rabbitmq.Events(sequencer), err
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
	owner := rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) { panic("not called") })
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
	handler := func(_ context.Context, job ordering.Job[*ordering.Event]) error {
		defer diary.begin(job.Event.Positions[0].String())()
		return nil
	}
	p := d.join(store, handler)
	d.send("1", "a=1", "")
	require.Eventually(t, func() bool { return len(diary.all()) == 1 && p.consumer.Stats().Open == 0 }, waitAtMost, tick)

	other, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{Store: store, Consumer: ordering.Consumer{Partition: "another"}, Handler: handler, Logger: quiet()})
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
	parked, err := store.Reader("").Parked(t.Context())
	require.NoError(t, err)
	assert.Empty(t, parked)
	d.requireEmpty()
}

// ending is a term that has its own way to end.
type ending struct {
	rabbitmq.Term
	shutdown func(ctx context.Context, sequencer rabbitmq.Term) error
}

func (e ending) Shutdown(ctx context.Context) error { return e.shutdown(ctx, e.Term) }

// A term may have more to end than a sequencer. It learns why it ends, and the
// next one does not begin before. What goes wrong with that costs no message.
func TestTheEndOfATerm(t *testing.T) {
	unfinished := fmt.Errorf("the books are open: %w", dispatcher.ErrUnfinished)
	for name, test := range map[string]struct {
		first, second error // what Shutdown returns, the first time and the second time
		ends          func()
		calls         []bool // of Shutdown: whether it had a deadline
	}{
		"in good order":           {nil, nil, nil, []bool{true}},
		"with an error":           {errors.New("the disk is full"), nil, nil, []bool{true}},
		"with a panic":            {nil, nil, func() { panic("the books are lost") }, []bool{true}},
		"with runtime.Goexit":     {nil, nil, runtime.Goexit, []bool{true}},
		"late":                    {unfinished, nil, nil, []bool{true, false}},
		"late, and with an error": {unfinished, errors.New("the disk is full"), nil, []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, rabbitmq.Queue{SingleActive: true})
			store, diary, link := ordering.NewMemory(), newDiary(), d.node.Link(t)
			var mu sync.Mutex
			var open int
			var calls [][]bool // of each term
			var causes []error
			shift := d.consume(rabbitmq.ConsumerConfig{
				Endpoint: rabbitmq.Endpoint{URL: link.URL(), Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 50 * time.Millisecond}},
				Receiver: rabbitmq.Owner(func(began context.Context) (rabbitmq.Term, error) {
					sequencer, err := ordering.New(began, ordering.Config[*ordering.Event]{
						Store: store, Logger: quiet(),
						Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
							defer diary.begin(job.Event.Positions[0].String())()
							return nil
						},
					})
					if err != nil {
						return nil, err
					}
					mu.Lock()
					defer mu.Unlock()
					open++
					assert.Equal(t, 1, open, "terms at the same time")
					at := len(calls)
					calls = append(calls, nil)
					return ending{rabbitmq.Events(sequencer), func(ctx context.Context, sequencer rabbitmq.Term) error {
						err := sequencer.Shutdown(ctx)
						mu.Lock()
						defer mu.Unlock()
						_, deadline := ctx.Deadline()
						if calls[at] = append(calls[at], deadline); len(calls[at]) == 1 {
							causes = append(causes, context.Cause(began))
						}
						if len(calls[at]) == len(test.calls) {
							open--
						}
						if test.ends != nil {
							test.ends()
						}
						if len(calls[at]) == 1 {
							return errors.Join(err, test.first)
						}
						return errors.Join(err, test.second)
					}}, nil
				}),
			})
			d.send("1", "a=1", "")
			require.Eventually(t, func() bool { return shift.consumer.Stats().Acked >= 1 }, waitAtMost, tick)
			link.Cut()
			link.Mend()
			d.send("2", "a=2", "")
			require.Eventually(t, func() bool { return len(diary.all()) == 2 }, waitAtMost, tick)
			shift.end(t)
			diary.requireOnceInOrder(t, []string{"a"}, 2)
			d.requireEmpty()
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, test.calls, calls[0])
			require.Len(t, causes, 2)
			assert.Error(t, causes[0], "the connection's, or that of what was being written")
			assert.NotErrorIs(t, causes[0], context.Canceled)
			assert.ErrorIs(t, causes[1], context.Canceled)
		})
	}
}

// A function that begins nothing and says nothing ends the consumer.
func TestNoTerm(t *testing.T) {
	d := newDesk(t, rabbitmq.Queue{})
	d.send("1", "a=1", "")
	s := d.consume(rabbitmq.ConsumerConfig{Receiver: rabbitmq.Owner(func(context.Context) (rabbitmq.Term, error) { return nil, nil })})
	require.ErrorContains(t, <-s.done, "neither a term nor an error")
	require.Eventually(t, func() bool { return d.left(d.queue) == 1 }, waitAtMost, tick)
}
