package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/rabbittest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// Time limits of conditions that come true on any machine.
const (
	waitAtMost = 5 * time.Minute
	tick       = 5 * time.Millisecond
)

// newOptions returns the options for flags, with a database and queues that no
// other test has.
func newOptions(t *testing.T, flags ...string) *options {
	t.Helper()
	s, err := servers()
	require.NoError(t, err)
	o, err := parseOptions(append([]string{"-db", s.postgres.Database(t), "-amqp", s.rabbit.URL(), "-prefix", rabbittest.Name(t)}, flags...), t.Output())
	require.NoError(t, err)
	o.logger = slog.New(slog.DiscardHandler)
	return o
}

func (o *options) openFor(t *testing.T) *sqlstore.Store {
	t.Helper()
	store, err := o.open(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// begin runs a part of the program until the test, or end, ends it.
func begin(t *testing.T, part func(ctx context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	ended := false
	end = func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(end)
	return end
}

// send sends transactions straight to the queues, each with its numbers.
func (o *options) send(t *testing.T, transactions ...numbered) {
	t.Helper()
	events := make([]*ordering.Event, len(transactions))
	for i, n := range transactions {
		e, err := n.event()
		require.NoError(t, err)
		e.Positions[0].Number = n.number
		events[i] = e
	}
	require.NoError(t, o.publish(t.Context(), o.partitions().Route, events...))
}

type numbered struct {
	transaction
	number uint64
}

// ownersOf returns who has had terms of a queue, in order.
func ownersOf(t *testing.T, store *sqlstore.Store, queue int) (owners []string) {
	t.Helper()
	err := each(t.Context(), store.DB(), `SELECT queue, worker FROM convoy_terms ORDER BY term`, func(scan func(...any) error) error {
		var at int
		var worker string
		err := scan(&at, &worker)
		if at == queue {
			owners = append(owners, worker)
		}
		return err
	})
	require.NoError(t, err)
	return owners
}

// runsOf returns the transactions that had an effect, in order.
func runsOf(t *testing.T, store *sqlstore.Store) (events []string) {
	t.Helper()
	err := each(t.Context(), store.DB(), `SELECT event FROM convoy_runs ORDER BY entry`, func(scan func(...any) error) error {
		var event string
		err := scan(&event)
		events = append(events, event)
		return err
	})
	require.NoError(t, err)
	return events
}

func requireRuns(t *testing.T, store *sqlstore.Store, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(runsOf(t, store)) >= len(want) }, waitAtMost, tick)
	require.Equal(t, want, runsOf(t, store))
}

// declare declares all queues.
func (o *options) declare(t *testing.T) {
	t.Helper()
	require.NoError(t, o.withChannel(t.Context(), o.endpoint().Topology.Declare))
}
