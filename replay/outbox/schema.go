package outbox

import (
	"fmt"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// Dialect says which database it is: [SQLite] or [PostgreSQL].
type Dialect = sqldb.Dialect

// Dialects.
const (
	SQLite     = sqldb.SQLite     // from version 3.35 on
	PostgreSQL = sqldb.PostgreSQL // from version 12 on
)

// ErrSchema is wrapped by the error of New for tables of a newer version; the
// text says what to do.
var ErrSchema = sqldb.ErrSchema

// steps returns the statements that create the tables, for [sqldb.Migrate].
func steps(d Dialect) []string {
	id, own, compact := `BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY`, onPostgreSQL, ""
	if d == SQLite {
		id, own, compact = `INTEGER PRIMARY KEY`, onSQLite, " WITHOUT ROWID"
	}
	steps := make([]string, len(tables))
	for i, table := range tables {
		steps[i] = fmt.Sprintf(table+"%.0[1]s%.0[2]s", d.Text(), id)
	}
	steps = append(steps, own...)
	for _, step := range numbered {
		steps = append(steps, fmt.Sprintf(step+"%.0[1]s%.0[2]s%.0[3]s", d.Text(), id, compact))
	}
	return steps
}

// The steps after tables, which a database has to itself.
var (
	// A body is not text any more.
	onPostgreSQL = []string{
		`ALTER TABLE outbox_events ALTER COLUMN body TYPE BYTEA USING convert_to(body, 'UTF8')`,
		// A stream has a number, see numbered.
		`ALTER TABLE outbox_streams ADD COLUMN id BIGINT GENERATED ALWAYS AS IDENTITY UNIQUE`,
	}
	// SQLite stores any value in any column. There the primary key is the table, instead
	// of an index beside it.
	onSQLite = []string{
		`CREATE TABLE outbox_positions_compact (
			stream TEXT NOT NULL,
			number BIGINT NOT NULL,
			event  BIGINT NOT NULL,
			sent   BOOLEAN NOT NULL DEFAULT FALSE,
			PRIMARY KEY (stream, number)
		) WITHOUT ROWID`,
		`INSERT INTO outbox_positions_compact SELECT stream, number, event, sent FROM outbox_positions`,
		`DROP TABLE outbox_positions`,
		`ALTER TABLE outbox_positions_compact RENAME TO outbox_positions`,
		`CREATE INDEX outbox_positions_event ON outbox_positions (event)`,
		`CREATE INDEX outbox_positions_unsent ON outbox_positions (stream, number) WHERE NOT sent`,
		// A stream has a number, see numbered.
		`CREATE TABLE outbox_streams_numbered (
			id     INTEGER PRIMARY KEY,
			stream TEXT NOT NULL UNIQUE,
			last   BIGINT NOT NULL,
			ended  BIGINT NOT NULL
		)`,
		`INSERT INTO outbox_streams_numbered (stream, last, ended) SELECT stream, last, ended FROM outbox_streams`,
		`DROP TABLE outbox_streams`,
		`ALTER TABLE outbox_streams_numbered RENAME TO outbox_streams`,
	}
	// In a position, stream is the id of the row in outbox_streams. The indexes are there
	// before the rows, and these come in the order of the new key, so that SQLite, which
	// may do so in memory, does not sort a large table.
	numbered = []string{
		`DROP INDEX outbox_positions_event`,
		`DROP INDEX outbox_positions_unsent`,
		`CREATE TABLE outbox_positions_numbered (
			stream BIGINT NOT NULL,
			number BIGINT NOT NULL,
			event  BIGINT NOT NULL,
			sent   BOOLEAN NOT NULL DEFAULT FALSE,
			PRIMARY KEY (stream, number)
		)%[3]s`,
		`CREATE INDEX outbox_positions_event ON outbox_positions_numbered (event)`,
		`CREATE INDEX outbox_positions_unsent ON outbox_positions_numbered (stream, number) WHERE NOT sent`,
		`INSERT INTO outbox_positions_numbered (stream, number, event, sent)
			SELECT s.id, p.number, p.event, p.sent FROM outbox_streams s CROSS JOIN outbox_positions p
			WHERE p.stream = s.stream ORDER BY s.id`,
		`DROP TABLE outbox_positions`,
		`ALTER TABLE outbox_positions_numbered RENAME TO outbox_positions`,
		// In an event log a type has a number too. An event without one has its type in
		// its body.
		`CREATE TABLE outbox_types (
			id   %[2]s,
			name %[1]s NOT NULL UNIQUE
		)`,
		`ALTER TABLE outbox_events ADD COLUMN type BIGINT`,
	}
)

// tables creates the tables of an outbox, as they were at first. Times are in microseconds since 1970.
// Numbers, in all columns, are places, see [ordering.Position.Place]: epoch times
// 100000000000000 plus number.
//
// Invariant: the numbers of a stream that were ever committed are, in each epoch, 1
// to a last one, which is last in the latest epoch, since the row of the stream is
// updated in the transaction that adds the event. The event of a number up to last
// that has none was deleted after its retention. A number in outbox_skipped was
// given up, whether or not its event still exists.
var tables = []string{
	// last is the stream's last number; ended is the same once the event with
	// End is there, and 0 until then.
	`CREATE TABLE outbox_streams (
		stream %[1]s PRIMARY KEY,
		last   BIGINT NOT NULL,
		ended  BIGINT NOT NULL
	)`,
	// body is the event, in the form of package eventbody. Both times are 0 for an event
	// that is never sent, and never deleted. The relay needs the number of
	// streams and the size in bytes before it loads a body.
	`CREATE TABLE outbox_events (
		id      %[2]s,
		name    %[1]s NOT NULL UNIQUE,
		streams BIGINT NOT NULL,
		size    BIGINT NOT NULL,
		created BIGINT NOT NULL,
		sent    BIGINT,
		body    TEXT NOT NULL
	)`,
	`CREATE INDEX outbox_events_sent ON outbox_events (sent, created)`,
	`CREATE TABLE outbox_positions (
		stream %[1]s NOT NULL,
		number BIGINT NOT NULL,
		event  BIGINT NOT NULL,
		sent   BOOLEAN NOT NULL DEFAULT FALSE,
		PRIMARY KEY (stream, number)
	)`,
	`CREATE INDEX outbox_positions_event ON outbox_positions (event)`,
	// Only for the relay: it has no sent events.
	`CREATE INDEX outbox_positions_unsent ON outbox_positions (stream, number) WHERE NOT sent`,
	// The events that relays do not send. One that is nevertheless marked as
	// sent, by another relay, is not parked.
	`CREATE TABLE outbox_parked (
		event    BIGINT PRIMARY KEY,
		attempts BIGINT NOT NULL,
		since    BIGINT NOT NULL,
		error    TEXT NOT NULL
	)`,
	// The numbers that were given up, with the event's name and the error for
	// which it was parked. Their positions are marked as sent.
	`CREATE TABLE outbox_skipped (
		stream %[1]s NOT NULL,
		number BIGINT NOT NULL,
		event  TEXT NOT NULL,
		at     BIGINT NOT NULL,
		error  TEXT NOT NULL,
		PRIMARY KEY (stream, number)
	)`,
	// Who gave it up, and why.
	`ALTER TABLE outbox_skipped ADD COLUMN operator TEXT NOT NULL DEFAULT ''`,
	`ALTER TABLE outbox_skipped ADD COLUMN why TEXT NOT NULL DEFAULT ''`,
	// kept says that the event is never deleted, whatever the Retention of who prunes.
	`ALTER TABLE outbox_events ADD COLUMN kept BOOLEAN NOT NULL DEFAULT FALSE`,
	`CREATE INDEX outbox_events_prunable ON outbox_events (sent) WHERE NOT kept AND sent IS NOT NULL`,
	// Nobody looks for sent events by their time, except those to be deleted.
	`DROP INDEX outbox_events_sent`,
	`CREATE INDEX outbox_events_unsent ON outbox_events (created) WHERE sent IS NULL`,
}
