// Package durable measures what it costs that an effect is applied exactly
// once and survives a crash: a ledger of transfers and deposits in a database,
// by plain loops and by the sequencer with package ordering/sqlstore, side by
// side in one run. It also measures what the sequencer itself costs, with a
// store that does nothing.
//
//	go test -bench . ./durable    for benchstat
//	go run ./cmd/targets          beside all other targets
//	go run ./cmd/report           into RESULTS.md
package durable
