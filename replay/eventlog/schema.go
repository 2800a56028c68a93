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
	return append(steps,
		`CREATE TABLE eventlog_partitions (partitions BIGINT NOT NULL)`,
		fmt.Sprintf(`INSERT INTO eventlog_partitions (partitions) VALUES (%d)`, partitions))
}

// tables creates the tables of a log beside those of its outbox, which have the
// events and the versions of their streams. Times are in microseconds since 1970.
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
