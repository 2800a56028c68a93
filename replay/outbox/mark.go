package outbox

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// maxMarked bounds the events of one statement, within the databases' bounds for arguments:
// receivers that answer all at once may have confirmed very many.
const maxMarked = 8192

// mark marks confirmed events as sent.
func (l *leader) mark(ctx context.Context) error {
	if len(l.confirmed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	if err := l.unflushed(ctx, l.markSent); err != nil {
		return fmt.Errorf("outbox: mark events as sent: %w", err)
	}
	clear(l.confirmed)
	l.confirmed = l.confirmed[:0]
	return nil
}

func (l *leader) markSent(ctx context.Context, db database) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	sent := fmt.Sprintf(`UPDATE outbox_events SET sent = %d WHERE id IN `, time.Now().UnixMicro())
	for some := range slices.Chunk(l.confirmed, maxMarked) {
		ids := "(" + sqldb.Repeat(l.box.dialect, len(some), "?") + ")"
		for _, statement := range []string{`UPDATE outbox_positions SET sent = TRUE WHERE event IN `, sent} {
			if _, err := tx.ExecContext(ctx, statement+ids, some...); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// unflushed runs do with a database whose commits do not wait for the disk, if that is
// possible: marks that are lost in a crash of the machine cost no more than that events
// are sent once more, and while a mark waited for the disk no producer could commit. The
// session of a relay on PostgreSQL is set so for good; see lock. On SQLite, with
// a write-ahead log, it is a connection that is set so for as long as do takes.
func (l *leader) unflushed(ctx context.Context, do func(ctx context.Context, db database) error) error {
	db, ok := l.db.(*sql.DB)
	if !ok || l.box.dialect != SQLite {
		return do(ctx, l.db)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if level, ok := flushes(ctx, conn); ok {
		if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = NORMAL`); err != nil {
			return err
		}
		defer restore(conn, level)
	}
	return do(ctx, conn)
}

// flushes reports whether each commit on a connection waits for the disk though the
// write-ahead log would be sound without, and returns the setting for that.
func flushes(ctx context.Context, conn *sql.Conn) (level int, ok bool) {
	const normal = 1
	var journal string
	err := conn.QueryRowContext(ctx, `PRAGMA journal_mode`).Scan(&journal)
	if err == nil {
		err = conn.QueryRowContext(ctx, `PRAGMA synchronous`).Scan(&level)
	}
	return level, err == nil && journal == "wal" && level > normal
}

// restore undoes the setting of a connection, or closes it.
func restore(conn *sql.Conn, level int) {
	ctx, cancel := context.WithTimeout(context.Background(), databaseTimeout)
	defer cancel()
	if _, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA synchronous = %d`, level)); err != nil {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}
