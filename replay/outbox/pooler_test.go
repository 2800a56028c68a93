package outbox_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/outbox"
)

// TestARelayBehindAPooler that pools by transaction says so, and leaves neither
// a lock nor a setting on sessions that are others' next. Producers may use it.
func TestARelayBehindAPooler(t *testing.T) {
	direct := place{outbox.PostgreSQL, "pgx", postgres.Database(t)} // with no parameters, which poolers refuse
	box, directDB := direct.box(t, outbox.Config{})
	behind := func(mode string, size int) (*outbox.Outbox, place) {
		url := postgres.Pooler(t, direct.url, mode, size)
		if mode == "transaction" { // or the driver prepares statements, which not every pooler bears
			url += "&default_query_exec_mode=simple_protocol"
		}
		p := place{outbox.PostgreSQL, "pgx", url}
		box, db := p.box(t, outbox.Config{})
		put(t, box, db, "a")
		return box, p
	}
	for _, size := range []int{1, 3} {
		pooled, p := behind("transaction", size)
		relay, err := outbox.NewRelay(pooled, newReceiver(), outbox.RelayConfig{})
		require.NoError(t, err)
		require.ErrorIs(t, relay.Run(t.Context()), outbox.ErrPooled)
		require.ErrorIs(t, relay.Run(t.Context()), outbox.ErrPooled, "it may be tried again")
		assert.False(t, relay.Stats().Active)
		var locks int
		require.NoError(t, directDB.QueryRow(`SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&locks))
		assert.Zero(t, locks)
		other := p.open(t)
		for range size {
			tx, err := other.Begin() // keeps its session, so that the next one has another
			require.NoError(t, err)
			defer func() { _ = tx.Rollback() }()
			var commit string
			require.NoError(t, tx.QueryRow(`SHOW synchronous_commit`).Scan(&commit))
			assert.Equal(t, "on", commit)
		}
	}
	pooled, _ := behind("session", 20)
	relay, stop := start(t, pooled, newReceiver(), outbox.RelayConfig{})
	require.Eventually(t, func() bool { return relay.Stats().Active }, waitAtMost, time.Millisecond)
	allSent(t, box)
	stop()
}
