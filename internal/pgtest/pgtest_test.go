package pgtest_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

func TestALinkCountsRoundTripsAndBreaksBetweenMessages(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	link, url := server.Link(t, server.Database(t))
	open := func() *pgx.Conn {
		conn, err := pgx.Connect(t.Context(), url)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	conn := open()
	_, err := conn.Exec(t.Context(), `CREATE TABLE numbers (n INT)`)
	require.NoError(t, err)
	require.EqualValues(t, 1, link.RoundTrips())
	numbers := func() (n int) {
		require.NoError(t, open().QueryRow(t.Context(), `SELECT count(*) FROM numbers`).Scan(&n))
		return n
	}

	link.BreakAfter(0)
	_, err = conn.Exec(t.Context(), `INSERT INTO numbers VALUES (1)`)
	require.Error(t, err)
	require.False(t, link.Disarm())
	require.Zero(t, numbers())

	conn = open()
	arrive := link.DelayAfter(1)
	_, err = conn.Exec(t.Context(), `INSERT INTO numbers VALUES (1)`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO numbers VALUES (2)`)
	require.Error(t, err)
	require.Equal(t, 1, numbers())
	arrive()
	require.Eventually(t, func() bool { return numbers() == 2 }, 5*time.Minute, time.Millisecond)
	require.False(t, link.Disarm())
	link.BreakAfter(1000)
	require.True(t, link.Disarm())
}

func TestALinkHasALength(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	url, err := server.NewDatabase()
	require.NoError(t, err)
	const way = 20 * time.Millisecond
	link, through, err := pgtest.NewLink(url, way)
	require.NoError(t, err)
	defer link.Close()
	conn, err := pgx.Connect(t.Context(), through)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	began := time.Now()
	_, err = conn.Exec(t.Context(), ``)
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 2*way)
}

func TestALinkIsSlowForAWhile(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	link, url := server.Link(t, server.Database(t))
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	took := func() time.Duration {
		began := time.Now()
		_, err := conn.Exec(t.Context(), ``)
		require.NoError(t, err)
		return time.Since(began)
	}
	const slow = 200 * time.Millisecond
	link.Slow(slow)
	require.GreaterOrEqual(t, took(), slow)
	link.Slow(0)
	require.Eventually(t, func() bool { return took() < slow }, time.Minute, time.Millisecond)
}
