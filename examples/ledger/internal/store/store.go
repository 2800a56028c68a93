// Package store keeps the book: in memory, or in an SQLite database.
package store

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Store keeps the book. Commit and the reads may be called from many
// goroutines; that no two of them use the same accounts at the same time is up
// to the callers, whose keys see to it.
//
// What a message changes and its place in the journal are committed together,
// so a store that an input is resumed from has to be asked for only one thing:
// [Store.Last].
type Store interface {
	book.Reader
	// Commit makes the changes of one message lasting, all of them or none.
	// When it returns nil they survive a crash, as far as the store can.
	Commit(ctx context.Context, changes *book.Changes) error
	// Last returns the place in the journal of its last message, 0 at first.
	Last(ctx context.Context) (uint64, error)
	// Journal returns the number of messages in the journal.
	Journal(ctx context.Context) (int, error)
	// Accounts lists all accounts that were ever opened, in tree order.
	Accounts(ctx context.Context) ([]book.Account, error)
	// Stats tells how often Commit was made lasting and how many messages
	// that was for.
	Stats() Stats
	// Name says in a few words what the store is.
	Name() string
	// Close ends the use of the store. It waits for commits that have begun.
	Close() error
}

// Stats counts the work of a store.
type Stats struct {
	Commits  int64 // transactions
	Messages int64 // messages in them
}

// InMemory is the name by which [Open] makes a store that ends with it.
const InMemory = "memory"

// Open opens the store of the given name: a path of an SQLite database, which
// is made if it is not there, or [InMemory].
func Open(ctx context.Context, name string) (Store, error) {
	switch name {
	case InMemory:
		return NewMemory(), nil
	case "":
		return nil, fmt.Errorf("store: no name: give the path of a database, or %q", InMemory)
	}
	return OpenSQLite(ctx, name)
}
