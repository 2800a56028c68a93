// Package producer sends messages to the ledger's queue as a service would that
// makes them: numbered, from an outbox in its database.
package producer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// Producer numbers the messages of one input and sends them. What it has of
// them is in an SQLite database, so that it can be cut off at any instant and
// go on. Add is called by one goroutine at a time.
type Producer struct {
	db        *sql.DB
	box       *outbox.Outbox
	streams   lockkeys.Key // below which the messages are numbered
	numbering *numbering.Numbering
	kept      int // messages that are in the database from before
	read      int
}

// MaxStreams is the most streams of a producer. It keeps the numbers of a
// message for everything, which are in a header, within the 128 KiB that
// RabbitMQ has for all headers together.
const MaxStreams = 1000

// table has one row: the input, the streams' key, and how many of the input's
// messages are in the outbox.
const table = `CREATE TABLE IF NOT EXISTS produced (
	id       INTEGER PRIMARY KEY CHECK (id = 1),
	streams  TEXT NOT NULL,
	name     TEXT NOT NULL DEFAULT '',
	size     INTEGER NOT NULL DEFAULT 0, -- of what older programs knew the input by
	digest   TEXT,                       -- likewise; of younger ones, its identity
	messages INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS produced_digests (
	block   INTEGER PRIMARY KEY,
	digests BLOB NOT NULL
)`

// Open opens the database at path and makes it if it is not there. What could
// not be sent is to be tried again: the broker may take it by now.
func Open(ctx context.Context, path string) (_ *Producer, err error) {
	if err := store.Inspect(ctx, path, "produced", "outbox_", "schema_versions", "sqlite_"); err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db, err := connect(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open database %s: %w", path, errors.Join(err, db.Close()))
		}
	}()
	box, err := outbox.New(ctx, db, outbox.SQLite, outbox.Config{})
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, table); err != nil {
		return nil, err
	}
	own, err := lockkeys.New("producer", strings.ToLower(rand.Text()[:10]))
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, `INSERT INTO produced (id, streams) VALUES (1, $1) ON CONFLICT DO NOTHING`, own.String()); err != nil {
		return nil, err
	}
	p := &Producer{db: db, box: box}
	var streams string
	if err := db.QueryRowContext(ctx, `SELECT streams, messages FROM produced`).Scan(&streams, &p.kept); err != nil {
		return nil, err
	}
	if p.streams, err = lockkeys.Parse(streams); err != nil {
		return nil, err
	}
	p.numbering = numbering.NewBounded(p.streams, MaxStreams)
	if err := p.resume(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// resume lets everything be tried again that could not be sent.
func (p *Producer) resume(ctx context.Context) error {
	parked, err := p.box.Parked(ctx)
	for _, e := range parked {
		err = errors.Join(err, p.box.Resume(ctx, e.Event))
	}
	return err
}

func connect(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	options := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	source := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: options.Encode()}
	return sql.Open("sqlite", source.String())
}

// Close closes the database.
func (p *Producer) Close() error { return p.db.Close() }

// Streams is the key below which this database's messages are numbered. No
// other one has it.
func (p *Producer) Streams() lockkeys.Key { return p.streams }

// Kept is how many messages of the input were in the database at the beginning.
func (p *Producer) Kept() int { return p.kept }

// ErrNumbered is returned by [Producer.Add] for a message that has numbers.
var ErrNumbered = errors.New("\"sequence\" is given: a producer numbers the messages itself, leave it out")

// Add takes the next message of the input, which is in the outbox when it
// returns nil.
func (p *Producer) Add(ctx context.Context, m *book.Message) error {
	if len(m.Sequence) > 0 {
		return ErrNumbered
	}
	var claim lockkeys.Claim
	if err := m.Claim(&claim); err != nil {
		return err
	}
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	p.read++
	positions := p.numbering.Next(claim.Requests())
	if p.read <= p.kept {
		return nil
	}
	e := &ordering.Event{ID: fmt.Sprintf("%s/%d", p.streams, p.read), Type: string(m.Op), Payload: payload}
	return p.enqueue(ctx, e, positions)
}

// enqueue puts an event into the outbox, which gives it its numbers, and counts
// it.
func (p *Producer) enqueue(ctx context.Context, e *ordering.Event, positions []ordering.Position) error {
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	var streams []lockkeys.Key
	for _, at := range positions {
		streams = append(streams, at.Stream)
	}
	e, err = p.box.Enqueue(ctx, tx, e, streams...)
	if err != nil {
		return err
	}
	if !slices.Equal(e.Positions, positions) {
		return errOthers
	}
	counted, err := tx.ExecContext(ctx, `UPDATE produced SET messages = $1 WHERE messages = $1 - 1`, p.read)
	if err != nil {
		return err
	}
	if n, err := counted.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errOthers, err)
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	p.box.Notify()
	return nil
}

var errOthers = errors.New("another program adds messages to the database")

// Relay sends what is in the outbox, until ctx ends.
func (p *Producer) Relay(ctx context.Context, publisher outbox.Publisher, logger *slog.Logger) error {
	relay, err := outbox.NewRelay(p.box, publisher, outbox.RelayConfig{Backoff: dispatcher.Backoff{Max: 2 * time.Second}, Logger: logger})
	if err != nil {
		return err
	}
	return relay.Run(ctx)
}

// Settle waits until everything that was added is confirmed. It gives up when
// something cannot be sent, or ctx ends.
func (p *Producer) Settle(ctx context.Context) error {
	for {
		parked, err := p.box.Parked(ctx)
		if err != nil {
			return err
		}
		if len(parked) > 0 {
			return fmt.Errorf("message %s cannot be sent: %s: start it again when the broker takes it", parked[0].Event, parked[0].Error)
		}
		stats, err := p.box.Stats(ctx)
		if err != nil || stats.Unsent == 0 {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
