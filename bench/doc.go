// Package bench compares Interlock with other ways to hand messages to
// workers, side by side in one run.
//
//	go test -bench .       all contenders, for benchstat
//	go run ./cmd/targets   one line for each target of the project
//	go run ./cmd/report    the full tables, into RESULTS.md
//
// What messages look like is in workload.go, who competes in contender.go.
// Every contender is given the same messages, made before the clock starts, by
// one goroutine, with the same workers and the same bound on what is queued.
// Ratios are of times within one round, so that what disturbs the machine
// disturbs both sides. The floor is a channel read by workers: no contender
// can do less.
//
// It is a module of its own so that the contenders' modules stay out of the
// library's.
package bench
