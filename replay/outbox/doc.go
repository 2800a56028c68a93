// Package outbox is a transactional outbox: a producer's events are numbered
// and stored in the transaction of the change that they report, and sent
// afterwards. So an event exists exactly if its transaction was committed, and
// the numbers of a stream have no gaps. It works on SQLite and PostgreSQL,
// through database/sql, in the producer's own database.
//
//	box, err := outbox.New(ctx, db, outbox.PostgreSQL, outbox.Config{})
//	relay, err := outbox.NewRelay(box, publisher, outbox.RelayConfig{})
//	go relay.Run(ctx)
//	…
//	tx, err := db.BeginTx(ctx, nil)
//	… // the producer's own changes
//	event, err = box.Enqueue(ctx, tx, event, lockkeys.Must("account", "7"))
//	err = tx.Commit()
//	box.Notify() // optional: the relay need not wait for its next poll
//
// # What is promised
//
//   - No gaps: the committed events of a stream have the numbers 1, 2, 3 and so
//     on, in each epoch. A number comes from the stream's own row, updated in the
//     producer's transaction; one that is rolled back gives its number back.
//   - In order: an event is sent after every earlier event of each of its
//     streams was confirmed. The order is that of the numbers. It is not that
//     of a serial ID, since a transaction that began earlier may commit later.
//   - At least once: an event is marked as sent after it was confirmed. If the
//     relay or the database dies in between, it is sent again, with the same ID
//     and numbers; the receiver drops duplicates by their numbers, as an
//     [ordering.Sequencer] does. First deliveries are in order, whatever
//     crashes, and even if two relays run at once.
//   - Independent: a stream whose events cannot be sent waits for its next
//     attempt, or for an operator, while all others go on.
//   - Kept: a sent event is kept for [Config.Retention], and can be asked for
//     again with [Outbox.Fetch], many in one request also where each waits for one on
//     another stream. The last number of a stream is kept for ever.
//
// # Events that cannot be sent
//
// By default an event that fails is tried again for ever, less and less often:
// a queue that is missing today may be declared tomorrow. However many streams
// wait for that, others go on; see [RelayConfig.MaxFailing]. When the
// connection to all receivers is lost, and the publisher reports it, nothing is
// tried until it is back; see [RelayConfig.Alive]. Both are in the log and in
// [RelayStats].
//
// An event is parked instead when its publisher returns an error marked by
// [dispatcher.Permanent], an event larger than the broker takes for example;
// when it has failed [RelayConfig.MaxAttempts] times; or when its row cannot be
// read. All streams
// of a parked event stay closed behind it, whatever comes, so that their order
// is kept. The relay logs it as an error and counts it in [RelayStats];
// [Outbox.Stats] counts what is parked now.
//
// By then it is too late to refuse the change that such an event reports. Use
// [Config.Check] to refuse events that can never be sent in the producer's
// transaction: above all an event whose streams are in two partitions of a
// broker, for which there is rabbitmq.Partitions.Check.
//
// [Outbox.Parked] lists such events. [Outbox.Resume] lets one be tried again,
// [Outbox.Skip] gives one up: its numbers count as never having existed
// from then on, for receivers too, and what is behind it goes on in order.
// [Outbox.Drop] gives up what waits behind it as well. [Outbox.Decisions] lists
// what was given up, by whom and why; see [dispatcher.WithOperator]. All this is in
// the database: it outlives the relay, and an operator's program needs nothing but
// an [Outbox] on the same database.
//
//	list, err := box.Parked(ctx)
//	for _, e := range list {
//		fmt.Println(e.Event, e.Positions, e.Attempts, e.Since, e.Error)
//	}
//	err = box.Skip(dispatcher.WithOperator(ctx, "ann", "case 17"), list[0].Event)
//
// # After a restore from a backup
//
// A database that was restored from a backup has forgotten the last numbers that it
// had given, and would give them again, to other events. Receivers refuse those. So
// whenever the database has gone back in time:
//
//  1. Keep producers and relays stopped until this is done.
//  2. Raise [Config.Epoch] by one, in every process that enqueues, for good: numbers
//     of all streams start at 1 again, in the new epoch, which comes after all of the
//     epochs before for every receiver.
//  3. Start again. What the backup had as not sent is sent first, with its old
//     numbers, and is a duplicate if it had been sent before.
//  4. What was enqueued after the backup was made is gone. Where receivers have it,
//     they keep it; where they have a part of it, with a gap, they ask for the rest,
//     are told that it is not kept, and park the stream: an operator decides there,
//     see [ordering.Sequencer.Skip]. Where they have not seen it, it is refused when
//     it comes after the new epoch has begun, by a slow channel for example.
//
// Receivers log the new epoch, once for each stream, and count what they refuse; see
// [ordering.StaleError].
//
// # What it costs
//
// Producers of one stream wait for each other: from Enqueue to the end of its
// transaction a stream belongs to that transaction. Enqueue late and commit
// soon. On SQLite, where all writers wait for each other anyway, that changes
// nothing. On PostgreSQL, thousands of events on one stream in one transaction
// get slow, since the row of the stream has a version for each.
//
// A relay that looks for work skips over every stream that is parked or fails,
// so tens of thousands of them make it slower.
//
// Enqueue takes the streams of an event in a fixed order, so two of them cannot
// deadlock. A transaction that enqueues several events takes the streams of one
// after the other, and two such transactions can deadlock on PostgreSQL. So take
// the streams of all of them first:
//
//	err = box.Lock(ctx, tx, from, to)
//	… // and then any events on them, in any order
//
// Without that, the server ends one of two deadlocked transactions with an
// error that wraps [ErrConflict]; nothing is lost, and that transaction must be
// run again.
//
// # Databases
//
// SQLite: open it with a busy time-out, with the write-ahead log, and with
// transactions that begin as writers ("_txlock=immediate" of the driver
// modernc.org/sqlite), or a transaction that reads first may fail with
// SQLITE_BUSY. A relay needs no connection of its own. One in another process
// works, but a process that writes without any pause can keep others from the
// write lock for long. Nothing keeps two relays from being active at the same
// time: first deliveries stay in order, but each sends what the other sends.
//
// PostgreSQL: any isolation level; above READ COMMITTED, producers of one
// stream get serialization errors instead of waiting. Of several relays one is
// active, the one that holds an advisory lock, on a connection that it keeps;
// so relays need a direct connection, or a pooler that pools by session: behind
// one that pools by transaction Run ends with [ErrPooled]. For producers such a
// pooler will do. A relay's database must allow two connections.
// When its process or connection dies another takes over. When its machine is
// gone without a word, that is once the server gives the connection up: see
// tcp_keepalives_idle.
package outbox
