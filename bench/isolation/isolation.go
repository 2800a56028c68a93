package isolation

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/saga"
)

// Mode is how the sagas are isolated.
type Mode string

// The modes.
const (
	Keep    Mode = "keep"    // a run keeps the key of its resource
	Nothing Mode = "nothing" // it does not
	Flag    Mode = "flag"    // the row says which saga is changing it, and others try again
)

// Modes are all of them.
var Modes = []Mode{Keep, Nothing, Flag}

// resources are few, so that sagas meet.
const resources = 8

// together is the number of sagas under way at a time. With many more, those that find
// flags do nothing but try again.
const together = 64

// one in failing sagas fails in its last step, and is undone.
const failing = 5

// Result is what was counted. Each saga reads its resource twice, adds 1 to what it has
// read first, and is then completed or undone.
type Result struct {
	Mode    Mode
	Sagas   int
	Elapsed time.Duration
	Dirty   int // reads of a value whose saga was undone afterwards
	Lost    int // writes over a value that was not the one that was read
	Fuzzy   int // second reads that found another value than the first
	Wrong   int // what the resources have too much or too little in the end, in all
}

// state is that of a saga: the versions that it has read.
type state struct {
	ID       string `json:"id"`
	Resource int    `json:"resource"`
	Fails    bool   `json:"fails"`
	Value    int    `json:"value"`
	Version  int    `json:"version"`
}

var tables = []string{
	// writer is the saga that has written the value; before has what it has replaced.
	`CREATE TABLE resources (id INTEGER PRIMARY KEY, value INTEGER NOT NULL, version INTEGER NOT NULL, writer TEXT NOT NULL, flag TEXT NOT NULL)`,
	// What was seen, by kind: of a dirty read the saga that had written is looked up in the
	// end.
	`CREATE TABLE seen (reader TEXT NOT NULL, kind TEXT NOT NULL, writer TEXT NOT NULL)`,
}

// errFlagged makes a step try again.
var errFlagged = errors.New("isolation: another saga is changing the resource")

// errRefused is why one in a few sagas is undone.
var errRefused = errors.New("isolation: refused")

// Measure runs a number of sagas in a mode, on SQLite.
func Measure(ctx context.Context, mode Mode, sagas int) (r Result, err error) {
	dir, err := os.MkdirTemp("", "isolation")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "isolation.db"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := store.Migrate(ctx, "isolation", tables); err != nil {
		return r, err
	}
	if err := store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for i := range resources {
			if _, err := tx.ExecContext(ctx, `INSERT INTO resources VALUES ($1, 0, 0, '', '')`, i); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return r, err
	}
	c, err := saga.New(ctx, saga.Config{Store: store, MaxRuns: together, Logger: slog.New(slog.DiscardHandler)}, saga.Register(definition(mode)))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	r = Result{Mode: mode, Sagas: sagas}
	start := time.Now()
	if err := startAll(ctx, store, c, sagas); err != nil {
		return r, err
	}
	for {
		var left int
		if err := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM saga_runs WHERE ended = 0`).Scan(&left); err != nil {
			return r, err
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return r, ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	r.Elapsed = time.Since(start)
	return r, r.count(ctx, store)
}

// startAll starts the sagas, some in each transaction.
func startAll(ctx context.Context, store *sqlstore.Store, c *saga.Coordinator, sagas int) error {
	random := rand.New(rand.NewPCG(1, 2))
	const some = 100
	for first := 0; first < sagas; first += some {
		states := make([]state, min(some, sagas-first))
		for i := range states {
			states[i] = state{ID: fmt.Sprint(first + i), Resource: random.IntN(resources), Fails: random.IntN(failing) == 0}
		}
		if err := store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for _, s := range states {
				if err := c.Start(ctx, tx, s.ID, s); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		c.Notify()
	}
	return nil
}

func definition(mode Mode) saga.Definition[state] {
	read := func(ctx context.Context, tx *sql.Tx, s *state) (value, version int, writer string, err error) {
		var flag string
		err = tx.QueryRowContext(ctx, `SELECT value, version, writer, flag FROM resources WHERE id = $1`, s.Resource).Scan(&value, &version, &writer, &flag)
		if err == nil && mode == Flag && flag != "" && flag != s.ID {
			err = errFlagged
		}
		return value, version, writer, err
	}
	see := func(ctx context.Context, tx *sql.Tx, s *state, kind, writer string) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO seen VALUES ($1, $2, $3)`, s.ID, kind, writer)
		return err
	}
	d := saga.Definition[state]{
		Name: "count", Version: 1,
		Steps: []saga.Step[state]{
			{Name: "read", DoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
				value, version, writer, err := read(ctx, tx, s)
				if err != nil {
					return err
				}
				s.Value, s.Version = value, version
				if mode == Flag {
					if _, err := tx.ExecContext(ctx, `UPDATE resources SET flag = $2 WHERE id = $1`, s.Resource, s.ID); err != nil {
						return err
					}
				}
				return see(ctx, tx, s, "read", writer)
			}, UndoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error { return unflag(ctx, tx, mode, s) }},
			{Name: "read-again", DoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
				_, version, _, err := read(ctx, tx, s)
				if err != nil || version == s.Version {
					return err
				}
				return see(ctx, tx, s, "fuzzy", "")
			}},
			{Name: "write", DoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
				_, version, _, err := read(ctx, tx, s)
				if err != nil {
					return err
				}
				if version != s.Version {
					if err := see(ctx, tx, s, "lost", ""); err != nil {
						return err
					}
				}
				_, err = tx.ExecContext(ctx, `UPDATE resources SET value = $2, version = version + 1, writer = $3 WHERE id = $1`, s.Resource, s.Value+1, s.ID)
				return err
			}, UndoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
				_, err := tx.ExecContext(ctx, `UPDATE resources SET value = value - 1, version = version + 1, writer = '' WHERE id = $1`, s.Resource)
				return err
			}},
			{Name: "finish", DoTx: func(ctx context.Context, tx *sql.Tx, _ saga.Call, s *state) error {
				if s.Fails {
					return dispatcher.Permanent(errRefused)
				}
				return unflag(ctx, tx, mode, s)
			}},
		},
	}
	for i := range d.Steps { // who finds a flag tries again as long as it takes
		d.Steps[i].MaxAttempts = 1 << 30
		d.Steps[i].Backoff = dispatcher.Backoff{Initial: time.Millisecond, Max: 20 * time.Millisecond}
	}
	if mode == Keep {
		d.Kept = []lockkeys.Key{lockkeys.Must("resource")}
		d.Keep = func(s *state, claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("resource", fmt.Sprint(s.Resource)))
			return nil
		}
	}
	return d
}

func unflag(ctx context.Context, tx *sql.Tx, mode Mode, s *state) error {
	if mode != Flag {
		return nil
	}
	_, err := tx.ExecContext(ctx, `UPDATE resources SET flag = '' WHERE id = $1 AND flag = $2`, s.Resource, s.ID)
	return err
}

// count counts what was seen. A read was dirty if the saga whose value it was has been
// undone: those that were completed all the same, and had not ended by then, are not
// counted.
func (r *Result) count(ctx context.Context, store *sqlstore.Store) error {
	for kind, n := range map[string]*int{"fuzzy": &r.Fuzzy, "lost": &r.Lost} {
		if err := store.DB().QueryRowContext(ctx, `SELECT count(*) FROM seen WHERE kind = $1`, kind).Scan(n); err != nil {
			return err
		}
	}
	rows, err := store.DB().QueryContext(ctx, `SELECT writer, count(*) FROM seen WHERE kind = 'read' AND writer <> '' GROUP BY writer`)
	if err != nil {
		return err
	}
	reads := map[string]int{}
	for rows.Next() {
		var writer string
		var n int
		if err := rows.Scan(&writer, &n); err != nil {
			return errors.Join(err, rows.Close())
		}
		reads[writer] = n
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	completed := 0
	random := rand.New(rand.NewPCG(1, 2)) // which draws as in startAll: a saga is undone if it fails
	for i := range r.Sagas {
		random.IntN(resources)
		if random.IntN(failing) == 0 {
			r.Dirty += reads[fmt.Sprint(i)]
		} else {
			completed++
		}
	}
	var sum int
	if err := store.DB().QueryRowContext(ctx, `SELECT sum(value) FROM resources`).Scan(&sum); err != nil {
		return err
	}
	r.Wrong = max(sum-completed, completed-sum)
	return nil
}
