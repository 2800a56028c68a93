// Package model compares the analytical model of package ordering/model with
// the sequencer itself: Poisson arrivals, random service times, a channel that
// loses events and an unreliable source of replays. Its table has predictions
// beside measurements.
//
//	go run ./cmd/model    prints the table
//
// Time is virtual (package testing/synctest), so a handler takes exactly its
// service time and nothing else takes any time. So the measurements depend on the
// sequencer's scheduling and not on the machine; a seed gives the same numbers every
// time.
package model
