// Package replay gets events again that did not come.
//
// A [Source] has events that were sent before: the producer's outbox or event
// log, a backup channel, a cache, or one of those on another machine through
// package httpreplay. A [Replayer] asks several of them, in order, for what a
// sequencer misses; it is the [ordering.Replayer] of sources that may fail:
//
//	r, err := replay.New(replay.Config{Sources: []replay.NamedSource{
//		{Name: "backup channel", Source: backup, Copy: true},
//		{Name: "event log", Source: log},
//	}})
//	…
//	seq, err := ordering.New(ctx, ordering.Config{Replayer: r, …})
//
// # Attempts
//
// An attempt asks the sources in their order until one has answered. Between
// attempts it waits, longer each time and spread at random. With one source
// whose requests succeed with probability p each, independent of each other,
// and R attempts, a number stays unanswered with probability (1-p)^R after
// (1-(1-p)^R)/p attempts on average; see A. Kolodiuk and O. Voloschuk,
// "Per-order ordered parallelism method in microservice event delivery
// systems" (2025), DOI 10.31673/2412-9070.2025.061213. With several sources,
// 1-p is the product of theirs.
//
// A source may answer for a part of a range. Then the rest is asked for at
// once. Attempts are counted for the first number of each part that is
// missing: what brings that number does not count against those behind it,
// and an answer that passes it over has failed for it.
//
// # Answers
//
// A source is trusted with what it is asked for: each event of an answer must
// have a number of the stream and the range in question, beside any others. An
// answer is refused as a whole, nothing of it is delivered, and the log and the
// error name the source and what it was asked for, if it has an event that was
// not asked for or is not valid, contradicts itself, or is larger than the
// bounds. Events may come in any order, and again. That a number never existed is
// believed of a source that is not a [NamedSource] marked as Copy.
//
// # Sources that fail
//
// Each source has a circuit breaker. When it opens, after some failures in a
// row, the source is not asked for a while, then by one request at a time, and
// as before once one succeeded. An attempt waits until there is a source that
// may be asked, for [Config.MaxWait] at most.
package replay
