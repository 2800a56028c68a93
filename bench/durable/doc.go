// Package durable measures the cost of exactly-once, crash-safe effects: a ledger
// of transfers and deposits in a database, written by plain loops and by the
// sequencer with package ordering/sqlstore, in the same run. It also measures the
// cost of the sequencer itself, with a store that does nothing.
//
//	go test -bench . ./durable    for benchstat
//	go run ./cmd/targets          beside all other targets
//	go run ./cmd/report           into RESULTS.md
package durable
