package rabbitmq_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// disturb publishes events of each account, many at a time, and calls harm
// whenever so many more are confirmed as at gives. It requires that all are
// confirmed in the end.
func disturb(t *testing.T, p *rabbitmq.Publisher, accounts, each int, at []int, harm func()) {
	t.Helper()
	var confirmed atomic.Int64
	reached := make(chan struct{}, len(at))
	var publishers, confirms, harming sync.WaitGroup
	confirms.Add(accounts * each)
	slices.Sort(at)
	marks := map[int64]int{}
	for _, n := range at {
		marks[int64(n)]++
	}
	for a := range accounts {
		publishers.Go(func() {
			for n := range each {
				p.Go(context.Background(), event(fmt.Sprint(a), n+1), func(err error) {
					assert.NoError(t, err)
					for range marks[confirmed.Add(1)] {
						reached <- struct{}{}
					}
					confirms.Done()
				})
			}
		})
	}
	harming.Go(func() {
		for range at {
			<-reached
			harm()
		}
	})
	harming.Wait()
	publishers.Wait()
	confirms.Wait()
}

// TestOrderOverCuts: the network fails 20 times, at any moment. All that is
// confirmed is there, and first appearances are in order for each key.
func TestOrderOverCuts(t *testing.T) {
	for _, kind := range []rabbitmq.QueueType{rabbitmq.Quorum, rabbitmq.Classic} {
		t.Run(string(kind), func(t *testing.T) {
			node := broker(t)
			link := node.Link(t)
			queue := newQueue(t, node, rabbitmq.Queue{Type: kind})
			p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue), Window: 100})
			const accounts, each, cuts = 8, 500, 20
			at := make([]int, cuts)
			for i := range at {
				at[i] = 1 + rand.IntN(accounts*each*9/10)
			}
			disturb(t, p, accounts, each, at, func() {
				link.Cut()
				link.Mend()
			})
			events := contents(t, node, queue)
			requireOrder(t, events, accounts, each)
			s := p.Stats()
			t.Logf("%d connections, %d sent again, %d of %d twice", s.Connections, s.Resent, len(events)-accounts*each, len(events))
			assert.Greater(t, s.Connections, uint64(1))
		})
	}
}

// TestContextsOverCuts: while the network fails, some publishers wait for a
// short time only. Each learns once how it went, and truly: what is confirmed
// is there, and what was not sent is not.
func TestContextsOverCuts(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue), Channels: 2, Window: 20})
	const accounts, each = 16, 100
	var results [accounts][each]error
	var told atomic.Int64
	var publishers, harming sync.WaitGroup
	published := make(chan struct{})
	for a := range accounts {
		publishers.Go(func() {
			for n := range each {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20_000))*time.Microsecond)
				if a%2 == 0 {
					results[a][n] = p.Publish(ctx, event(fmt.Sprint(a), n+1))
					told.Add(1)
				} else {
					p.Go(ctx, event(fmt.Sprint(a), n+1), func(err error) {
						results[a][n] = err
						told.Add(1)
					})
					<-ctx.Done()
				}
				cancel()
			}
		})
	}
	harming.Go(func() {
		for connections := uint64(1); ; connections++ {
			for p.Stats().Connections < connections {
				select {
				case <-published:
					return
				case <-time.After(time.Millisecond):
				}
			}
			select {
			case <-published:
				return
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			}
			link.Cut()
			link.Mend()
		}
	})
	publishers.Wait()
	close(published)
	harming.Wait()
	require.NoError(t, p.Shutdown(t.Context()))
	assert.EqualValues(t, accounts*each, told.Load())

	there := map[string]bool{}
	for _, e := range contents(t, node, queue) {
		there[e.ID] = true
	}
	var confirmed, unknown, notSent int
	for a := range accounts {
		for n, err := range results[a] {
			id := event(fmt.Sprint(a), n+1).Name()
			switch {
			case err == nil:
				confirmed++
				assert.True(t, there[id], "%s is confirmed", id)
			case errors.Is(err, rabbitmq.ErrNotSent):
				notSent++
				assert.False(t, there[id], "%s was not sent", id)
			default:
				unknown++
				require.ErrorIs(t, err, rabbitmq.ErrUnknown)
			}
		}
	}
	t.Logf("%d confirmed, %d unknown, %d not sent, %d connections", confirmed, unknown, notSent, p.Stats().Connections)
}

// TestOrderOverKill: the broker is killed, and started again. All that is
// confirmed is there, and first appearances are in order for each key.
func TestOrderOverKill(t *testing.T) {
	node := broker(t)
	queues := []string{newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Quorum}), newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})}
	require.NoError(t, node.Sync())
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()},
		Route: func(e *ordering.Event) (string, string, error) {
			return "", queues[rabbitmq.Partition(e.Positions[0].Stream, len(queues))], nil
		},
	})
	const accounts, each = 8, 1000
	disturb(t, p, accounts, each, []int{accounts * each / 3}, func() {
		require.NoError(t, node.Kill())
		assert.Eventually(t, func() bool { return p.Ready() != nil }, time.Minute, time.Millisecond)
		require.NoError(t, node.Restart())
	})
	var events []*ordering.Event
	for _, queue := range queues {
		events = append(events, contents(t, node, queue)...)
	}
	requireOrder(t, events, accounts, each)
	s := p.Stats()
	t.Logf("%d connections, %d sent again", s.Connections, s.Resent)
	assert.EqualValues(t, 2, s.Connections)
}

// TestStalledLink: the network swallows everything without a word. Messages
// whose time is over say that it is unknown whether they arrived; the others
// are sent again when the connection is given up, and arrive.
func TestStalledLink(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue), ConfirmTimeout: 300 * time.Millisecond})
	require.NoError(t, publishNow(t, p, event("7", 1)))

	link.Stall()
	patient := make(chan error, 1)
	p.Go(t.Context(), event("7", 2), func(err error) { patient <- err })
	hasty, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Publish(hasty, event("7", 3))
	require.ErrorIs(t, err, rabbitmq.ErrUnknown)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	require.Eventually(t, func() bool { return !p.Stats().Connected }, time.Minute, time.Millisecond, "the connection is given up")
	hasty, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = p.Publish(hasty, event("7", 4))
	require.ErrorIs(t, err, rabbitmq.ErrNotSent)

	link.Mend()
	require.NoError(t, <-patient)
	require.NoError(t, publishNow(t, p, event("7", 5)))
	assert.Equal(t, []int{1, 2, 5}, firstSeen(contents(t, node, queue))[event("7", 1).Positions[0].Stream])
}

// TestBlocked: the broker is out of memory and takes nothing. Publishing waits
// as long as its context allows; the connection is not given up, and in the end
// what waited is sent.
func TestBlocked(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue), ConfirmTimeout: 100 * time.Millisecond})
	require.NoError(t, publishNow(t, p, event("7", 1)))
	require.NoError(t, node.RaiseAlarm())
	t.Cleanup(func() { _ = node.ClearAlarm() })

	large := event("7", 2)
	large.Payload = make([]byte, 8<<20) // more than any buffer on the way holds
	waiting := make(chan error, 2)
	p.Go(t.Context(), large, func(err error) { waiting <- err })
	require.Eventually(t, func() bool { return p.Stats().Blocked }, time.Minute, time.Millisecond)
	assert.ErrorContains(t, p.Ready(), "more memory or disk")
	p.Go(t.Context(), event("7", 3), func(err error) { waiting <- err })
	hasty, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := p.Publish(hasty, event("7", 4))
	require.ErrorIs(t, err, rabbitmq.ErrNotSent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 1, p.Stats().Connections)

	require.NoError(t, node.ClearAlarm())
	require.NoError(t, <-waiting)
	require.NoError(t, <-waiting)
	assert.EqualValues(t, 1, p.Stats().Connections)
	assert.Equal(t, []int{1, 2, 3}, firstSeen(contents(t, node, queue))[event("7", 1).Positions[0].Stream])
}

// TestCloseWhileBlocked: closing does not wait for a broker that takes nothing.
func TestCloseWhileBlocked(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	require.NoError(t, publishNow(t, p, event("7", 1)))
	require.NoError(t, node.RaiseAlarm())
	t.Cleanup(func() { require.NoError(t, node.ClearAlarm()) })
	large := event("7", 2)
	large.Payload = make([]byte, 8<<20)
	result := make(chan error, 1)
	p.Go(t.Context(), large, func(err error) { result <- err })
	require.Eventually(t, func() bool { return p.Stats().Blocked }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := p.Shutdown(ctx)
	require.ErrorIs(t, err, rabbitmq.ErrPublisherClosed)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	err = <-result
	require.ErrorIs(t, err, rabbitmq.ErrUnknown)
	require.ErrorIs(t, err, rabbitmq.ErrPublisherClosed)
}

// TestClose: what was accepted is confirmed, nothing more is accepted.
func TestClose(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Route: toQueue(queue)})
	var confirmed atomic.Int64
	for i := range 100 {
		p.Go(t.Context(), event("7", i+1), func(err error) {
			assert.NoError(t, err)
			confirmed.Add(1)
		})
	}
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() { assert.NoError(t, p.Shutdown(t.Context())) })
	}
	closers.Wait()
	assert.EqualValues(t, 100, confirmed.Load())
	err := publishNow(t, p, event("7", 101))
	require.ErrorIs(t, err, rabbitmq.ErrPublisherClosed)
	require.ErrorIs(t, err, rabbitmq.ErrNotSent)
	require.ErrorIs(t, p.Ready(), rabbitmq.ErrPublisherClosed)
	assert.Len(t, contents(t, node, queue), 100)
}

// TestNoBroker: without a broker everything ends with its context, and Close
// with its own.
func TestNoBroker(t *testing.T) {
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: "amqp://127.0.0.1:1/"}, Route: toQueue("q"), Channels: 1, Window: 2})
	results := make(chan error, 10)
	ctx, cancel := context.WithCancelCause(t.Context())
	for i := range 2 {
		p.Go(ctx, event("7", i+1), func(err error) { results <- err })
	}
	cancel(assert.AnError)
	for range 2 {
		err := <-results
		require.ErrorIs(t, err, rabbitmq.ErrNotSent)
		require.ErrorIs(t, err, assert.AnError)
	}
	require.Error(t, p.Ready())
	p.Go(t.Context(), event("7", 3), func(err error) { results <- err })
	done, cancelDone := context.WithCancel(t.Context())
	cancelDone()
	require.ErrorIs(t, p.Shutdown(done), context.Canceled)
	require.ErrorIs(t, <-results, rabbitmq.ErrPublisherClosed)
}

// TestTopologyRefused: a topology that contradicts what is there ends the
// publisher, and everyone learns why.
func TestTopologyRefused(t *testing.T) {
	node := broker(t)
	queue := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL(), Topology: rabbitmq.Topology{Queues: []rabbitmq.Queue{{Name: queue, Type: rabbitmq.Quorum}}}},
		Route:    toQueue(queue),
	})
	for i := range 2 {
		err := publishNow(t, p, event("7", i+1))
		var e *rabbitmq.TopologyError
		require.ErrorAs(t, err, &e)
		assert.Contains(t, e.Item, queue)
		requireServer(t, err, amqp.PreconditionFailed)
	}
	require.NoError(t, p.Shutdown(t.Context()))
}

// TestSilentQueue: a queue hangs and confirms nothing. Messages to another one
// on the same channel are confirmed all the same. The channel is given up, not
// the connection, and what was sent to the queue is sent again.
func TestSilentQueue(t *testing.T) {
	node := broker(t)
	silent := newQueue(t, node, rabbitmq.Queue{Type: rabbitmq.Classic})
	other := newQueue(t, node, rabbitmq.Queue{})
	p := newPublisher(t, rabbitmq.PublisherConfig{
		Endpoint: rabbitmq.Endpoint{URL: node.URL()}, Channels: 1, ConfirmTimeout: 200 * time.Millisecond,
		Route: func(e *ordering.Event) (string, string, error) { return "", e.Type, nil },
	})
	tell := func(what string) {
		_, err := node.Ctl("eval", fmt.Sprintf(`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), sys:%s(amqqueue:get_pid(Q)).`, silent, what))
		require.NoError(t, err)
	}
	publish := func(queue string, number int, done func(error)) {
		e := event("7", number)
		e.Type = queue
		p.Go(t.Context(), e, done)
	}
	tell("suspend")
	stuck, well := make(chan error, 2), make(chan error, 2)
	publish(silent, 1, func(err error) { stuck <- err })
	publish(other, 2, func(err error) { well <- err })
	publish(silent, 3, func(err error) { stuck <- err })
	publish(other, 4, func(err error) { well <- err })
	require.NoError(t, <-well)
	require.NoError(t, <-well)
	require.Eventually(t, func() bool { return p.Stats().Resent >= 2 }, time.Minute, time.Millisecond)
	tell("resume")
	require.NoError(t, <-stuck)
	require.NoError(t, <-stuck)
	assert.EqualValues(t, 1, p.Stats().Connections)
	account := event("7", 1).Positions[0].Stream
	assert.Equal(t, []int{1, 3}, firstSeen(contents(t, node, silent))[account])
	assert.Len(t, contents(t, node, other), 2)
}
