// Package model predicts how streams of numbered events behave: how long an
// event is in the system, what lost events cost, how many attempts a replay
// needs and how many streams are in memory. It is arithmetic for sizing, and
// needs nothing of the sequencer.
//
// The formulas are those of A. Kolodiuk and O. Voloschuk, "Per-order ordered
// parallelism method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213, called "the paper" below; equation numbers
// are the paper's. Where it is only approximate, there is a second function
// that says what it does better.
//
// # Units and assumptions
//
// Rates are in events per second; probabilities are from 0 to 1; times are
// [time.Duration]. A stream is a queue M/M/1: its events come at random
// moments (Poisson) at the rate arrival, its handlers take times that are
// distributed exponentially and run one after the other, service of them in a
// second if they never had to wait. A stream that has something to do finds a
// free worker: see [Stable] for how many that takes at least, and use
// noticeably more. Losses are independent, but for [Channel].
//
// # Errors
//
// Every function refuses input that makes no sense, NaN and infinity included,
// with an [*InputError] that names it; the error wraps [ErrUnstable] where the
// answer would be infinite. All functions may be called from any number of
// goroutines at once.
package model
