package eventlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// bed is a fresh database with a log, and a table of events as one would write it.
type bed struct {
	dialect eventlog.Dialect
	store   *sqlstore.Store
	log     *eventlog.Log
	close   func() error
}

var dialects = map[string]eventlog.Dialect{"SQLite": eventlog.SQLite, "PostgreSQL": eventlog.PostgreSQL}

func newBed(ctx context.Context, d eventlog.Dialect) (_ *bed, err error) {
	b := &bed{dialect: d}
	dir, err := os.MkdirTemp("", "eventlog")
	if err != nil {
		return nil, err
	}
	b.close = func() error { return os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if d == eventlog.PostgreSQL {
		server, err := pgtest.New()
		if err != nil {
			return nil, err
		}
		remove := b.close
		b.close = func() error { server.Close(); return remove() }
		url, err := server.NewDatabase()
		if err != nil {
			return nil, err
		}
		b.store, err = postgres.Open(ctx, url)
		if err != nil {
			return nil, err
		}
	} else if b.store, err = sqlite.Open(ctx, filepath.Join(dir, "log.db")); err != nil {
		return nil, err
	}
	end := b.close
	b.close = func() error { return errors.Join(b.store.Close(), end()) }
	if b.log, err = eventlog.New(ctx, b.store.DB(), d, eventlog.Config{Prepare: b.store.Prepare}); err != nil {
		return nil, err
	}
	serial := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if d == eventlog.PostgreSQL {
		serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	return b, b.store.Migrate(ctx, "bench", []string{
		`CREATE TABLE events (place ` + serial + `, stream TEXT NOT NULL, version BIGINT NOT NULL, id TEXT NOT NULL UNIQUE,
			type TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL, UNIQUE (stream, version))`,
		`CREATE TABLE effects (place BIGINT PRIMARY KEY, type TEXT NOT NULL)`,
	})
}

// body is what an event of an order system has.
const body = `{"order":"9b2f6c1e","product":"kettle","quantity":2,"price":3990,"currency":"EUR","customer":"4711"}`

// writers append at the same time, each to streams of its own.
const writers = 8

// run calls append n times, by all writers together.
func run(n int, each func(writer, i int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, writers)
	for w := range writers {
		all.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1))
				if i > n {
					return
				}
				errs[w] = each(w, i)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// appendByLog makes n appends of some events to one stream each.
func (b *bed) appendByLog(ctx context.Context, n, some int) error {
	return run(n, func(w, i int) error {
		stream := lockkeys.Must("order", fmt.Sprint(w), fmt.Sprint(i%1000))
		events := make([]*ordering.Event, some)
		for j := range events {
			events[j] = &ordering.Event{Type: "order-placed", Payload: []byte(body), Positions: []ordering.Position{{Stream: stream}}}
		}
		return b.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			_, err := b.log.Append(ctx, tx, events)
			return err
		})
	})
}

// appendByHand does the same with the table, whose order is no order of commits.
func (b *bed) appendByHand(ctx context.Context, n, some int) error {
	versions := make([]map[string]int, writers)
	for w := range versions {
		versions[w] = map[string]int{}
	}
	return run(n, func(w, i int) error {
		stream := fmt.Sprintf("order/%d/%d", w, i%1000)
		version := versions[w][stream]
		versions[w][stream] += some
		return b.store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
			for j := range some {
				_, err := tx.ExecContext(ctx, `INSERT INTO events (stream, version, id, type, at, body) VALUES ($1, $2, $3, $4, $5, $6)`,
					stream, version+j+1, fmt.Sprintf("%d-%d-%d", w, i, j), "order-placed", 1_700_000_000_000_000+i, body)
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}
