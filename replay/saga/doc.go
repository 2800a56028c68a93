// Package saga runs sagas: transactions of several steps, here and in other services,
// each of which can be undone. If a step fails, those that were completed are undone in
// reverse order. Sagas are isolated from each other by hierarchical lock keys, and are
// recovered after a crash without replaying anything.
//
//	def := saga.Definition[Checkout]{
//		Name: "checkout", Version: 1, Timeout: 10 * time.Minute,
//		Keep: keepProduct, Kept: []lockkeys.Key{lockkeys.Must("product")}, // from the first step to the end
//		Steps: []saga.Step[Checkout]{
//			{Name: "reserve", DoTx: reserve, UndoTx: release}, // effect and record in one transaction
//			{Name: "pay", Do: pay, Undo: refund, Find: status},
//			{Name: "ship", Do: ship, Pivot: true}, // from here on there is no way back
//		},
//	}
//	c, err := saga.New(ctx, saga.Config{Store: store}, saga.Register(def))
//	err = store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		… // what belongs to it
//		return c.Start(ctx, tx, id, Checkout{…}) // once for each id
//	})
//	c.Notify()
//
// # How a run is kept
//
// A run is a row: its status, that of its steps, the keys that it keeps, its state. Each
// change of it is one transaction with its events, and with the effect of a step with
// DoTx: "n is completed" and "n+1 is started" are one commit. A call elsewhere is made
// after the intent is durable. [Status] and [StepStatus] say what leads to what; the rows
// alone say where a run is, so a new coordinator reads the active ones by one statement,
// and goes on. The history is there to be read.
//
// # What is promised
//
//   - Isolated: from its first step to its end nobody else has what a run keeps: no other
//     run, and no function of [Coordinator.Do]. That outlives crashes: what runs keep
//     is in their rows, and is taken again before anything else begins. Locks are in
//     memory only, so none is left behind.
//   - No deadlock: steps take further keys only where no saga keeps any; see [Roots].
//   - Exactly once: effects of DoTx and UndoTx, whenever the process is killed. Calls
//     elsewhere are made at least once, with an idempotency key, by which [Barrier] does
//     them once, and refuses those that come after their undo.
//   - Whole: every run is completed, compensated, or listed by Parked or Stuck. What is
//     unknown of a call is asked by Find, or it is done again, or undone. Undoing is
//     tried without end, in a context of its own; what can never be undone is parked with
//     its keys, until an operator decides.
//   - Fenced: a coordinator that was taken over changes nothing any more, and stops.
//   - No step stops all others for ever: a run with one that ends the process, each time
//     that it is attempted, is parked; see below.
//   - The database may fail for a while: that uses up no attempts.
//
// Not promised: what a run does is visible to those who take no keys. A coordinator that was
// taken over may still make calls elsewhere, and run functions of Do, at the same time as the
// new one, until it notices: that takes a second, unless it is frozen. A run holds up others that need what it keeps, as long as
// it lasts: keep narrow keys, and none over waits of days.
//
// # What ends the process
//
// A step may end the process in which it is attempted: it takes too much memory, calls
// os.Exit, or crashes in C. The next coordinator takes its run up, first of all, and so it
// goes on. So in a term after one that did not end in good order, see [ordering.TermInfo],
// attempts of the steps that were under way then are counted by a write before they begin,
// [StepSuspected] in their histories, and what is left of the count are those that the
// process has not survived. They run beside each other, and from the third time on one
// after the other, so that those that were only under way beside it are not counted again.
// After [Config.MaxCrashes] of them the run is parked, with its keys, and that is logged as
// an error: Resume has the step attempted anew, Skip takes it as done, Undo turns the run
// back. With the default of 5 the process ends six times: once before anybody could know,
// twice beside others, and three times alone.
//
// An attempt that comes to an end is not counted: by an error, a panic or runtime.Goexit.
// In any other term nothing is counted, and nothing costs anything. Functions that make
// keys, and OnReply, are not counted. Nobody can tell when a process is ended from outside,
// or still runs when its term is taken over: after several power cuts, or take-overs, a
// step may be parked that was attempted alone each time. A clean end in between, see
// [Coordinator.Shutdown], forgets the count.
package saga
