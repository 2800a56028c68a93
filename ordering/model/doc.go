// Package model predicts the behaviour of streams of numbered events: the time in
// the system, the cost of lost events, the number of attempts of a replay and the
// number of streams in memory. It is arithmetic for sizing, independent of the
// sequencer.
//
// The formulas are those of A. Kolodiuk and O. Voloschuk, "Per-order ordered
// parallelism method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213, called "the paper" below; equation numbers
// are the paper's. If a formula is only approximate, there is a second function
// that is more exact.
//
// # Units and assumptions
//
// Rates are in events per second; probabilities are from 0 to 1; times are
// [time.Duration]. A stream is an M/M/1 queue: Poisson arrivals at the rate
// arrival, and one handler at a time with exponentially distributed service times,
// at the rate service. A stream with waiting events always finds a free worker: see
// [Stable] for the minimum number, and use noticeably more. Losses are independent,
// except in [Channel].
//
// # Errors
//
// Every function refuses invalid input, including NaN and infinity, with an
// [*InputError] that names it; the error wraps [ErrUnstable] if the answer would be
// infinite. All functions are safe for concurrent use.
package model
