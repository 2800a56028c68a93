// Package recovery measures how long a consumer with a fresh database takes to get all
// events from a producer's outbox, if their order can only be found link by link: each
// event waits for the one before, on a stream that no other event has. Both databases
// are SQLite files.
//
//	go test -bench . ./recovery
//	go run ./cmd/targets          beside all other targets
package recovery
