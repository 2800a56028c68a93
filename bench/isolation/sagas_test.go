package isolation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// mode is how the sagas are isolated.
type mode string

const (
	keep    mode = "keep"    // a run keeps the key of its resource
	nothing mode = "nothing" // it does not
	flag    mode = "flag"    // the row says which saga is changing it, and others try again
)

const (
	resources = 8  // few, so that sagas meet
	together  = 64 // under way at a time; with many more, those that find flags do nothing but try again
	failing   = 5  // one in so many sagas fails in its last step, and is undone
)

// state is that of a saga, which reads its resource twice, adds 1 to what it has read first,
// and is then completed or undone.
type state struct {
	ID       string `json:"id"`
	Resource int    `json:"resource"`
	Fails    bool   `json:"fails"`
	Value    int    `json:"value"`
	Version  int    `json:"version"`
}

// Of a read, seen has the saga that had written what was read.
var tables = []string{
	`CREATE TABLE resources (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, version INTEGER NOT NULL, writer TEXT NOT NULL, flag TEXT NOT NULL)`,
	`CREATE TABLE seen (saga TEXT NOT NULL, kind TEXT NOT NULL, writer TEXT NOT NULL)`,
	`CREATE INDEX seen_kind ON seen (kind, saga)`,
}

// errFlagged makes a step try again.
var errFlagged = errors.New("isolation: another saga is changing the resource")

// errRefused is why a saga is undone.
var errRefused = errors.New("isolation: refused")

// read returns what is in the resource of a saga.
func (m mode) read(ctx context.Context, tx *sql.Tx, s *state) (value, version int, writer string, err error) {
	var by string
	err = tx.QueryRowContext(ctx, `SELECT value, version, writer, flag FROM resources WHERE id = $1`, s.Resource).Scan(&value, &version, &writer, &by)
	if err == nil && m == flag && by != "" && by != s.ID {
		err = errFlagged
	}
	return value, version, writer, err
}

// exec runs a statement on the saga's resource.
func exec(ctx context.Context, tx *sql.Tx, s *state, statement string, args ...any) error {
	_, err := tx.ExecContext(ctx, statement, append([]any{s.Resource}, args...)...)
	return err
}

func see(ctx context.Context, tx *sql.Tx, s *state, kind, writer string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO seen VALUES ($1, $2, $3)`, s.ID, kind, writer)
	return err
}

func (m mode) readFirst(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) (err error) {
	var writer string
	if s.Value, s.Version, writer, err = m.read(ctx, tx, s); err != nil {
		return err
	}
	if m == flag {
		if err := exec(ctx, tx, s, `UPDATE resources SET flag = $2 WHERE id = $1`, s.ID); err != nil {
			return err
		}
	}
	return see(ctx, tx, s, "read", writer)
}

func (m mode) unflag(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
	if m != flag {
		return nil
	}
	return exec(ctx, tx, s, `UPDATE resources SET flag = '' WHERE id = $1 AND flag = $2`, s.ID)
}

func (m mode) readAgain(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
	return m.changed(ctx, tx, s, "fuzzy")
}

// changed notes it if the resource is not as the saga has read it.
func (m mode) changed(ctx context.Context, tx *sql.Tx, s *state, kind string) error {
	_, version, _, err := m.read(ctx, tx, s)
	if err != nil || version == s.Version {
		return err
	}
	return see(ctx, tx, s, kind, "")
}

func (m mode) write(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
	if err := m.changed(ctx, tx, s, "lost"); err != nil {
		return err
	}
	return exec(ctx, tx, s, `UPDATE resources SET value = $2, version = version + 1, writer = $3 WHERE id = $1`, s.Value+1, s.ID)
}

func (m mode) takeBack(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
	if err := see(ctx, tx, s, "undone", ""); err != nil {
		return err
	}
	return exec(ctx, tx, s, `UPDATE resources SET value = value - 1, version = version + 1, writer = '' WHERE id = $1`)
}

func (m mode) finish(ctx context.Context, tx *sql.Tx, call saga.Call, s *state) error {
	if s.Fails {
		return dispatcher.Permanent(errRefused)
	}
	return m.unflag(ctx, tx, call, s)
}

func (m mode) definition() saga.Definition[state] {
	d := saga.Definition[state]{Name: "count", Version: 1, Steps: []saga.Step[state]{
		{Name: "read", DoTx: m.readFirst, UndoTx: m.unflag},
		{Name: "read-again", DoTx: m.readAgain},
		{Name: "write", DoTx: m.write, UndoTx: m.takeBack},
		{Name: "finish", DoTx: m.finish},
	}}
	for i := range d.Steps { // who finds a flag tries again as long as it takes
		d.Steps[i].MaxAttempts = 1 << 30
		d.Steps[i].Backoff = dispatcher.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}
	}
	if m == keep {
		d.Kept = []lockkeys.Key{lockkeys.Must("resource")}
		d.Keep = func(s *state, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("resource", fmt.Sprint(s.Resource)))
			return nil
		}
	}
	return d
}

// result is what was counted.
type result struct {
	dirty int // reads of a value whose saga was undone, then or later
	lost  int // writes over a value that was not the one that was read
	fuzzy int // second reads that found another value than the first
	wrong int // what the resources have too much or too little in the end, in all
}

// run runs a number of sagas on a new SQLite database.
func (m mode) run(t testing.TB, sagas int) (r result, took time.Duration) {
	ctx := t.Context()
	store, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "isolation.db"))
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	require.NoError(t, store.Migrate(ctx, "isolation", tables))
	write := func(each func(ctx context.Context, tx *sql.Tx, i int) error, from, to int) {
		require.NoError(t, store.Write(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			for i := from; i < to && err == nil; i++ {
				err = each(ctx, tx, i)
			}
			return err
		}))
	}
	write(func(ctx context.Context, tx *sql.Tx, i int) error {
		return exec(ctx, tx, &state{Resource: i}, `INSERT INTO resources VALUES ($1, 0, 0, '', '')`)
	}, 0, resources)
	c, err := saga.New(ctx, saga.Config{Store: store, MaxRuns: together, Logger: slog.New(slog.DiscardHandler)}, saga.Register(m.definition()))
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()

	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	const some = 100 // in each transaction
	for from := 0; from < sagas; from += some {
		write(func(ctx context.Context, tx *sql.Tx, i int) error {
			s := state{ID: fmt.Sprint(i), Resource: random.IntN(resources), Fails: random.IntN(failing) == 0}
			return c.Start(ctx, tx, s.ID, s)
		}, from, min(from+some, sagas))
		c.Notify()
	}
	count := func(query string) (n int) {
		require.NoError(t, store.DB().QueryRowContext(ctx, query).Scan(&n))
		return n
	}
	for count(`SELECT count(*) FROM saga_runs WHERE ended = 0`) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	took = time.Since(began)
	r.dirty = count(`SELECT count(*) FROM seen r JOIN seen u ON u.kind = 'undone' AND u.saga = r.writer WHERE r.kind = 'read'`)
	r.lost = count(`SELECT count(*) FROM seen WHERE kind = 'lost'`)
	r.fuzzy = count(`SELECT count(*) FROM seen WHERE kind = 'fuzzy'`)
	completed := sagas - count(`SELECT count(*) FROM seen WHERE kind = 'undone'`)
	sum := count(`SELECT sum(value) FROM resources`)
	r.wrong = max(sum-completed, completed-sum)
	return r, took
}
