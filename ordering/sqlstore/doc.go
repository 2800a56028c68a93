// Package sqlstore stores the state of a sequencer in a database, and gives
// handlers a transaction in which their effect and the numbers of their event
// become durable together. So the effect of every event is applied exactly
// once, whenever the process is killed.
//
// Package sqlite opens a store in an SQLite file, which needs no server;
// package postgres opens one in a PostgreSQL database, which several processes
// can share.
//
// # Terms
//
// A store is used in terms, see [ordering.Store]: one at a time for each consumer name
// and partition. Every transaction checks that its term has not ended. Beginning the
// next term waits for the commits already under way; later ones find that their term is
// over. On SQLite the check is one read for each group of commits, before their
// effects. On PostgreSQL it is a read by primary key, under a lock in the server's
// memory, in the call that advances the numbers, after the effect: so an effect that is
// under way when the next term begins is refused, and it keeps its locks until it ends,
// or the server ends the session of a frozen client (see package postgres).
//
// Handlers commit in the term of their job, by [Store.Do], [InTx] or
// [Store.Commit]. Writes that belong to no event belong to no term, see
// [Store.Write], or to one that the caller has begun, see [Store.WriteIn].
//
// # A much-used account
//
// Events that wait for each other, such as deposits to one account, can share a
// transaction: set [ordering.Config].Together to [Store.Together]. Then the costs of
// a transaction, the flush to disk above all, are divided among a chain of them.
//
//	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
//		Store: store, Handler: sqlstore.InTx(store, handle), Together: store.Together,
//	})
//
// It is only for handlers that read and write nothing outside their transaction: the
// effects of earlier events of the chain are not visible elsewhere yet, and if one
// event fails, all is undone and each runs once more by itself.
//
// # Effects that are rows
//
// An effect that only inserts or replaces rows, and reads nothing in its transaction,
// can be given as a [Batch], by [Store.DoRows], and its chain by [Store.TogetherRows]. On
// SQLite the handlers then run side by side and beside the writer, which writes the rows
// of all events in a transaction by a few statements.
//
// # Round trips
//
// On PostgreSQL an event costs the round trips of the statements of its effect, and one
// more for the numbers and the COMMIT. BEGIN is sent with the first statement; with a
// *sql.Tx it takes a round trip of its own if that is a query. With the transaction
// that package postgres has for handlers, statements whose results nobody needs can be
// queued: they cost no round trip. A chain costs the round trips of its statements, and
// one more for all of its events together. A command costs one more, since it is looked
// up first.
//
// If the connection is lost during a COMMIT, a server that has not noticed that may
// still carry it out later. So Look and LookCommands end its session first.
//
// # From outside of the process
//
// An [Operator] reads a store beside the process that works on it, which does not notice, and
// leaves decisions about what is parked as requests: the term that has the stream carries them
// out. A [ReadOnly] only reads. The command replay/interlock-operator is made of these.
//
// # Tables
//
// Their names start with ordering_; in addition there is schema_versions. An older
// schema is migrated when the database is opened; its contents belong to the consumer
// "default". Programs of the older version must have ended by then: their writes fail.
// On PostgreSQL there are also functions whose names start so.
//
// Numbers in the tables are places: number 5 of epoch 2 is 200000000000005, see
// [ordering.Position.Place].
package sqlstore
