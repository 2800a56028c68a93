// Package eventlog is an event log on SQLite or PostgreSQL: events are appended to
// streams in the transaction of the caller, on condition that the streams are where
// the caller has read them; read by stream, in a global order, by type, by
// correlation, or as of a time; and followed by subscriptions that handle the entries
// of different streams in parallel, each exactly once.
//
//	log, err := eventlog.New(ctx, store.DB(), eventlog.SQLite, eventlog.Config{})
//	…
//	at, err := log.Version(ctx, order)
//	… // read, decide
//	err = store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
//		… // the caller's own changes
//		_, err := log.Append(ctx, tx, []*ordering.Event{e}, at)
//		return err
//	})
//	log.Notify()
//
// # One log, one way in
//
// The log keeps its events in the tables of an outbox, see package outbox: each body
// once. The version of an event is its number on a stream, as the outbox gives it.
// With [Config.Sent] a relay of [Log.Outbox] sends them to receivers, and is one more
// reader of the log, with its own marks of what is sent; an event can also be fetched
// from it again. An event may be on several streams: a transfer between two accounts
// is one entry with a version on each.
//
// # What is promised
//
//   - Versions of a stream, and places in a partition of the log, have no holes: 1, 2,
//     3 and so on, in each epoch.
//   - The order of places is the order of the commits. A reader that sees an entry sees
//     all before it, so none has to be guessed at, waited for, or is skipped. That is
//     since the head of a partition stays locked from an append to the end of its
//     transaction. It costs that: on PostgreSQL the appends to one partition are
//     committed one after the other. If that is too slow, append several events at a
//     time, or have more partitions.
//   - What an append expects of streams, whether it writes them or only reads them, is so
//     until its commit: of two that expect the same, and each write one of these streams, at
//     most one is committed; the other gets a [*VersionError].
//   - An append that is repeated, with the same event IDs, appends nothing.
//   - A subscription handles each entry exactly once, if its handler writes in the
//     transaction of the store, and entries with a stream in common in their order.
//   - An entry that cannot be read is an error for readers, with its place, and parks
//     subscriptions, which is logged. Nothing is passed over.
//
// Entries are kept for ever.
//
// # Read models
//
// A [Subscription] whose handler writes a read model in the store's transaction, see
// [sqlstore.InTx], is a projection: parallel by streams, with its checkpoint in the
// same transaction. [Subscription.Wait] waits until it has come to an entry, so that a
// caller can read what it has written. It is rebuilt from the first entry under a new
// name, beside the one in use: see [Views]. [Subscription.Sequencer] has what operators
// need: what is parked, Resume, Skip, Drop.
//
// A state that is needed for a decision is better read from its stream: [Aggregate]
// does so, with snapshots.
//
// # After a restore from a backup
//
// A log that has lost entries would give their places again. A subscription that is
// ahead of it stops with [ErrAhead], also if new entries have taken the places. Raise
// [Config.Epoch] by one, as for an outbox, before anything is appended: places and
// versions start at 1 again in the new epoch, which comes after all of the old one.
package eventlog
