// Package core makes all decisions about events that are numbered on streams.
// It is the protocol of package ordering without goroutine, mutex, clock, store
// or logger, so that a test can run all of it, faults and crashes included, one
// step at a time.
//
// # The path of an event
//
//	Arrived ─▶ arrive.go   its streams are in memory?  no ─▶ Load ─▶ Loaded ─┐
//	              │ ◀────────────────────────────────────────────────────────┘
//	              ├─ a number is done       ─▶ check.go   Look ─▶ Looked ─▶ duplicate, or refused
//	              ├─ a copy is on its way   ─▶ it has that one's outcome
//	              ├─ a stream is closed     ─▶ hold.go    Hold ─▶ HoldDone ─▶ held
//	              ├─ an earlier one missing ─▶ early.go   waits in memory; gap.go asks for what is missing
//	              │                                │ its turn
//	              ▼                                ▼
//	           submit.go   Submit ─▶ the dispatcher: lock keys, worker, run.go ─▶ Ended
//	                                                                           │
//	              ┌─ done: the numbers leave the streams' windows ◀────────────┤
//	              └─ failed: parking.go  the streams close ─▶ Park, Hold ◀─────┘
//	                            │ an operator decides (decision.go), or what is missing comes
//	                            ▼
//	                         Unpark ─▶ feed.go   ReadHeld ─▶ HeldRead: held events arrive again, in order
//
// Every type with states has an enumeration of them, with a table of the
// transitions and the invariants: [EventState], streamState, gapState,
// feedState, parkingState, decisionState, machineState, [RunState].
//
// # Rules
//
// A step never waits. A request to the store is an action, and the answer an
// input. Anything may happen in between, so the code that takes an answer
// checks again whether its reason still exists.
//
// The head of a stream is examined in one place, lookAt. Every change that
// could matter only calls touch, so no path can forget an event whose turn has
// come.
//
// No event waits for ever: each chain of events that wait for each other ends
// at one of the dispatcher, the store, a gap with its timer or replay, or a
// parking.
package core
