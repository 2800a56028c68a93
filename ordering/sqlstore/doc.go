// Package sqlstore keeps what a sequencer must not forget in a database, and
// gives handlers a transaction in which their effect and the numbers of their
// event become durable together. So the effect of every event is applied
// exactly once, whenever the process is killed.
//
// Package sqlite opens a store in an SQLite file, which needs no server;
// package postgres one in a PostgreSQL database, which several processes can
// share.
//
// The tables have names that start with ordering_, and schema_versions.
package sqlstore
