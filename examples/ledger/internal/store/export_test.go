package store

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Exec changes a database behind the back of a store.
func Exec(t *testing.T, path, statement string) {
	t.Helper()
	db, err := connect(path, 1)
	require.NoError(t, err)
	_, err = db.Exec(statement)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}
