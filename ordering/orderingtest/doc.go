// Package orderingtest helps to test the handlers of a sequencer: that each effect is
// applied once, whenever the process ends.
//
// [EachCrash] calls a test once for each moment at which the process may end: before,
// during and after each commit. The test sets up its store and its handler, and
// [Deliver] offers it events as a source would: it redelivers what was not
// acknowledged, to a new sequencer, after the crash. Then the test looks at the
// effects. Any store will do: ordering.NewMemory, or the one that is used in
// production, whose transactions are then tested with the handler.
//
//	orderingtest.EachCrash(t, func(t *testing.T, crash *orderingtest.Crash) {
//		bank := newBank(t)
//		orderingtest.Deliver(t, crash, ordering.Config[Payment]{
//			Store: bank.store, Decode: decode, Handler: sqlstore.InTx(bank.store, bank.pay),
//		}, payments...)
//		require.Equal(t, 100, bank.balance(t))
//	})
//
// A crash ends the use of the store, and not the process: the next term begins, so
// that the store refuses all that the sequencer does from then on, and nobody hears of
// the outcomes of its events. A handler that runs at that moment goes on to its end,
// so what it does outside the store's transactions is done, as it may be in a process
// that is killed.
//
// [NewJob] and [NewCall] make what a handler needs that the test calls by itself.
//
// This is not part of package dispatcher/interlocktest because sequencers are built on
// the dispatcher, and who has no sequencer needs none of it. To find what a
// sequencer's handlers have not declared, set Config.Dispatcher.Touched to
// interlocktest.Touched(t).
package orderingtest
