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
// A store is used in terms, see [ordering.Store]: one at a time for each
// consumer name and partition. Every transaction checks that its term has not
// ended. Beginning the next term waits for the transactions already under way,
// including one of a frozen client, until the server ends that (see package
// postgres); later ones find that their term is over. On PostgreSQL the check
// is a read by primary key within the statement that advances the numbers,
// under a lock in the server's memory; on SQLite it is one read for each group
// of commits.
//
// Handlers commit in the term of their job, by [Store.Do], [InTx] or
// [Store.Commit]. Writes that belong to no event, see [Store.Write], belong to
// no term.
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
// # Tables
//
// Their names start with ordering_; in addition there is schema_versions. An
// older schema is migrated when the database is opened; its contents belong to
// the consumer "default". Programs of the older version must have ended by
// then: their writes fail. On PostgreSQL there is also a function,
// ordering_in_term.
//
// Numbers in the tables are places: number 5 of epoch 2 is 200000000000005, see
// [ordering.Position.Place].
package sqlstore
