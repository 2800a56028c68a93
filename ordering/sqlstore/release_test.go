package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestAKeyIsKeptUntilTheCommit: deposits of several streams into one account,
// each of which reads the balance, asks to give the account's key back, and
// writes what it has computed. None is lost, since the key stays closed.
func TestAKeyIsKeptUntilTheCommit(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		require.NoError(t, store.Migrate(t.Context(), "bank", []string{
			`CREATE TABLE accounts (balance BIGINT NOT NULL); INSERT INTO accounts VALUES (0)`}))
		account := lockkeys.Must("account")
		sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: store,
			Keys: func(job ordering.Job[*ordering.Event], claim *lockkeys.Claim) error {
				claim.Exclusive(account)
				return nil
			},
			Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
				var balance int
				if err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts`).Scan(&balance); err != nil {
					return err
				}
				assert.ErrorIs(t, dispatcher.Release(ctx, account), dispatcher.ErrStrictLocking)
				_, err := tx.ExecContext(ctx, `UPDATE accounts SET balance = $1`, balance+10)
				return err
			}),
		})
		require.NoError(t, err)
		defer sequencer.Close()
		for i := range 6 {
			require.NoError(t, sequencer.Offer(t.Context(), &ordering.Event{Positions: at(fmt.Sprint("s", i), 1)}, nil))
		}
		require.NoError(t, sequencer.Drain(t.Context()))
		require.NoError(t, sequencer.Err())
		var balance int
		require.NoError(t, store.DB().QueryRow(`SELECT balance FROM accounts`).Scan(&balance))
		assert.Equal(t, 60, balance)
	})
}
