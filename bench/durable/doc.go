// Package durable measures the cost of exactly-once, crash-safe effects: a ledger of
// transfers and deposits in a database, written by plain loops and by the sequencer with
// package ordering/sqlstore. It also measures the cost of the sequencer itself, with a
// store that does nothing.
//
//	go test -run '^$' -bench SQLite -benchtime 10000x ./durable
//	go test -run '^$' -bench PostgreSQL -benchtime 1500x ./durable
//	go test -run '^$' -bench Sequencer -benchtime 300000x ./durable
//
// The databases are in the folder for temporary files. It must be on a disk: set TMPDIR
// if it is in memory. The contender "flush", which appends a page to a file and flushes
// it, shows how fast that is.
package durable
