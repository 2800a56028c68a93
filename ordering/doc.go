// Package ordering puts events in the order in which their producer numbered
// them, and makes of at-least-once delivery an effect exactly once.
//
// A producer numbers the events of each stream, an order or an account for
// example: 1, 2, 3 and so on. They reach the [Sequencer] late, twice, not at
// all and over several channels, and it has a [Handler] do the work of each of
// them once, in the order of the numbers, on a dispatcher that runs what does
// not conflict side by side.
//
// The method is that of A. Kolodiuk and O. Voloschuk, "Per-order ordered
// parallelism method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213: a queue for each stream that comes and goes
// with its events, a number that is expected next, a grace time for what is
// missing (T_gap), its replay, and job states that outlive the process. New
// here: an event may have a number on several streams, and what the lock keys
// let run side by side does so within a stream as well.
//
// # What becomes of an event
//
//   - Its number is the next one: it is submitted to the dispatcher, and those
//     behind it too, without waiting for its end. Events whose lock keys
//     conflict, by default all of a stream, then run one after the other.
//   - Its number is done already: if it is the event that was done, it is a
//     duplicate, to be acknowledged. If the first copy is still on its way, its
//     outcome is the second one's too.
//   - Its number is done, or is had, by another event, or was skipped: it is
//     refused, loudly, since it can never run.
//   - Its number is a later one: it waits in memory. If what is missing has
//     not come after [Config.GapTimeout], the [Replayer] is asked for it. What
//     never existed, as the source says, is skipped with a record. If nobody
//     knows, [Config.GapPolicy] decides.
//   - It has several numbers: it waits until it is next on all its streams.
//     Events that were numbered so that each waits for the other are found at
//     once and parked, with an error that names them.
//   - It is marked as the last of a stream: the stream's state leaves memory.
//
// # Identity
//
// An event is known by its numbers: a redelivery has the same. Its ID and its
// contents, see [Event.Hash], confirm that it is one. Two events with the same
// number that differ in that, or have other numbers beside it, contradict each
// other: the later one is refused with a [*ConflictError], which is a notice, an
// error in the log, and counted. Events with the same ID and other numbers are
// different events, and run; that is told as [SameID] where it is seen, among the
// last events that came. What is told depends on job states being there: see
// [Config.Retention].
//
// Nothing is told in doubt. A commit may be durable though it seems to have
// failed, and what a sequencer knows of a stream may be older than what another
// holder did with it. So the store is asked before an event is said to be a
// duplicate, a dead letter or refused, and before it is parked or tried again;
// while the store does not answer, all that waits.
//
// # Exactly once
//
// The numbers become done in the [Store] with the handler's success. A handler
// that commits its effect in the same transaction, see package sqlstore, has
// it applied exactly once, whenever the process is killed and however often
// the source delivers. With other handlers the effect is at least once: if the
// process dies between effect and commit, it is applied again.
//
// What is acknowledged is durable: an [Outcome] comes after the commit. All
// that is in memory may be lost at any time, since the source delivers again
// what was not acknowledged, or a replayer has it.
//
// # Parked streams
//
// When an event fails for good, or a gap stays open, its streams are closed
// from there on: later events go to the store, which holds them in order, and
// are acknowledged, so that neither memory nor the source's window fills with
// them. All other streams go on. An event that is held closes its other
// streams too, at its numbers there, since nothing may overtake it; so a
// [Parking] may grow to several streams, and is resumed as one. What is
// missing opens its stream by itself when it comes after all. Everything else
// is for an operator: [Sequencer.Resume], [Sequencer.Skip], [Sequencer.Drop].
//
// # Limits
//
// Order is kept on streams. Events without a stream in common run in the order
// in which they came, if their lock keys conflict, as long as neither waits
// for a gap or is parked. Two processes may hold different streams of one
// store; whoever is offered an event of a stream takes the stream over, with
// those that are parked together with it. The one before can neither commit to
// it nor hold or park anything of it any more, and gives back to the source what
// it has of it. It notices that when it next writes to the stream, or takes an
// event for one behind a gap, which costs up to GapTimeout; where processes take
// turns with a stream, it is quicker to let each begin a turn with a new
// sequencer. That takes over the streams that have held events or are parked for
// a gap, if they are its own; see [Config.Owns].
//
// Streams have holders, lock keys have not: each process knows its own only. If
// one goes on with an event after another has taken over other streams, as one
// does that was frozen meanwhile, their handlers may overlap though their keys
// conflict. Each event is applied once all the same.
package ordering
