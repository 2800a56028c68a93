package main

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/convoy/internal/ledger"
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
	o.Logger = slog.New(slog.DiscardHandler)
	return o
}

func (o *options) openFor(t *testing.T) *sqlstore.Store {
	t.Helper()
	store, err := o.Open(t.Context())
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
		e, err := n.Event()
		require.NoError(t, err)
		e.Positions[0].Number = n.number
		events[i] = e
	}
	require.NoError(t, o.Publish(t.Context(), o.Partitions().Route, events...))
}

type numbered struct {
	ledger.Transaction
	number uint64
}

// column returns the only column of the rows that a query gives.
func column(t *testing.T, store *sqlstore.Store, query string, args ...any) (values []string) {
	t.Helper()
	rows, err := store.DB().QueryContext(t.Context(), query, args...)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var value string
		require.NoError(t, rows.Scan(&value))
		values = append(values, value)
	}
	require.NoError(t, rows.Err())
	return values
}

// ownersOf returns who has had terms of a queue, in order.
func ownersOf(t *testing.T, store *sqlstore.Store, queue int) (owners []string) {
	t.Helper()
	return column(t, store, `SELECT worker FROM convoy_terms WHERE queue = $1 ORDER BY term`, queue)
}

// runsOf returns the transactions that had an effect, in order.
func runsOf(t *testing.T, store *sqlstore.Store) (events []string) {
	t.Helper()
	return column(t, store, `SELECT event FROM convoy_runs ORDER BY entry`)
}

func requireRuns(t *testing.T, store *sqlstore.Store, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(runsOf(t, store)) >= len(want) }, waitAtMost, tick)
	require.Equal(t, want, runsOf(t, store))
}

// declare declares all queues.
func (o *options) declare(t *testing.T) {
	t.Helper()
	require.NoError(t, o.WithChannel(t.Context(), o.Endpoint().Topology.Declare))
}
