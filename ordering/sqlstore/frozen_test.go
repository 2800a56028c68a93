package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// TestAFrozenHolder, in the middle of a transaction, does not keep its stream:
// the server ends its session, and when it wakes up it has lost.
func TestAFrozenHolder(t *testing.T) {
	url := database(t)
	frozen := closed(t)(postgres.Open(t.Context(), url+"&idle_in_transaction_session_timeout=200ms"))
	heir := closed(t)(postgres.Open(t.Context(), url))
	j, told := job(t, frozen, "a", 1), make(chan error, 1)
	asleep, wake := make(chan struct{}), make(chan struct{})
	go func() {
		told <- frozen.Do(t.Context(), j, func(ctx context.Context, tx *sql.Tx) error {
			if err := effect("frozen")(ctx, tx); err != nil {
				return err
			}
			close(asleep)
			<-wake
			return nil
		})
	}()
	<-asleep
	taken := job(t, heir, "a", 1)
	require.NoError(t, heir.Do(t.Context(), taken, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `LOCK TABLE effects IN SHARE ROW EXCLUSIVE MODE`) // waits for the session of the frozen one
		return errors.Join(err, effect("heir")(ctx, tx))
	}))
	close(wake)
	require.ErrorAs(t, <-told, new(*ordering.StoreError))
	assert.False(t, j.IsCommitted())
	require.ErrorIs(t, frozen.Do(t.Context(), j, effect("frozen")), ordering.ErrFenced)
	assert.Equal(t, 1, effects(t, heir))
}

// TestTheLimitOfIdleTransactions is the store's unless somebody has set one, and
// holds for all of its connections.
func TestTheLimitOfIdleTransactions(t *testing.T) {
	url := database(t)
	limit := func(url string) (effects, reads string) {
		store := closed(t)(postgres.Open(t.Context(), url))
		defer store.Close()
		const show = `SHOW idle_in_transaction_session_timeout`
		require.NoError(t, store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return tx.QueryRowContext(ctx, show).Scan(&effects)
		}))
		require.NoError(t, store.DB().QueryRow(show).Scan(&reads))
		return effects, reads
	}
	check := func(url, want string) {
		t.Helper()
		effects, reads := limit(url)
		assert.Equal(t, want, effects)
		assert.Equal(t, want, reads)
	}
	check(url, "15s")
	check(url+"&idle_in_transaction_session_timeout=7s", "7s")
	check(url+"&idle_in_transaction_session_timeout=0", "0")
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	var name string
	require.NoError(t, db.QueryRow(`SELECT current_database()`).Scan(&name))
	_, err = db.Exec(`ALTER DATABASE ` + name + ` SET idle_in_transaction_session_timeout = '42s'`)
	require.NoError(t, err)
	check(url, "42s")
	check(url+"&idle_in_transaction_session_timeout="+(9*time.Second).String(), "9s")
}
