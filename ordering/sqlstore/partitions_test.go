package sqlstore_test

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestTwoPartitionsGetACommand: the commit of the second one meets that of the first in the
// transaction that both share on SQLite, and which is not committed yet. What has become of
// the command cannot be looked up before that: so the second one waits, and does not fail.
func TestTwoPartitionsGetACommand(t *testing.T) {
	store := closed(t)(sqlite.Open(t.Context(), empty(t)))
	sequencer := func(partition string) *ordering.Sequencer[*ordering.Event] {
		s, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: store, Consumer: ordering.Consumer{Partition: partition}, RequestInterval: -1,
			Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{MaxAttempts: 1},
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				job.Reply([]byte("by the " + partition))
				return effect(job.Event.ID)(ctx, tx)
			}),
		})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, s.Close()) })
		return s
	}
	one, two := sequencer("first"), sequencer("second")

	var wait sync.WaitGroup
	defer wait.Wait()
	block := func(until <-chan struct{}) (entered <-chan struct{}) { // keeps the writer's transaction open
		in := make(chan struct{})
		wait.Go(func() {
			assert.NoError(t, store.Write(context.WithoutCancel(t.Context()), func(context.Context, *sql.Tx) error {
				close(in)
				<-until
				return nil
			}))
		})
		return in
	}
	waiting := func(n int) {
		require.Eventually(t, func() bool { return store.Waiting() == n }, waitAtMost, tick)
	}
	outcomes := make(chan ordering.Outcome, 2)
	send := func(s *ordering.Sequencer[*ordering.Event]) {
		wait.Go(func() {
			o, err := s.Do(context.WithoutCancel(t.Context()), &ordering.Event{ID: "pay-1"})
			assert.NoError(t, err)
			outcomes <- o
		})
	}
	all, told := make(chan struct{}), make(chan struct{})
	<-block(all)
	send(one)
	waiting(1)
	send(two)
	waiting(2)
	third := block(told)
	waiting(3)
	close(all)
	<-third // those before it in the transaction have ended
	assert.Empty(t, outcomes, "nothing is told before the commit")
	close(told)
	for range 2 {
		assert.Equal(t, "by the first", string((<-outcomes).Reply))
	}
	assert.Equal(t, 1, effects(t, store))
}
