package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// A run that is killed leaves a book that is exactly its journal: every
// message whole or not at all.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	command := process(t, "-messages", "1000000", "-db", path)
	require.NoError(t, command.Start())

	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	defer db.Close()
	journal := func() (n int) {
		_ = db.QueryRow(`SELECT count(*) FROM journal`).Scan(&n) // there may be no table yet
		return n
	}
	require.Eventually(t, func() bool { return journal() > 3000 }, time.Minute, time.Millisecond)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())

	replayed := store.NewMemory()
	ctx := context.Background()
	rows, err := db.Query(`SELECT seq, message FROM journal ORDER BY seq`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var seq uint64
		var message []byte
		require.NoError(t, rows.Scan(&seq, &message))
		m, err := book.Decode(message)
		require.NoError(t, err)
		tx := book.Begin(ctx, replayed, seq, m)
		_, err = book.Apply(tx, m)
		require.NoError(t, err, "journal entry %d", seq)
		require.NoError(t, replayed.Commit(ctx, tx.Changes()))
	}
	require.NoError(t, rows.Err())

	kept, err := store.OpenSQLite(ctx, path)
	require.NoError(t, err)
	defer func() { require.NoError(t, kept.Close()) }()
	assert.Equal(t, holdingsOf(t, replayed), holdingsOf(t, kept))
}

func holdingsOf(t *testing.T, s store.Store) holdings {
	t.Helper()
	balances, err := s.Balances(context.Background(), book.Root)
	require.NoError(t, err)
	h := holdings{}
	for _, b := range balances {
		h.set(string(b.Account), b.Commodity, b.Amount.Decimal)
	}
	return h
}
