package feed

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// Schemas of the tables that every way has: the orders of a producer, and what
// they have led to at a consumer. Nothing keeps an effect from being there twice.
const (
	OrdersSchema  = `CREATE TABLE orders (n INTEGER PRIMARY KEY, key INTEGER NOT NULL)`
	EffectsSchema = `CREATE TABLE effects (id INTEGER PRIMARY KEY AUTOINCREMENT, key INTEGER NOT NULL, number INTEGER NOT NULL)`
)

// OpenDB opens a database of a process's own, as careful as that of a store:
// what is committed survives a crash of the machine.
func (c *Child) OpenDB(ctx context.Context, name, schema string) (*sql.DB, error) {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(c.Dir, name)), RawQuery: url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	if _, err = db.ExecContext(ctx, schema); err == nil {
		err = FillLog(ctx, db)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the tables of %s: %w", name, err), db.Close())
	}
	return db, nil
}

// FillLog makes a write-ahead log as long as it gets in the long run. To write
// over it takes a commit less time than to make it longer: the way that writes
// least would be at that for longest.
func FillLog(ctx context.Context, db *sql.DB) error {
	const longest = 1000 * 4096 // pages, of bytes: SQLite's defaults
	_, err := db.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE filler AS SELECT zeroblob(%d); DROP TABLE filler`, longest))
	return err
}

// Place writes an order down, in the transaction that makes it true.
func (o Order) Place(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO orders (n, key) VALUES ($1, $2)`, o.N, o.Key)
	return err
}

// Apply is the effect of an order.
func (o Order) Apply(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO effects (key, number) VALUES ($1, $2)`, o.Key, int64(o.Number))
	return err
}

// InTx runs f in a transaction.
func InTx(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}
