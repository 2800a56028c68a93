// Package store keeps the book: in memory, in an SQLite database, or in a
// PostgreSQL one.
package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
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
	// Commit makes what came of a message and its numbers lasting, all of it or
	// nothing. When it returns nil that survives a crash, as far as the store
	// can. The error wraps [ordering.ErrFenced] once another program has opened
	// the database.
	Commit(ctx context.Context, job ordering.Commitment, r Result) error
	// Known returns what came of the message with an ID, nil if there is none.
	Known(ctx context.Context, id string) (*Known, error)
	// Refuse keeps a refusal of a message whose numbers are not committed with it.
	Refuse(ctx context.Context, r Refusal) error
	// Refusals calls use for the messages of an input that were refused, in the
	// order in which they were; 0 is for those that their senders numbered.
	Refusals(ctx context.Context, input int64, use func(Refusal) error) error
	Inputs
	Checkpoints
	// Holds returns nil while nobody else has opened the database, and then an
	// error that wraps [ordering.ErrFenced].
	Holds(ctx context.Context) error
	// Last returns the numbers of the last entry of the journal, and of the last
	// refusal: 0 at first.
	Last(ctx context.Context) (journal, refusal int64, err error)
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

// Inputs keeps what messages were read from, and what they were.
type Inputs interface {
	// Inputs lists what messages were read from.
	Inputs(ctx context.Context) ([]Input, error)
	// SaveInput keeps an input, a new one if its ID is 0, and returns it with
	// its ID.
	SaveInput(ctx context.Context, in Input) (Input, error)
	// Digests returns a block of the digests of an input's messages, nil if
	// there is none.
	Digests(ctx context.Context, input, block int64) ([]byte, error)
	// SaveDigests keeps a block of digests in the place of the one that was
	// there.
	SaveDigests(ctx context.Context, input, block int64, digests []byte) error
}

// Checkpoints keeps up to where in an input every message has ended.
type Checkpoints interface {
	// Checkpoint returns the checkpoint of an input, nil if there is none.
	Checkpoint(ctx context.Context, input int64) (*Checkpoint, error)
	// SaveCheckpoint keeps a checkpoint in the place of the one that was there;
	// nil forgets that.
	SaveCheckpoint(ctx context.Context, input int64, c *Checkpoint) error
}

// Checkpoint is a place in an input. All messages before it have ended, durably,
// and all were numbered by the ledger.
type Checkpoint struct {
	Messages int64  // before it
	Line     int    // of the last of them
	Place    []byte // where the source goes on, see package feed
	Numbers  []byte // how the numbering goes on, see package numbering
}

// Input is something that messages were read from.
type Input struct {
	ID       int64  // from 1
	Name     string // for people
	Identity string // by which it is found when it is read again; "" if it cannot be
}

// Result is what came of a message: Changes if it was applied, Refusal if it was
// not, and neither if it is a copy by its ID, of which only the numbers are kept.
type Result struct {
	Event   *ordering.Event // the message as it came
	Answer  book.Answer     // what its sender is told; of a copy, what that of the first one was
	Changes *book.Changes
	Refusal *Refusal
	Known   *Known // what is to be kept of the first message with an ID
}

// IsCopy reports whether the message was a copy.
func (r *Result) IsCopy() bool { return r.Changes == nil && r.Refusal == nil }

// Refusal is a message that the book has refused, for good.
type Refusal struct {
	Entry   int64  // its number, from 1; set by [Store.Refusals]
	Event   string // its name, by which its numbers are known
	Input   int64  // that it was read from; 0 if its sender numbered it
	Line    int    // where it stands there; 0 if it has no line
	Message []byte // in its JSON form
	book.Rejection
}

// Known is what is kept of a message with an ID, so that a copy of it gets the
// same answer.
type Known struct {
	ID     string
	Digest string // of what the message says
	Answer book.Answer
}

// Stats counts the work of a store.
type Stats struct {
	Commits  int64 // transactions
	Messages int64 // messages that were applied or refused in them
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
	case otherServer.MatchString(name):
		return nil, errors.New("store: the name is neither a path nor a URL that begins with postgres://")
	}
	return OpenSQLite(ctx, name)
}

// IsURL reports whether a store's name is the URL of a PostgreSQL database.
func IsURL(name string) bool {
	scheme, _, ok := strings.Cut(name, "://")
	return ok && (strings.EqualFold(scheme, "postgres") || strings.EqualFold(scheme, "postgresql"))
}

// otherServer matches what is meant to name a server: a URL, or parameters as
// libpq has them. As a path it would make a file whose name has a password in it.
var otherServer = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*://|(?i)(^|\s)(host|hostaddr|port|dbname|user|password|service)\s*=`)
