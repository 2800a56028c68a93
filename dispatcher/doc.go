// Package dispatcher runs the handlers of messages in parallel, and those of
// conflicting messages in order.
//
// A message declares the resources it needs as keys in a tree, such as
// client/42/account/7, and its handler is written as plain single-threaded
// code. Messages whose keys conflict (one key contains the other, and they are
// not both shared) run one after the other in the order in which they were
// submitted; all others run side by side on a pool of workers. See package
// lockkeys for keys and for the rule.
//
// The method is that of V. S. Kirillov, "Using hierarchical indexing for access
// control to shared resources in microservices" (2024), DOI
// 10.35330/1991-6639-2024-26-2-34-43: one mutex, an ordered set of the keys in
// use, and messages that acquire all their keys in one step or none. The policy
// [HeadOnly] is the algorithm of that paper; [LookAhead], the default, also
// starts messages that HeadOnly would leave waiting behind an unrelated one.
//
// # Promises
//
//  1. Exclusive: two handlers whose keys conflict never overlap, whatever
//     fails, is retried or times out.
//  2. Ordered: conflicting messages run in the order in which they were
//     accepted; a retry runs before anything that waited for it.
//  3. Parallel: no worker is idle while a message within the look-ahead window
//     could start; unrelated keys never delay each other.
//  4. Deadlock-free: a message holds all its keys or none.
//  5. Live: every accepted message runs, fails by its policy, is listed as
//     parked or behind a parked one, or is returned by Shutdown; it waits for
//     no more than the conflicting work that came before it.
//  6. Bounded: memory is proportional to the messages in flight, which are
//     bounded by count and, optionally, by bytes; a full queue makes submitters
//     wait. Messages that are parked, or behind a parked one, have a bound of
//     their own: when it is reached, submissions that conflict with them are
//     refused, and all others go on.
//  7. Explained: at any moment Snapshot shows which message holds which keys,
//     which waits for which, and which are parked.
//
// Each has a test of its name. Not promised: messages live in memory only, and
// one that was accepted and has not ended is lost with the process, unless its
// source redelivers it. Order is the order of acceptance by one dispatcher;
// that of two submitters that race is arbitrary.
//
// # How a message moves
//
//	Submit ─▶ keys derived (on the submitter's goroutine)      submit.go
//	   │
//	   ▼
//	intake ─▶ queue: accepted, in order, bounded               intake.go
//	   │
//	   ▼  a worker looks for work, under the mutex
//	admit: any earlier conflicting claim in the set,           admit.go, lockkeys.Set
//	   │   or parked?           │                               apart.go
//	   │ no                     │ yes, within the window
//	   ▼                        ▼
//	running: the handler,     waiting: in its place in the set
//	 outside the mutex          ▲ │ the last one it waited for is gone
//	   │        worker.go       │ ▼
//	   │                        │ ready: next free worker, earliest first
//	   ▼                        │
//	outcome ──▶ retry or held (keys, but no worker),            outcome.go, keep.go,
//	   │        park, widen                                     retry.go, hold.go,
//	   │                                                        park.go, widen.go
//	   ▼
//	completion: OnDone, Do, Ticket
//	   │
//	   ▼
//	release: the claim leaves the set, who waited is woken      release.go
//
// A worker releases one message and takes the next in one critical section. For
// what the mutex guards, and how workers are woken, see [Dispatcher].
//
// # Failures
//
// A handler's error, panic or runtime.Goexit is a failed attempt. There are
// [Config.MaxAttempts] of them, with exponential back-off in between, during
// which the message keeps its keys but no worker. When they are used up, or the
// error is [Permanent], the [FailurePolicy] decides: the message is passed to
// [Config.DeadLetter] and its keys are released; or it is parked, which keeps
// its keys closed while everything unrelated goes on; or the dispatcher stops.
//
// # Chains
//
// Messages that wait for each other, such as deposits to one much-used account, are
// cheaper in one transaction. [Config.Together] runs the handlers of such a chain
// in one unit of work, each message with its own result; [Config.BatchHandler] gets
// the chain in one call. What is not part of the chain is not held up, unless it
// waits for a message of it.
//
// # Asynchronous work
//
// A handler whose work continues in another process, or waits for an answer,
// calls [Hold] and returns: its message keeps its keys, without a worker, until
// it is finished by a call, or by a time limit.
//
// # Measuring
//
// [Config.Measure] tells how long a sample of the messages took, and all that waited.
// Package telemetry makes metrics of that for OpenTelemetry, and of [Dispatcher.Stats].
//
// # Tests
//
// [Touch] finds keys that messages have not declared. Package interlocktest runs
// handlers in all orders that are allowed here, and checks what they touch.
package dispatcher
