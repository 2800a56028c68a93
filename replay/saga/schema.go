package saga

import (
	"slices"

	"github.com/interlock-go/interlock/internal/sqldb"
)

// component is the name of the tables' schema in the store's database.
const component = "interlock/saga"

// BarrierTable creates the table that [Barrier] needs, for a participant's own migrations.
// A coordinator's store has it already.
const BarrierTable = `CREATE TABLE IF NOT EXISTS saga_barrier (
	action TEXT PRIMARY KEY,
	undone BIGINT NOT NULL,
	at     BIGINT NOT NULL
)`

// steps are the steps of the schema.
func steps(d sqldb.Dialect) []string {
	if d == sqldb.SQLite {
		return append(slices.Clip(tables), compactHistory)
	}
	return tables
}

// compactHistory is the step after which on SQLite the key of the history is the table,
// instead of an index beside it.
const compactHistory = `
	CREATE TABLE saga_history_compact (
		coordinator TEXT NOT NULL,
		id          TEXT NOT NULL,
		n           BIGINT NOT NULL,
		type        TEXT NOT NULL,
		at          BIGINT NOT NULL,
		step        TEXT NOT NULL,
		attempt     BIGINT NOT NULL,
		error       TEXT NOT NULL,
		operator    TEXT NOT NULL,
		why         TEXT NOT NULL,
		PRIMARY KEY (coordinator, id, n)
	) WITHOUT ROWID;
	INSERT INTO saga_history_compact SELECT coordinator, id, n, type, at, step, attempt, error, operator, why FROM saga_history;
	DROP TABLE saga_history;
	ALTER TABLE saga_history_compact RENAME TO saga_history`

// tables are the first steps of the schema. Times are in microseconds since 1970.
//
// A run is one row, which each change of it replaces, with version as the expected
// one; the history is only written. So recovery reads what runs are now, by the
// index of active ones: those that the term before had, or nobody yet, have a smaller
// term.
var tables = []string{
	`CREATE TABLE saga_runs (
		coordinator TEXT NOT NULL,
		id          TEXT NOT NULL,
		seq         BIGINT NOT NULL,
		definition  TEXT NOT NULL,
		def_version BIGINT NOT NULL,
		status      BIGINT NOT NULL,
		ended       BIGINT NOT NULL,
		parked      BIGINT NOT NULL,
		failing     BIGINT NOT NULL,
		version     BIGINT NOT NULL,
		term        BIGINT NOT NULL,
		started     BIGINT NOT NULL,
		changed     BIGINT NOT NULL,
		deadline    BIGINT NOT NULL,
		initial     TEXT NOT NULL,
		keep        TEXT NOT NULL,
		record      TEXT NOT NULL,
		state       TEXT NOT NULL,
		PRIMARY KEY (coordinator, id)
	)`,
	`CREATE INDEX saga_runs_active ON saga_runs (coordinator, term, seq) WHERE ended = 0`,
	`CREATE INDEX saga_runs_seq ON saga_runs (coordinator, seq)`,
	`CREATE INDEX saga_runs_ended ON saga_runs (coordinator, ended) WHERE ended > 0`,
	`CREATE TABLE saga_history (
		coordinator TEXT NOT NULL,
		id          TEXT NOT NULL,
		n           BIGINT NOT NULL,
		type        TEXT NOT NULL,
		at          BIGINT NOT NULL,
		step        TEXT NOT NULL,
		attempt     BIGINT NOT NULL,
		error       TEXT NOT NULL,
		operator    TEXT NOT NULL,
		why         TEXT NOT NULL,
		PRIMARY KEY (coordinator, id, n)
	)`,
	BarrierTable,
}
