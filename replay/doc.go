// Package replay fetches missing events from their sources.
//
// A [Source] has events that were sent before: the producer's outbox or event
// log, a backup channel, a cache, or one of those on another machine through
// package httpreplay. A [Replayer] asks several of them, in order, for the
// events that a sequencer is missing; it is an [ordering.Replayer] for
// unreliable sources:
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
// An attempt asks the sources in order until one has answered. Between attempts
// there is exponential back-off with jitter. With one source whose requests
// succeed with probability p each, independent of each other, and R attempts, a
// number stays unanswered with probability (1-p)^R after (1-(1-p)^R)/p attempts
// on average; see A. Kolodiuk and O. Voloschuk, "Per-order ordered parallelism
// method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213. With several sources, 1-p is the product of
// theirs.
//
// A source may answer for a part of a range. Then the rest is requested at
// once. Attempts are counted for the first number of each missing part: an
// attempt that brings it does not count for the numbers behind it, and one that
// does not has failed for it.
//
// # Answers
//
// A source is trusted with what it is asked for: each event of an answer must
// have a number of the stream and the range in question, beside any others. Where a
// sequencer finds out only link by link what is missing, it asks for some events
// besides: those that others of the answer wait for, see [Answer].
//
// An answer is refused as a whole if it has an event that was not requested or is
// not valid, contradicts itself, or exceeds the bounds: nothing of it is
// delivered, and the log and the error name the source and the request. Events
// may come in any order, and repeatedly. Only a source that is not marked as
// Copy, see [NamedSource], may say that a number never existed.
//
// # Sources that fail
//
// Each source has a circuit breaker. When it opens, after some failures in a
// row, the source is not asked for a while, then by one request at a time, and
// normally again after one has succeeded. An attempt waits until there is a
// source that may be asked, for [Config.MaxWait] at most.
package replay
