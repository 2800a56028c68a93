// Package bench compares Interlock with other ways to pass messages to workers, in
// the same run.
//
//	go test -bench .       all contenders, for benchstat
//	go run ./cmd/targets   one line for each target of the project
//	go run ./cmd/report    the full tables, into RESULTS.md
//
// The messages are defined in workload.go, the contenders in contender.go. Every
// contender gets the same messages, made before the clock starts, from one
// goroutine, with the same number of workers and the same bound of the queue.
// Ratios are of times within one round, so that disturbances of the machine affect
// both sides. The floor is a channel read by workers: no contender can do less.
//
// It is a module of its own, to keep the contenders' modules out of the library's.
package bench
