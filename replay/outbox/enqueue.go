package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Enqueue adds an event to the outbox, in the transaction of the change that it
// describes, and returns it with its numbers, the next one on each of its
// streams. They are final once the transaction is committed.
//
// The event's streams are those of its positions, whose numbers must be 0, and
// the additional ones in streams. A position with End makes the event the last
// one of its stream: later ones are refused with [ErrEnded], in a later epoch too.
// An empty ID is replaced by a random one, a zero Time by the current time. event
// is not changed.
//
// After an error the transaction is as it was before the call and can go on,
// unless the database itself failed, or ctx has ended, while it was written: then
// it has been rolled back. The error wraps [ErrNoTx], [ErrNoEvent], [ErrNumbered],
// [ErrEnded], [ErrDuplicateID], [ErrOtherEvent], an [*ordering.EventError], that of
// [Config.Check], or that of the database. If it wraps [ErrConflict], roll the
// transaction back, unless it has been, and run it again.
//
// Until the transaction ends, others that enqueue an event on one of the streams
// wait, in Enqueue. If it enqueues several events, first lock all their streams
// with [Outbox.Lock], or it may deadlock with others. Do not use a transaction on
// several goroutines at the same time.
func (o *Outbox) Enqueue(ctx context.Context, tx *sql.Tx, event *ordering.Event, streams ...lockkeys.Key) (*ordering.Event, error) {
	if tx == nil {
		return nil, ErrNoTx
	}
	e, err := o.prepare(event, streams)
	if err != nil {
		return nil, err
	}
	if _, err := o.enqueue(ctx, tx, []*ordering.Event{e}, nil); err != nil {
		return nil, fmt.Errorf("outbox: enqueue event %.80q: %w", e.ID, err)
	}
	return e, nil
}

// Enqueued is an event that was added to an outbox.
type Enqueued struct {
	Event *ordering.Event // with its numbers
	Row   int64           // its id in the table outbox_events, for tables that refer to it
	Type  int64           // that of its type in the table outbox_types; 0 without [Config.Also]
}

// EnqueueAll adds several events in one step, all or none, as [Outbox.Enqueue] adds
// each of them: in the order given, so that two events on one stream have its next
// two numbers. It takes a few statements for all of them, and locks all their streams
// in a fixed order, so that transactions with one call each cannot deadlock with each
// other.
//
// The expected positions are what the caller has read: the last position of a
// stream, or Number 0 for a stream without events. If one of these streams has moved
// on, nothing is added, and the error is a [*VersionError], which wraps [ErrVersion].
// No one else adds to these streams before the transaction has ended, whether or not
// the events are on them.
//
// Other errors are those of Enqueue. ErrDuplicateID and ErrOtherEvent are also
// returned for two of the events with one ID.
func (o *Outbox) EnqueueAll(ctx context.Context, tx *sql.Tx, events []*ordering.Event, expected ...ordering.Position) ([]Enqueued, error) {
	if tx == nil {
		return nil, ErrNoTx
	}
	ready := make([]*ordering.Event, len(events))
	for i, event := range events {
		var err error
		if ready[i], err = o.prepare(event, nil); err != nil {
			return nil, fmt.Errorf("outbox: enqueue: the event at index %d: %w", i, err)
		}
	}
	if err := distinct(ready); err != nil {
		return nil, fmt.Errorf("outbox: enqueue: %w", err)
	}
	added, err := o.enqueue(ctx, tx, ready, expected)
	if err != nil {
		return nil, fmt.Errorf("outbox: enqueue %d events: %w", len(events), err)
	}
	return added, nil
}

// distinct returns an error for two events with one ID.
func distinct(events []*ordering.Event) error {
	seen := make(map[string]*ordering.Event, len(events))
	for _, e := range events {
		first, is := seen[e.ID]
		if !is {
			seen[e.ID] = e
			continue
		}
		if what := difference(first, e); what != "" {
			return fmt.Errorf("event %.80q: %w: one of the same call: its %s", e.ID, ErrOtherEvent, what)
		}
		return fmt.Errorf("event %.80q: %w: it is there twice", e.ID, ErrDuplicateID)
	}
	return nil
}

// unknown stands for a number that is not assigned yet: the longest one, so that
// limits of size that it meets are met by any number.
const unknown = ordering.MaxNumber

// prepare returns a copy of the event, complete except for its numbers.
func (o *Outbox) prepare(event *ordering.Event, streams []lockkeys.Key) (*ordering.Event, error) {
	if event == nil {
		return nil, ErrNoEvent
	}
	e := *event
	e.Positions = slices.Clone(event.Positions)
	for i, p := range e.Positions {
		if p.Number != 0 || p.Epoch != 0 {
			return nil, fmt.Errorf("%w: %s", ErrNumbered, p)
		}
		e.Positions[i].Epoch, e.Positions[i].Number = o.config.Epoch, unknown
	}
	for _, stream := range streams {
		e.Positions = append(e.Positions, ordering.Position{Stream: stream, Epoch: o.config.Epoch, Number: unknown})
	}
	if e.ID == "" {
		e.ID = rand.Text()
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC().Truncate(time.Microsecond)
	}
	if err := e.Validate(); err != nil {
		return nil, err
	}
	if err := o.config.Check(&e); err != nil {
		return nil, fmt.Errorf("outbox: enqueue event %.80q: refused by Config.Check: %w", e.ID, err)
	}
	return &e, nil
}
