package pgtest_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/internal/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAServerThatIsKilledComesBackWithWhatWasCommitted(t *testing.T) {
	server := pgtest.Start(t)
	db, err := sql.Open("pgx", server.Database(t))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`CREATE TABLE numbers AS SELECT 42 AS n`)
	require.NoError(t, err)
	server.Kill()
	require.Error(t, db.Ping())
	require.NoError(t, server.Restart())
	var n int
	require.NoError(t, db.QueryRow(`SELECT n FROM numbers`).Scan(&n))
	require.Equal(t, 42, n)
}
