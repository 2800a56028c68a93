// Package parking measures what it costs to park a stream beside many that are
// parked already, to close many gaps at once, and to park and resume many streams.
//
//	go test -bench . -benchtime 1x ./parking
//	go run ./cmd/targets          beside all other targets
package parking
