package eventlog

import (
	"bytes"
	"compress/flate"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Aggregate is a kind of state that is made of the events of a stream: an order of
// its events, an account of its bookings. Snapshots bound the events that are read
// for it. S must be what JSON can keep. The fields must not be changed once it is in
// use; its methods are safe for concurrent use.
type Aggregate[S any] struct {
	// Log has the events. Required.
	Log *Log
	// Name names the kind of state, and its snapshots. Required.
	Name string
	// Apply returns the state after an event. It must depend on the two alone, and must
	// not change the state that it is given, nor a map or a slice in it: a transaction
	// that is run again begins with the same. Required.
	Apply func(state S, e *ordering.Event) (S, error)
	// Format is the version of S and Apply: raise it when either changes. Snapshots of
	// other formats are passed over. Default: 0.
	Format int
	// Every is the number of events from one snapshot to the next. Default: 100.
	Every int
	// Keep is the number of snapshots of a stream that are kept. Default: 5.
	Keep int
}

// State is the state of a stream at a version.
type State[S any] struct {
	Value S
	// Version is the position of the last event in it; Number is 0 for a stream
	// without events.
	Version ordering.Position
}

// with returns the aggregate with its defaults.
func (a Aggregate[S]) with() (Aggregate[S], error) {
	settings.Default(&a.Every, 100)
	settings.Default(&a.Keep, 5)
	var p settings.Problems
	p.Add(a.Log == nil, "Log is nil: make one with New")
	p.Add(a.Name == "", "Name is empty: name the kind of state")
	p.Add(a.Apply == nil, "Apply is nil")
	p.Add(a.Every < 1, "Every is %d: it must be positive, or 0 for the default", a.Every)
	p.Add(a.Keep < 1, "Keep is %d: it must be positive, or 0 for the default", a.Keep)
	return a, p.Err(ErrConfig)
}

// Load returns the state of a stream: that of its latest snapshot and the events
// behind it. A snapshot that cannot be read is logged and passed over. The error is
// that of Apply, an [*EntryError], or that of the database, or wraps [ErrConfig], or
// [ErrQuery] for the root, which no [Query] asks for as a stream.
func (a Aggregate[S]) Load(ctx context.Context, stream lockkeys.Key) (State[S], error) {
	return a.load(ctx, nil, stream)
}

// LoadIn is Load in a transaction of the caller's, which also sees what has been
// appended in it. On PostgreSQL another transaction may still append before this one
// does, which Append tells.
func (a Aggregate[S]) LoadIn(ctx context.Context, tx *sql.Tx, stream lockkeys.Key) (State[S], error) {
	return a.load(ctx, tx, stream)
}

// load loads the state of a stream in a transaction, or if it is nil, in none.
func (a Aggregate[S]) load(ctx context.Context, tx *sql.Tx, stream lockkeys.Key) (State[S], error) {
	a, err := a.with()
	if err != nil {
		return State[S]{}, err
	}
	if stream.IsRoot() {
		return State[S]{}, fmt.Errorf("%w: %s is loaded of the root: give a stream of its own", ErrQuery, a.Name)
	}
	var db querier = a.Log.db
	if tx != nil {
		db = tx
	}
	state, err := a.latest(ctx, db, stream)
	if err != nil {
		return State[S]{}, fmt.Errorf("eventlog: load %s %.80s: %w", a.Name, stream, err)
	}
	for entry, err := range a.Log.read(ctx, db, Query{Stream: stream, After: state.Version.Place()}) {
		if err != nil {
			return State[S]{}, fmt.Errorf("eventlog: load %s %.80s: %w", a.Name, stream, err)
		}
		if state, err = a.apply(state, entry.Event); err != nil {
			return State[S]{}, err
		}
	}
	return state, nil
}

// apply returns the state after an event of its stream.
func (a Aggregate[S]) apply(state State[S], e *ordering.Event) (State[S], error) {
	at, _ := e.On(state.Version.Stream)
	at.End = false
	value, err := a.call(state.Value, e)
	if err != nil {
		return State[S]{}, fmt.Errorf("eventlog: apply event %.80q, %s, to %s: %w", e.Name(), at, a.Name, err)
	}
	return State[S]{value, at}, nil
}

func (a Aggregate[S]) call(value S, e *ordering.Event) (_ S, err error) {
	defer contain.Recover(&err)
	return a.Apply(value, e)
}

// Append appends events to the stream of a state, and to any others that they are on,
// on condition that the state is still the latest, and returns the state after them:
// see [Log.Append]. Each time that Every events have been passed it adds a snapshot,
// in the same transaction, and deletes older ones but Keep. If Apply refuses one of
// the events, or the snapshot fails, the transaction is rolled back. If the events
// were there already, the state is loaded. With an error it returns the state that it
// was given.
func (a Aggregate[S]) Append(ctx context.Context, tx *sql.Tx, state State[S], events ...*ordering.Event) (State[S], error) {
	a, err := a.with()
	if err != nil {
		return state, err
	}
	stream := state.Version.Stream
	for i, e := range events {
		if e == nil {
			continue // which the log refuses
		}
		if _, on := e.On(stream); !on {
			return state, fmt.Errorf("eventlog: append to %s: the event at index %d is not on %s", a.Name, i, stream)
		}
	}
	appended, err := a.Log.Append(ctx, tx, events, state.Version)
	if err != nil {
		return state, err
	}
	if appended.Repeated {
		return a.LoadIn(ctx, tx, stream)
	}
	after := state
	for _, entry := range appended.Entries {
		if after, err = a.apply(after, entry.Event); err != nil {
			_ = tx.Rollback()
			return state, err
		}
	}
	if every := uint64(a.Every); after.Version.Place()/every > state.Version.Place()/every {
		if err := a.save(ctx, tx, after); err != nil {
			_ = tx.Rollback()
			return state, fmt.Errorf("eventlog: snapshot of %s %.80s: %w", a.Name, stream, err)
		}
	}
	return after, nil
}

func (a Aggregate[S]) save(ctx context.Context, tx *sql.Tx, state State[S]) error {
	var body bytes.Buffer
	w, err := flate.NewWriter(&body, flate.BestSpeed)
	if err != nil {
		return err
	}
	if err := errors.Join(json.NewEncoder(w).Encode(state.Value), w.Close()); err != nil {
		return err
	}
	stream := state.Version.Stream.String()
	if _, err := tx.ExecContext(ctx, `INSERT INTO eventlog_snapshots (name, stream, version, format, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (name, stream, version) DO UPDATE SET format = excluded.format, body = excluded.body`,
		a.Name, stream, int64(state.Version.Place()), a.Format, body.Bytes()); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM eventlog_snapshots WHERE name = $1 AND stream = $2 AND version <
		(SELECT min(version) FROM (SELECT version FROM eventlog_snapshots WHERE name = $1 AND stream = $2 ORDER BY version DESC LIMIT $3) kept)`,
		a.Name, stream, a.Keep)
	return err
}

// latest returns the state of the latest snapshot that can be read, or the zero value.
func (a Aggregate[S]) latest(ctx context.Context, db querier, stream lockkeys.Key) (State[S], error) {
	none := State[S]{Version: ordering.Position{Stream: stream}}
	found, err := db.QueryContext(ctx, `SELECT version, body FROM eventlog_snapshots
		WHERE name = $1 AND stream = $2 AND format = $3 ORDER BY version DESC`, a.Name, stream.String(), a.Format)
	if err != nil {
		return none, err
	}
	defer found.Close()
	for found.Next() {
		var version uint64
		var body []byte
		if err := found.Scan(&version, &body); err != nil {
			return none, err
		}
		state := State[S]{Version: ordering.PositionAt(stream, version)}
		if err := unpack(body, &state.Value); err != nil {
			a.Log.config.Logger.WarnContext(ctx, "eventlog: a snapshot cannot be read and is passed over",
				"name", a.Name, "version", state.Version.String(), "err", err)
			continue
		}
		return state, nil
	}
	return none, found.Err()
}

func unpack(body []byte, value any) error {
	text, err := io.ReadAll(flate.NewReader(bytes.NewReader(body)))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}
