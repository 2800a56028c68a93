package saga

import (
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"
)

// maxID bounds the ID of a run, in bytes.
const maxID = 200

// Start starts a run, in the caller's transaction: it exists exactly if that is
// committed, and begins after that, see [Coordinator.Notify]. Its definition is the newest
// one that was registered with the type of state.
//
// It is idempotent by id, 1 to 200 bytes of UTF-8 without control characters, until the run is
// pruned: if there is one with the same ID, definition and initial state, in whatever version and
// status, Start does nothing. States are the same if their JSON is. If it has another
// definition or initial state, the error wraps a [*ConflictError]; it may also wrap [ErrID],
// or be that of Keep, a [*KeysError], or one of the database.
//
// tx belongs to the database of the store. On SQLite it must be one of the store, from
// Do or Write, or from [Coordinator.Write], since others block it.
func (c *Coordinator) Start(ctx context.Context, tx *sql.Tx, id string, state any) error {
	d := c.byType[reflect.TypeOf(state)]
	if d == nil {
		return fmt.Errorf("saga: start of run %.80q: no definition with a state of type %T is registered: register it, and give the state itself, not a pointer to it", id, state)
	}
	if tx == nil {
		return fmt.Errorf("saga: start of run %.80q: the transaction is nil: pass that of the change which the run begins with", id)
	}
	if err := c.start(ctx, tx, d, id, state); err != nil {
		return fmt.Errorf("saga: start of run %.80q, %v: %w", id, d, err)
	}
	return nil
}

func (c *Coordinator) start(ctx context.Context, tx *sql.Tx, d *definition, id string, state any) error {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: it must have 1 to %d bytes of UTF-8, without control characters", ErrID, maxID)
	}
	text, err := encode(state)
	if err != nil {
		return err
	}
	keep, err := d.keep(text)
	if err == nil {
		err = c.roots.checkKept(d.String(), d.kept, keep)
	}
	if err != nil {
		return err
	}
	r := &row{id: id, definition: d.name, defVersion: d.version, version: 1, started: now(), keep: keep, rec: newRecord(d), state: text}
	r.changed = r.started
	if d.timeout > 0 {
		r.deadline = r.started.Add(d.timeout)
	}
	initial := hex.EncodeToString(hashOf(text))
	added, err := insert(ctx, tx, c.cfg.Name, r, initial)
	if err != nil {
		return err
	}
	if !added {
		return c.same(ctx, tx, d, id, initial)
	}
	entry := Entry{N: 1, Type: SagaStarted, Time: r.started}
	if err := addHistory(ctx, tx, c.cfg.Name, id, []Entry{entry}); err != nil {
		return err
	}
	e, err := entry.event(c.cfg.Name, r)
	if err != nil {
		return err
	}
	return c.record(ctx, tx, e)
}

// same returns an error if a run that exists is not the one to be started.
func (c *Coordinator) same(ctx context.Context, tx *sql.Tx, d *definition, id, initial string) error {
	found := ConflictError{ID: id}
	var state string
	err := tx.QueryRowContext(ctx, `SELECT definition, def_version, initial FROM saga_runs WHERE coordinator = $1 AND id = $2`, c.cfg.Name, id).
		Scan(&found.Definition, &found.Version, &state)
	if err != nil {
		return err
	}
	if found.State = found.Definition == d.name; found.State && state == initial {
		return nil
	}
	return &found
}

// insert adds a run, and reports whether there was none with its ID. Its place in the
// order is behind those that are committed; that of two transactions at the same time is
// arbitrary.
func insert(ctx context.Context, tx *sql.Tx, coordinator string, r *row, initial string) (added bool, err error) {
	keep, err := formatClaim(r.keep)
	if err != nil {
		return false, err
	}
	record, err := encode(&r.rec)
	if err != nil {
		return false, err
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO saga_runs (coordinator, id, seq, definition, def_version, status, ended, parked, failing, version, term,
			started, changed, deadline, initial, keep, record, state)
		VALUES ($1, $2, (SELECT coalesce(max(seq), 0) + 1 FROM saga_runs WHERE coordinator = $1), $3, $4, 0, 0, 0, 0, $5, 0, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (coordinator, id) DO NOTHING`,
		coordinator, r.id, r.definition, r.defVersion, r.version, toMicros(r.started), toMicros(r.changed), toMicros(r.deadline), initial, keep, string(record), string(r.state))
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

func newRecord(d *definition) record {
	r := record{Steps: make([]stepRecord, len(d.steps))}
	for i, s := range d.steps {
		r.Steps[i].Name = s.name
	}
	return r
}

// now returns the time as the database keeps it.
func now() time.Time { return fromMicros(time.Now().UnixMicro()) }
