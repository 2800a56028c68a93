package ordering

import (
	"context"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Store keeps what must outlive the process, for any number of consumers: how
// far each stream has come, what became of each event, and the events that are
// held. [NewMemory] makes one that ends with the process; package sqlstore has
// those on SQLite and PostgreSQL.
//
// The methods of a store, of its terms and of its readers may be called from
// any number of goroutines at once. A method that returns an error has changed
// nothing, unless the connection to a database was lost just then. One that is
// called with a context that has ended returns the context's error, and after
// Close [ErrStoreClosed]. Times are kept to the microsecond. The texts of
// errors are any bytes; what a database cannot keep of them is replaced.
//
// # Low mark and done-set
//
// Of a stream the store knows its last number, up to which every number is
// done, and the numbers above it that are done, which are few: events of one
// stream may end out of order if their lock keys let them run side by side. A
// number is done once and for all, whether its event was processed, was given
// up, or never came. Both are kept for ever, even when the stream has ended,
// so a twin that comes after a year is known.
//
// A store keeps an epoch and a number as one, the place of [Position.Place], and
// orders by that; wherever its methods have a number without an epoch, that is a
// place. Numbers that a later epoch has made done are recorded by Skip, in a range
// with Skipped.EndsEpoch; that record too is kept for ever.
//
// # Identity
//
// An event is known by its numbers. Its ID and its [Hash] only confirm that two
// events with the same numbers are one, so any number of events may have one ID.
// Job states are kept by the numbers that an event made done, held events by all
// of theirs.
//
// An event with an ID and no numbers is a command. It is known by its ID, for
// as long as its job state is kept: after that, a twin of it is a new command.
//
// # Fencing
//
// Whoever writes has a term, which [Store.Begin] begins; it ends when the next
// one of the same consumer and partition begins. In its term, Acquire makes the
// caller the holder of a stream and gives it a fencing token that is larger
// than any before; so of two partitions of a consumer only one has a stream.
//
// Every write checks both in the transaction that it writes in. One whose term
// is over, or whose stream another holder has, is refused with an error that
// wraps [ErrFenced], and is a [*TakenOverError] where the store knows by whom.
//
// # Options
//
// A store may have a method MaxHandlers() int, how many handlers it has connections
// for, 0 for any number, and a method Solo() *Solo, see [Solo]. Its terms may implement
// [Requested].
type Store interface {
	// Begin begins a term of a consumer and its partition, and ends the one
	// before. It waits for writes of that term that are under way: once Begin
	// has returned, nothing of it becomes durable any more. The term is durable
	// itself by then.
	Begin(ctx context.Context, c Consumer) (Term, error)

	// Reader returns a view of what is kept for a consumer's name, "" for
	// "default", which takes nothing over: for those who only look.
	Reader(name string) Reader

	// Close ends the use of the store and of its terms, without ending the
	// terms. Commits that have begun are ended first. To close it again is no
	// error.
	Close() error
}

// Reader reads what a [Store] has for a consumer. It needs no term.
type Reader interface {
	// Held returns held events of a stream, from a place on, in order of
	// their places on it, those with the same number as they came: limit of
	// them at most, and no more than have size bytes together, as the store
	// keeps them, but the first in any case.
	Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) ([]HeldEvent, error)

	// Parked lists what is parked, longest first, with streams in order of
	// their keys; of the IDs given only, if there are any. Events are outlines.
	Parked(ctx context.Context, ids ...string) ([]Parking, error)

	// Backlog lists the streams with held events that are not parked, in any
	// order: what a resumption had not come through when the process ended.
	Backlog(ctx context.Context) ([]lockkeys.Key, error)

	// Reached returns the place up to which every number of a stream is done, 0 for a
	// stream without one: what a source that can be read again goes on behind.
	Reached(ctx context.Context, stream lockkeys.Key) (uint64, error)

	// Decisions lists what people decided, newest first: the job states with a
	// JobState.By that ended before a time, or all for the zero time. There are
	// limit of them at most, and beyond that only those that ended at the same
	// moment as the last; so the next page begins before that moment. They
	// are kept as long as job states are.
	Decisions(ctx context.Context, before time.Time, limit int) ([]JobState, error)
}

// Term is the use of a [Store] by one holder, for one consumer and partition.
// What it reads and writes is the consumer's. A stream belongs to the term that
// acquired it last, of whatever partition.
//
// In what follows, an error that wraps [ErrFenced] means that the term is over,
// or that the caller has not the token of each of the streams.
type Term interface {
	Reader

	// Info says which term it is, and what was before it.
	Info() TermInfo

	// End notes that the holder has ended its work in good order, as a clean
	// shutdown does, for the next one's TermInfo.Previous. Writes after that
	// are refused with ErrFenced. To end a term again is no error; if it is
	// over already, the error wraps ErrFenced.
	End(ctx context.Context) error

	// Acquire takes streams over and returns their states, in the order of
	// the streams, none of which is named twice. A stream that the store has
	// not heard of starts at 0. The error may wrap ErrFenced.
	Acquire(ctx context.Context, streams []lockkeys.Key) ([]StreamState, error)

	// Look tells what is known of numbers, for each of the positions, all of
	// one moment. It waits for writes of their streams that are under way, also
	// those of a caller that has lost the connection just then: what Look says is
	// not done will not be made so by a commit that had failed before, for
	// whatever reason. The error may wrap ErrFenced.
	Look(ctx context.Context, positions []Position) ([]NumberState, error)

	// LookCommands returns the job states of commands, for each of the IDs, all
	// of one moment, and nil for those that are not known. It waits as Look
	// does. The error may wrap ErrFenced.
	LookCommands(ctx context.Context, ids []string) ([]*JobState, error)

	// Commit makes all numbers of the record's event done, keeps its job state,
	// and forgets its held copy and its mark if it has them, all or none. For a
	// command it keeps the job state under the ID. When it returns nil that is
	// durable. Calls that come at the same time may share a transaction. The
	// record's term is set to this one.
	//
	// The error wraps [ErrDuplicate] if any of the numbers is done already, or
	// the ID of the command is known, and ErrFenced; if both are so, either one.
	// Look tells then what has made it done. It is a [*LostError] if the store
	// knows less of a stream than Record.Known: it has lost commits. A record
	// is refused without an event, of one with neither numbers nor an ID,
	// without a token for each position, and with a reply beyond [MaxReply].
	Commit(ctx context.Context, r Record) error

	// Mark counts a run of an event that is about to begin, and returns its number:
	// 1 for the first. When most of them, which is 1 or more, are counted already,
	// it counts no more, and returns most + 1: the run is not to begin. What is
	// counted is durable: an event that ends the process each time that it runs is
	// found out by that. An event is known by its numbers, a command by its ID.
	//
	// The count says how many runs have not come to an end. It is forgotten when
	// the event is parked, by a commit with Record.Marked, and by Prune. The error
	// may wrap ErrFenced.
	Mark(ctx context.Context, e *Event, most int) (run int, err error)

	// Unmark takes back what Mark has counted, since the run has come to an end
	// without a commit. It may do so in a term that is over: whoever was taken over
	// is there still. What is not counted is no error.
	Unmark(ctx context.Context, e *Event) error

	// Skip makes numbers of a stream done for which there is no event, and
	// keeps a record of those that it makes so, which Look gives as job states.
	// Numbers that are done already stay so. A range that Skipped.Validate does
	// not take is refused. The error may wrap ErrFenced, and is a [*LostError] as
	// Commit's may be.
	Skip(ctx context.Context, s Skipped) error

	// Hold keeps events that cannot run now, so that the source need not. An
	// event that is held already stays as it is. If one with the same numbers
	// is held that it is not a copy of, see [Event.IsCopy], the error wraps a
	// [*ConflictError]; it may wrap ErrFenced. An event without numbers is
	// refused.
	Hold(ctx context.Context, events []*Event, fences Fences) error

	// Forget forgets the held copy of an event, if there is one, without making
	// any number done. The error may wrap ErrFenced.
	Forget(ctx context.Context, e *Event, fences Fences) error

	// Park closes the streams of each parking at the numbers given, and holds its
	// events, with their attempts: all in one transaction, one parking after the
	// other. What is held already keeps its contents, and an outline is not held
	// anew. If a parking has an error, each of its events gets a failed job state
	// with it that ended at Since, unless its numbers are done. Their marks are
	// forgotten. A parking with the same ID is replaced, but keeps the streams
	// that are not named: so that its growth costs what is added to it.
	//
	// A stream belongs to one parking at most. One that another parking had
	// is taken from it, and a parking that is left without streams is
	// forgotten. One that has none to begin with is refused, and so is one with
	// an event that has no numbers. The error may wrap ErrFenced.
	Park(ctx context.Context, parkings []Parking, fences Fences) error

	// Unpark opens the streams of parkings and forgets those, all in one
	// transaction. Events that are held stay so. An ID that there is no parking
	// for is no error. The error wraps ErrFenced if the caller has not the token
	// of each of the streams, or any other token is not good: with the IDs of
	// parkings that are over, that tells whether the streams are still the
	// caller's.
	Unpark(ctx context.Context, ids []string, fences Fences) error

	// Prune forgets the job states of what ended before a time, and the records
	// of what was skipped, but not for a later epoch, and the marks made before it; for commands there is a
	// time of their own. It returns how many. Job states of failed events of a
	// parking stay while it is there. Streams keep their last numbers. The error
	// may wrap ErrFenced.
	Prune(ctx context.Context, before, commandsBefore time.Time) (int64, error)
}
