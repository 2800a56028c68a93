// Package ordering puts events in the order in which their producer numbered
// them, and turns at-least-once delivery into exactly-once effects.
//
// A producer numbers the events of each stream, an order or an account for
// example: 1, 2, 3 and so on. They reach the [Sequencer] late, twice, not at
// all and over several channels. It calls a [Handler] for each of them once, in
// the order of the numbers, on a dispatcher that runs events that do not
// conflict in parallel.
//
// The method is that of A. Kolodiuk and O. Voloschuk, "Per-order ordered
// parallelism method in microservice event delivery systems" (2025), DOI
// 10.31673/2412-9070.2025.061213: a queue for each stream that comes and goes
// with its events, the next expected number, a grace time for missing events
// (T_gap), their replay, and job states that outlive the process. New here: an
// event may have a number on several streams, and events of one stream run in
// parallel where the lock keys allow it.
//
// # The path of an event
//
//	source ─▶ Offer (offer.go) ─▶ the core decides ─▶ submitter (submitter.go) ─▶ dispatcher
//	             ▲                     ▲   │                                          │ lock keys
//	             │ replay              │   ├─▶ keeper (keeper.go, storing.go)         ▼
//	             └ (replaying.go) ◀────┼───┤      reads and writes the store       handler, commit (run.go)
//	                                   │   └─▶ outcomes and notices (tell.go)         │
//	                                   └──────────────────────────────────────────────┘ whatever comes of an action
//
// The core, package internal/core, is a state machine without goroutine, clock
// or store: everything that happens is the input of a step, and the step
// returns the actions that follow. Its types have the tables of all states.
//
// # What happens to an event
//
//   - Its number is the next one: it is submitted to the dispatcher, and those
//     behind it too, without waiting for its end. Events whose lock keys
//     conflict, by default all of a stream, then run one after the other.
//   - Its number is already done, by this event: it is a duplicate, to be
//     acknowledged. If the first copy is still in flight, both get the same
//     outcome.
//   - Its number is done or used by another event, or was skipped: it is
//     refused, loudly, since it can never run.
//   - Its number is a later one: it waits in memory. If the missing events have
//     not come after [Config.GapTimeout], the [Replayer] is asked for them.
//     Numbers that never existed, according to the source, are skipped with a
//     record. Otherwise [Config.GapPolicy] decides.
//   - It has several numbers: it waits until it is next on all its streams.
//     Events whose numbers make each wait for the other are detected at once
//     and parked, with an error that names them.
//   - It is marked as the last of a stream: the stream's state leaves memory.
//   - It is of a later epoch, or of an earlier one that is over: see below.
//
// # Epochs
//
// A producer that has lost its numbers, since its database was restored from a
// backup for example, cannot go on where it was: it would give numbers again. So it
// raises the epoch of its positions, see [Position], and starts at number 1 again on
// each stream. All of an epoch comes after all of the epochs before:
//
//   - As long as events of an epoch wait for a gap in it, or are held, or numbers
//     before what is done are missing, later epochs wait behind them, as later
//     numbers do.
//   - Then the first event of a later epoch ends the one before, at once: there is no
//     telling whether a higher number of it is still to come. What is left of it is
//     skipped, with a record, whatever [Config.MaxSkip] is; that is durable before
//     the new epoch begins. It is told as [EpochBegan], logged for each stream, and
//     counted in [Stats]. If the new epoch does not begin with number 1, that is a
//     gap in it.
//   - An event of an epoch that is over is a duplicate if it was done. Otherwise it is
//     refused with a [*StaleError], also after a restart, and after job states were
//     pruned: it is a notice, an error in the log, and counted.
//   - A later epoch opens a stream again that has ended.
//
// On each of its streams an event has an epoch of its own. An epoch cannot be taken
// back.
//
// # Identity
//
// An event is identified by its numbers: a redelivery has the same. Its ID and
// its contents, see [Event.Hash], confirm that. Two events with the same number
// that differ in these, or in their other numbers, contradict each other: the
// later one is refused with a [*ConflictError], reported as a notice, logged as
// an error, and counted. Events with the same ID and other numbers are
// different events, and run; if both came recently, that is reported as
// [SameID]. Contradictions can be detected only while job states are kept: see
// [Config.Retention]. What comes after that with numbers that are done is taken for a
// duplicate, and reported as [Unconfirmed].
//
// No outcome is reported in doubt. A commit may be durable though it seems to
// have failed. So the store is asked before an event is reported as a
// duplicate, dead-lettered or refused, and before it is parked or tried again;
// while the store does not answer, all of these wait.
//
// # Commands
//
// An event with an ID and no numbers is a command, for example a request with
// an idempotency key. It is ordered by its acceptance, on its lock keys,
// together with all other events, and applied once by its ID, however often it
// is sent, also after a restart, for [Config.CommandRetention]. Its handler's
// reply, see [Job.Reply], is stored with its effect, and a repeat gets the same
// reply. The same ID with another payload is refused with a [*ConflictError]; while a
// command is in flight that is not known yet, so others with its ID wait for its end. A
// command that fails for good releases its lock keys: under the policy Park
// nothing is kept of it and a repeat runs again, under DeadLetter a repeat gets
// the stored error, a [*GivenUpError]; [Config.FailureFor] chooses for each.
// [Sequencer.Do] offers a command and waits for the outcome. [Sequencer.Read]
// runs a read-only function under the same lock keys.
//
// # Exactly once
//
// The numbers become done in the [Store] with the handler's success. If a
// handler commits its effect in the same transaction, see package sqlstore, the
// effect is applied exactly once, whenever the process is killed and however
// often the source delivers. With other handlers it is applied at least once:
// if the process dies between effect and commit, it is applied again.
//
// Acknowledged events are durable: an [Outcome] comes after the commit.
// Everything in memory may be lost at any time, since the source redelivers
// unacknowledged events, or a replayer has them.
//
// # Parked streams
//
// When an event fails for good, or a gap stays open, its streams are closed
// from there on: later events go to the store, which holds them in order, and
// are acknowledged, so that neither memory nor the source's window fills with
// them. All other streams go on. An event that is held closes its other streams
// too, at its numbers there, since nothing may overtake it; so a [Parking] may
// grow to several streams, and is resumed as one. If the missing events come
// after all, a parking for a gap is resumed automatically. All other parkings
// need an operator: [Sequencer.Resume], [Sequencer.Skip], [Sequencer.Drop].
//
// A failure spreads: events held behind the failed one close their other
// streams, and so on. With transfers between random accounts, one failure
// eventually closes all accounts. [Config.MaxSpread] bounds that. A parking has
// for each of its streams the event that tied it to the parking, and the number
// of events that wait behind it; it is logged once, and again each time it has
// doubled.
//
// # What ends the process
//
// An event may end the process that handles it: it takes too much memory, calls
// os.Exit, or crashes in C. Its source delivers it again, first of all, and so it
// goes on. So runs are counted in the store before they begin, where it matters, and
// what is left of the count are runs that the process has not survived.
//
// It matters in a term after one that did not end in good order, see [TermInfo]: a
// process that ends in a handler leaves such a term. Then all that comes is suspect
// that may have run: what its source says that it delivers again, see [Delivery], and
// of a source that does not tell, the first 1,000 events that run, also those that a
// replayer brings or the store holds. A suspect costs a write before its run, or a
// share of one, and is forgotten with its commit. It runs beside others. What was
// running, marked, when a process ended, [Config.Dispatcher].Workers events at most,
// runs alone the next time: it waits for all that runs, and all else waits for it. So
// those that only ran beside it are not counted again. After [Config.MaxCrashes] runs
// that did not come to an end it fails for good with a [*CrashError], by its policy:
// it is parked, or a dead letter, or stops all. That is logged, told as what became
// of it, and counted in [Stats].
//
// With the default of 5 the process ends six times: once before anybody could know,
// once beside others, and four times alone.
//
// A run that comes to an end is not counted: by an error, a panic, runtime.Goexit, a
// shutdown, a lost channel, or in a term that another process has taken over, as far
// as the store lets it say so. A store that is away is waited for. In any other term
// nothing is counted, and nothing costs anything.
//
// Nobody can tell when a process is ended from outside: after several power cuts, or
// kills by an operator, an event may be counted that ran alone each time. So Park is
// the policy to choose: Resume has it run anew. Of a command Park keeps nothing: in
// such a term each repeat of it fails, in another one it runs. Choose DeadLetter for
// it, in [Config.FailureFor].
//
// Sequencers that share a [Store] value in one process, of several partitions for
// example, run what they run alone one at a time, see [Solo]. All else of another one
// runs beside it: so if several events end the process, in several partitions, one
// that ran alone in another of them each time may be counted with them.
//
// # An unavailable store
//
// The store's failures are not the event's: they use up no attempt, events
// wait, and so do offers once there are many, which is backpressure for the
// source. Everything goes on when the store is back; after
// [Config.StoreTimeout] the sequencer stops. A store that has lost durable
// data, because an older copy was restored for example, stops it at once, with
// a [*LostError]: after a restart the lost events are requested again, in
// order.
//
// # Words
//
// One word means one thing, in results, statuses, notices and logs:
//
//	applied        the effect is durable, and the numbers are done
//	duplicate      done before, by this event
//	held           kept by the store behind a parked stream, to run later
//	parked         closed for an operator: a stream, with what is held of it
//	dead-lettered  given up with a record, and given to Config.DeadLetter
//	skipped        numbers that were made done without an event
//	refused        contradicts what is done, and can never run
//	unfinished     given back: the sequencer ended first
//	term           the period in which one process works for a consumer and partition
//	Shutdown(ctx) stops now, Drain(ctx) finishes, Close() is Shutdown without a deadline
//
// # Limits
//
// Order is kept on streams. Events without a common stream run in the order of
// arrival if their lock keys conflict and neither waits for a gap or is parked.
//
// # Several processes
//
// A sequencer works in a term of [Config.Consumer], which [New] begins. That
// ends the previous term of the same name and partition: later writes of its
// sequencer are refused with a [*TakenOverError], and that sequencer stops,
// reports the new holder and the time, and returns its events to the source. So
// when processes take turns, each begins its turn with a new sequencer. That
// takes over the streams that have held events or are parked for a gap, if they
// are its own; see [Config.Owns].
//
// Sequencers of different partitions work at the same time, each on its own
// streams. One that is offered an event of another one's stream takes over the
// stream, and the other one stops when it next writes to it: derive the
// partition from the stream's key.
//
// Terms fence writes, not handlers. A handler of a process that was frozen may
// continue at the same time as one of the next term, though their lock keys
// conflict. Its writes in the store's own transaction are refused; other
// effects are not.
package ordering
