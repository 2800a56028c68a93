// Package recovery measures how a sequencer deals with what is missing: many gaps that
// close at once, many streams that are parked and resumed, one more that is parked beside
// many, and a fresh database that gets everything from an outbox.
//
//	go test -run '^$' -bench 'Gaps|Late' -benchtime 1x ./recovery
//	go test -run '^$' -bench Park -benchtime 1000x ./recovery
//	go test -run '^$' -bench Chain -benchtime 1x ./recovery
package recovery
