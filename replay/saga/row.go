package saga

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// row is a run as the table has it.
type row struct {
	id         string
	seq        int64
	definition string
	defVersion int
	version    int // the number of its last event
	started    time.Time
	changed    time.Time
	ended      time.Time // zero if it has not
	parked     time.Time // likewise
	deadline   time.Time // zero for none
	keep       []lockkeys.Request
	rec        record
	state      []byte // JSON
}

func (r *row) clone() *row {
	c := *r
	c.rec = r.rec.clone()
	return &c
}

const rowColumns = `id, seq, definition, def_version, version, started, changed, ended, parked, deadline, keep, record, state`

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// rows reads runs: query selects, or returns, rowColumns.
func rows(ctx context.Context, db queryer, query string, args ...any) (list []*row, err error) {
	found, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r row
		var started, changed, ended, parked, deadline int64
		var keep, record, state string
		if err := found.Scan(&r.id, &r.seq, &r.definition, &r.defVersion, &r.version, &started, &changed, &ended, &parked, &deadline, &keep, &record, &state); err != nil {
			return nil, err
		}
		r.started, r.changed, r.ended, r.parked, r.deadline = fromMicros(started), fromMicros(changed), fromMicros(ended), fromMicros(parked), fromMicros(deadline)
		r.state = []byte(state)
		if err := json.Unmarshal([]byte(record), &r.rec); err != nil {
			return nil, fmt.Errorf("run %.80q: record: %w", r.id, err)
		}
		if r.keep, err = parseClaim(keep); err != nil {
			return nil, fmt.Errorf("run %.80q: keys: %w", r.id, err)
		}
		list = append(list, &r)
	}
	return list, found.Err()
}

// kept is a key of a claim in the table.
type kept struct {
	Key    string `json:"key"` // without it, the root
	Shared bool   `json:"shared,omitempty"`
}

func formatClaim(claim []lockkeys.Request) (string, error) {
	list := make([]kept, len(claim))
	for i, q := range claim {
		list[i] = kept{q.Key.String(), q.Mode == lockkeys.Shared}
	}
	text, err := json.Marshal(list)
	return string(text), err
}

func parseClaim(text string) ([]lockkeys.Request, error) {
	var list []kept
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	claim := make([]lockkeys.Request, len(list))
	for i, k := range list {
		key, err := lockkeys.Parse(k.Key)
		if err != nil {
			return nil, err
		}
		claim[i] = lockkeys.Request{Key: key, Mode: lockkeys.Exclusive}
		if k.Shared {
			claim[i].Mode = lockkeys.Shared
		}
	}
	return claim, nil
}

// update writes a run whose version was expected until now, and adds to its history.
func update(ctx context.Context, tx *sql.Tx, coordinator string, r *row, expected int, entries []Entry) error {
	record, err := json.Marshal(&r.rec)
	if err != nil {
		return err
	}
	done, err := tx.ExecContext(ctx, `UPDATE saga_runs SET definition = $4, def_version = $5, status = $6, ended = $7, parked = $8, failing = $9,
			version = $10, changed = $11, record = $12, state = $13
		WHERE coordinator = $1 AND id = $2 AND version = $3`,
		coordinator, r.id, expected, r.definition, r.defVersion, int64(r.rec.Status), toMicros(r.ended), toMicros(r.parked), r.rec.failing(),
		r.version, toMicros(r.changed), string(record), string(r.state))
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return errStale
	}
	return addHistory(ctx, tx, coordinator, r.id, entries)
}

// addHistory adds to the history of a run, in one statement.
func addHistory(ctx context.Context, tx *sql.Tx, coordinator, id string, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	const columns = 8
	args := []any{coordinator, id}
	var b strings.Builder
	b.WriteString(`INSERT INTO saga_history (coordinator, id, n, type, at, step, attempt, error, operator, why) VALUES `)
	for i, e := range entries {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("($1, $2")
		for c := range columns {
			b.WriteString(", $" + strconv.Itoa(3+columns*i+c))
		}
		b.WriteString(")")
		args = append(args, e.N, e.Type, toMicros(e.Time), e.Step, e.Attempt, e.Error, e.Operator, e.Why)
	}
	_, err := tx.ExecContext(ctx, b.String(), args...)
	return err
}

// history reads the history of a run.
func history(ctx context.Context, db queryer, coordinator, id string) (list []Entry, err error) {
	found, err := db.QueryContext(ctx, `SELECT n, type, at, step, attempt, error, operator, why FROM saga_history
		WHERE coordinator = $1 AND id = $2 ORDER BY n`, coordinator, id)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var e Entry
		var at int64
		if err := found.Scan(&e.N, &e.Type, &at, &e.Step, &e.Attempt, &e.Error, &e.Operator, &e.Why); err != nil {
			return nil, err
		}
		e.Time = fromMicros(at)
		list = append(list, e)
	}
	return list, found.Err()
}

func toMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// hashOf returns the hash by which a reply is known.
func hashOf(body []byte) []byte {
	h := sha256.Sum256(body)
	return h[:]
}

// text returns a text in a form that every database can store, cut after 4 KiB.
func text(of string) string {
	const most = 4 << 10
	of = of[:min(len(of), most)]
	return strings.ReplaceAll(strings.ToValidUTF8(of, "\uFFFD"), "\x00", "\uFFFD")
}

// isIn reports whether err is one of a list.
func isIn(err error, list ...error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
