package eventlog

import "fmt"

// steps returns the statements that create the tables, for [sqldb.Migrate]. The number of
// partitions is that of whoever creates them.
func steps(d Dialect, partitions int) []string {
	compact, blob := "", "BYTEA"
	if d == SQLite {
		compact, blob = " WITHOUT ROWID", "BLOB"
	}
	steps := make([]string, len(tables))
	for i, table := range tables {
		steps[i] = fmt.Sprintf(table+"%.0[1]s%.0[2]s%.0[3]s", d.Text(), compact, blob)
	}
	steps = append(steps,
		`CREATE TABLE eventlog_partitions (partitions BIGINT NOT NULL)`,
		fmt.Sprintf(`INSERT INTO eventlog_partitions (partitions) VALUES (%d)`, partitions))
	for _, step := range numbered {
		steps = append(steps, fmt.Sprintf(step+"%.0[1]s%.0[2]s", d.Text(), compact))
	}
	return steps
}

// numbered has the type of an entry as the id of the row in outbox_types, without an index:
// whoever reads some types reads the entries of the partition, which are small. As in the
// outbox, indexes are there before the rows, so that no large table is sorted in memory.
var numbered = []string{
	`INSERT INTO outbox_types (name) SELECT DISTINCT type FROM eventlog_entries WHERE type NOT IN (SELECT name FROM outbox_types)`,
	`DROP INDEX eventlog_entries_event`,
	`DROP INDEX eventlog_entries_type`,
	`DROP INDEX eventlog_entries_correlation`,
	`CREATE TABLE eventlog_entries_numbered (
		log         BIGINT NOT NULL,
		place       BIGINT NOT NULL,
		event       BIGINT NOT NULL,
		at          BIGINT NOT NULL,
		type        BIGINT NOT NULL,
		correlation %[1]s NOT NULL,
		PRIMARY KEY (log, place)
	)%[2]s`,
	`CREATE UNIQUE INDEX eventlog_entries_event ON eventlog_entries_numbered (event)`,
	`CREATE INDEX eventlog_entries_correlation ON eventlog_entries_numbered (correlation, log, place) WHERE correlation <> ''`,
	`INSERT INTO eventlog_entries_numbered (log, place, event, at, type, correlation)
		SELECT x.log, x.place, x.event, x.at, t.id, x.correlation FROM eventlog_entries x CROSS JOIN outbox_types t
		WHERE t.name = x.type ORDER BY x.log, x.place`,
	`DROP TABLE eventlog_entries`,
	`ALTER TABLE eventlog_entries_numbered RENAME TO eventlog_entries`,
}

// tables creates the tables of a log, as they were at first, beside those of its outbox,
// which have the events and the versions of their streams. Times are in microseconds since 1970.
//
// Invariant: the places of a partition (log) that were ever committed are, in each
// epoch, 1 to a last one. The row of the partition in eventlog_heads is updated in the
// transaction that adds the entries, and stays locked until its end: so whoever sees
// an entry sees all before it, and entries are in the order of their commits. Their
// times do not fall.
var tables = []string{
	`CREATE TABLE eventlog_heads (
		log  BIGINT PRIMARY KEY,
		last BIGINT NOT NULL,
		at   BIGINT NOT NULL
	)`,
	// event is the row in outbox_events.
	`CREATE TABLE eventlog_entries (
		log         BIGINT NOT NULL,
		place       BIGINT NOT NULL,
		event       BIGINT NOT NULL,
		at          BIGINT NOT NULL,
		type        %[1]s NOT NULL,
		correlation %[1]s NOT NULL,
		PRIMARY KEY (log, place)
	)%[2]s`,
	`CREATE UNIQUE INDEX eventlog_entries_event ON eventlog_entries (event)`,
	`CREATE INDEX eventlog_entries_type ON eventlog_entries (log, type, place)`,
	`CREATE INDEX eventlog_entries_correlation ON eventlog_entries (correlation, log, place) WHERE correlation <> ''`,
	// States of streams, as of a version of theirs, compressed.
	`CREATE TABLE eventlog_snapshots (
		name    %[1]s NOT NULL,
		stream  %[1]s NOT NULL,
		version BIGINT NOT NULL,
		format  BIGINT NOT NULL,
		body    %[3]s NOT NULL,
		PRIMARY KEY (name, stream, version)
	)%[2]s`,
}
