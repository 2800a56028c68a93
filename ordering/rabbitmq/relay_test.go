package rabbitmq_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/replay/outbox"
)

var _ outbox.Publisher = (*rabbitmq.Publisher)(nil)

// TestRelay: what a transaction has committed comes to the broker by itself, in
// order for each stream, transfers between two streams too, while the network
// fails; and what cannot be a message is parked.
func TestRelay(t *testing.T) {
	node := broker(t)
	link := node.Link(t)
	queue := newQueue(t, node, rabbitmq.Queue{})
	file := url.URL{Scheme: "file", Path: filepath.Join(t.TempDir(), "outbox.db"), RawQuery: url.Values{
		"_pragma": {"busy_timeout(20000)", "journal_mode(WAL)", "synchronous(NORMAL)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", file.String())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	box, err := outbox.New(t.Context(), db, outbox.SQLite, outbox.Config{})
	require.NoError(t, err)

	p := newPublisher(t, rabbitmq.PublisherConfig{Endpoint: rabbitmq.Endpoint{URL: link.URL()}, Route: toQueue(queue)})
	relay, err := outbox.NewRelay(box, p, outbox.RelayConfig{
		Poll: 20 * time.Millisecond, Backoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- relay.Run(ctx) }()

	const accounts, rounds = 8, 40
	last := map[lockkeys.Key]uint64{}
	enqueue := func(e *ordering.Event, streams ...lockkeys.Key) {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		e, err = box.Enqueue(t.Context(), tx, e, streams...)
		require.NoError(t, err)
		for _, at := range e.Positions {
			last[at.Stream] = at.Number
		}
		require.NoError(t, tx.Commit())
		box.Notify()
	}
	account := func(i int) lockkeys.Key { return lockkeys.Must("account", fmt.Sprint(i%accounts)) }
	for round := range rounds {
		for a := range accounts {
			if a%2 == 0 {
				enqueue(&ordering.Event{Type: "Deposited"}, account(a))
			} else {
				enqueue(&ordering.Event{Type: "Moved"}, account(a), account(a+1+round%7))
			}
		}
		if round%10 == 5 {
			link.Cut()
			link.Mend()
		}
	}
	enqueue(&ordering.Event{Headers: map[string]string{rabbitmq.CausationHeader: "mine"}}, lockkeys.Must("bad"))
	require.Eventually(t, func() bool {
		s, err := box.Stats(t.Context())
		return err == nil && s.Unsent == s.Parked
	}, waitAtMost, tick)
	stop()
	require.NoError(t, <-ended)

	parked, err := box.Parked(t.Context())
	require.NoError(t, err)
	require.Len(t, parked, 1)
	assert.Contains(t, parked[0].Error, rabbitmq.CausationHeader)
	next := map[lockkeys.Key]uint64{}
	for _, e := range contents(t, node, queue) {
		for _, at := range e.Positions {
			require.LessOrEqual(t, at.Number, next[at.Stream]+1, "%v is too early", at)
			next[at.Stream] = max(next[at.Stream], at.Number)
		}
	}
	delete(last, lockkeys.Must("bad"))
	assert.Equal(t, last, next)
}
