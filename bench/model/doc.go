// Package model compares the analytical model of package ordering/model with the sequencer
// itself, in virtual time: Poisson arrivals, random service times, a channel that loses
// events and an unreliable source of replays. Its test prints predictions beside
// measurements:
//
//	go test -count=1 -v -run TestModel ./model -length 1
//
// A handler takes exactly its service time and nothing else takes any time. So the
// measurements depend on the sequencer's scheduling and not on the machine; a seed gives
// the same numbers every time.
//
// The formulas are those of the paper of A. Kolodiuk and O. Voloschuk (DOI
// 10.31673/2412-9070.2025.061213; its equations are in brackets). If nothing else is said,
// exponential handlers of 10 ms in the mean serve 16 streams, half of the time busy, T_gap
// is 200 ms, and replay attempts take 20 ms and succeed with 80 %. After ± is one standard
// error of the measurement, from the differences between streams.
//
// Where it stops to hold: L and W are those of a stream that always finds a free worker.
// Equation 7 leaves out what waits behind a lost event: the one that shows the gap, and on
// a busy stream many more. The formula that counts them (TimeBehindGaps) is good while gaps
// of one stream seldom overlap, so while λ·p_loss·T_recovery is far below 1; at 0.1, in the
// rows with 1 % lost, it is a few percent too high.
//
// With losses in bursts the part that is lost and the recovery time of a gap still come
// out, for a gap is seen once the channel is good again, and is asked for as a whole. For
// the same reason equation 4 fails: it counts an attempt for each lost event where there is
// one for each burst. And both formulas for W fail, one to either side: a burst blocks its
// stream once and not as often as it has events, but its first events also wait for its
// end, and all of them then come at once. What counts is how often outages begin and how
// long they last, which p_loss does not tell. An outage that all streams share hits them
// alike, so there the differences between streams say little about the standard error.
package model
