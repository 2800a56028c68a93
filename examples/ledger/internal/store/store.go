// Package store keeps the book: in memory, in an SQLite database, or in a
// PostgreSQL one.
package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/ordering"
)

// Store keeps the book, and beside it which messages are done. Commit and the
// reads may be called from many goroutines; that no two of them use the same
// accounts at the same time is up to the callers, whose keys see to it.
type Store interface {
	book.Reader
	// Numbers keeps which numbers of messages are done.
	Numbers() ordering.Store
	// Commit makes the changes of a message, its entry in the journal and its
	// numbers lasting, all of them or none. When it returns nil they survive
	// a crash, as far as the store can.
	Commit(ctx context.Context, job ordering.Job, changes *book.Changes) error
	// Inputs lists what messages were read from.
	Inputs(ctx context.Context) ([]Input, error)
	// SaveInput keeps an input, a new one if its ID is 0, and returns it with
	// its ID.
	SaveInput(ctx context.Context, in Input) (Input, error)
	// Last returns the number of the journal's last entry, 0 at first.
	Last(ctx context.Context) (int64, error)
	// Journal counts the messages in the journal from after an entry on.
	Journal(ctx context.Context, after int64) (int, error)
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

// Input is something that messages were read from.
type Input struct {
	ID     int64  // from 1
	Name   string // for people
	Size   int64  // bytes that it had when it was last begun; 0 if it cannot be read again
	Digest string // of those bytes
}

// Stats counts the work of a store.
type Stats struct {
	Commits  int64 // transactions
	Messages int64 // messages in them
}

// InMemory is the name by which [Open] makes a store that ends with it.
const InMemory = "memory"

// Open opens the store of the given name: the path of an SQLite database,
// which is made if it is not there; the URL of a PostgreSQL one, which begins
// with postgres://; or [InMemory].
func Open(ctx context.Context, name string) (Store, error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("store: no name: give the path of a database, or %q", InMemory)
	case name == InMemory:
		return NewMemory(), nil
	case IsURL(name):
		return OpenPostgres(ctx, name)
	}
	return OpenSQLite(ctx, name)
}

// IsURL tells whether a store's name is the URL of a PostgreSQL database.
func IsURL(name string) bool {
	return strings.HasPrefix(name, "postgres://") || strings.HasPrefix(name, "postgresql://")
}
