package saga_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// waitAtMost is after how long a test that waits counts as hanging, beside whatever else
// the machine does.
const waitAtMost = 2 * time.Minute

// openAt opens a store: a URL is one of PostgreSQL, anything else a path of SQLite.
func openAt(ctx context.Context, where string) (*sqlstore.Store, error) {
	if strings.HasPrefix(where, "postgres") {
		return postgres.Open(ctx, where)
	}
	return sqlite.OpenBeside(ctx, where)
}

// everywhere runs a test on both databases.
func everywhere(t *testing.T, test func(t *testing.T, where string)) {
	t.Run("SQLite", func(t *testing.T) { test(t, filepath.Join(t.TempDir(), "saga.db")) })
	t.Run("PostgreSQL", func(t *testing.T) {
		s, err := server()
		require.NoError(t, err)
		test(t, s.Database(t))
	})
}

// effects is where steps write what they do.
var effects = []string{`CREATE TABLE effects (n INTEGER NOT NULL, saga TEXT NOT NULL, what TEXT NOT NULL)`, `CREATE INDEX effects_saga ON effects (saga, n)`}

func open(t testing.TB, where string) *sqlstore.Store {
	t.Helper()
	store, err := openAt(context.Background(), where)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	require.NoError(t, store.Migrate(context.Background(), "test", effects))
	return store
}

// order is the state of the sagas of the tests.
type order struct {
	Product string
	Log     []string // what the steps did
	Refused string
	Paid    string
}

// write records what a step did, in its transaction.
func write(what string) func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
	return func(ctx context.Context, tx *sql.Tx, call saga.Call, o *order) error {
		o.Log = append(o.Log, what)
		_, err := tx.ExecContext(ctx, `INSERT INTO effects (n, saga, what) VALUES ((SELECT coalesce(max(n), 0) + 1 FROM effects WHERE saga = $1), $1, $2)`, call.Saga, what)
		return err
	}
}

var quick = dispatcher.Backoff{Initial: time.Millisecond, Max: 5 * time.Millisecond}

var errAway = errors.New("away")

func config(store *sqlstore.Store) saga.Config {
	return saga.Config{Store: store, Poll: 10 * time.Millisecond, Logger: testLog,
		StoreBackoff: dispatcher.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}}
}

// coordinator makes one that is closed with the test.
func coordinator(t testing.TB, cfg saga.Config, definitions ...saga.Registered) *saga.Coordinator {
	t.Helper()
	c, err := saga.New(context.Background(), cfg, definitions...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

func start(t testing.TB, c *saga.Coordinator, store *sqlstore.Store, id string, state any) {
	t.Helper()
	require.NoError(t, store.Write(context.Background(), func(ctx context.Context, tx *sql.Tx) error { return c.Start(ctx, tx, id, state) }))
	c.Notify()
}

// until waits for a run to satisfy a condition.
func until(t testing.TB, c *saga.Coordinator, id string, what func(r saga.Run) bool) (run saga.Run) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		run, err = c.Run(context.Background(), id)
		return err != nil || what(run)
	}, waitAtMost, time.Millisecond, "%s", id)
	require.NoError(t, err, "%s", id)
	return run
}

func ended(t testing.TB, c *saga.Coordinator, id string) saga.Run {
	t.Helper()
	return until(t, c, id, func(r saga.Run) bool { return r.Status.Ended() })
}

func has(status saga.Status) func(r saga.Run) bool {
	return func(r saga.Run) bool { return r.Status == status }
}

// effectsOf returns what the steps of a run wrote, in order.
func effectsOf(t testing.TB, store *sqlstore.Store, id string) (list []string) {
	t.Helper()
	rows, err := store.DB().Query(`SELECT what FROM effects WHERE saga = $1 ORDER BY n`, id)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var what string
		require.NoError(t, rows.Scan(&what))
		list = append(list, what)
	}
	require.NoError(t, rows.Err())
	return list
}

// types returns the types of the events of a run.
func types(r saga.Run) (list []string) {
	for _, e := range r.History {
		what := e.Type
		if e.Step != "" {
			what += " " + e.Step
		}
		list = append(list, what)
	}
	return list
}

// product is the key of a product, which orders keep.
func product(name string) lockkeys.Key { return lockkeys.Must("product", name) }

func keepProduct(o *order, claim *lockkeys.Claim) error {
	if o.Product != "" {
		claim.Exclusive(product(o.Product))
	}
	return nil
}

var products = []lockkeys.Key{lockkeys.Must("product")}

// testLog is where coordinators of tests log.
var testLog = slog.New(slog.DiscardHandler)
