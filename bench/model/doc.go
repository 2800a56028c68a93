// Package model holds the analytical model of package ordering/model against
// the sequencer itself: events that come at random moments, handlers of random
// length, a channel that loses events and a source of replays that sometimes
// answers. What was predicted and what was measured stand side by side.
//
//	go run ./cmd/model    prints the table
//
// Time is virtual (package testing/synctest), so a handler takes exactly as
// long as it says and nothing else takes any time. What is measured is the
// sequencer's order of doing things and not the machine; a seed gives the same
// numbers every time.
package model
