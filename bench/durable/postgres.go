package durable

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/interlock-go/interlock/internal/pgtest"
	pgstore "github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// MeasurePostgres writes the ledger into a PostgreSQL server of its own, with
// the settings that it comes with: message by message on one connection, by hand
// in groups of 64, also with all statements of a group sent at once, and by the
// sequencer. If distance is not 0, all do so over a link on which a round trip takes
// that much longer, and which limits nothing else.
func MeasurePostgres(ctx context.Context, load Load, workers, rounds, n int, distance time.Duration) (t Throughput, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return t, err
	}
	defer remove()
	t = Throughput{Database: "PostgreSQL", Load: load, Workers: workers, Entries: n, Distance: distance}
	if t.Flush, err = flushCost(dir); err != nil {
		return t, err
	}
	server, err := pgtest.New()
	if err != nil {
		return t, err
	}
	defer server.Close()
	var urls [5]string
	for i := range urls {
		if urls[i], err = server.NewDatabase(); err != nil {
			return t, err
		}
		if distance == 0 {
			continue
		}
		var link *pgtest.Link
		if link, urls[i], err = pgtest.NewLink(urls[i], distance/2); err != nil {
			return t, err
		}
		defer link.Close()
	}
	if t.RoundTrip, err = roundTrip(ctx, urls[0]); err != nil {
		return t, err
	}
	var ours [2]*interlock
	for i := range ours {
		store, err := pgstore.Open(ctx, urls[i])
		if err != nil {
			return t, err
		}
		if i == 0 {
			ours[i], err = newQueueing(ctx, workers, store)
		} else {
			ours[i], err = newInterlock(ctx, postgres, workers, store)
		}
		if err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, ours[i].close()) }()
	}
	var floors [3]*floor
	for i := range floors {
		if floors[i], err = postgresFloor(ctx, urls[len(ours)+i]); err != nil {
			return t, err
		}
		defer func() { err = errors.Join(err, floors[i].close()) }()
	}
	const group = 64
	t.Rows, err = race(ctx, load, rounds, n, []contender{
		{OneByOne, func(ctx context.Context, e []entry) error { return floors[0].run(ctx, e, 1) }, floors[0].db},
		{Interlock, ours[0].run, ours[0].store.DB()},
		{Waiting, ours[1].run, ours[1].store.DB()},
		{ByHand, func(ctx context.Context, e []entry) error { return floors[1].run(ctx, e, group) }, floors[1].db},
		{Pipelined, func(ctx context.Context, e []entry) error { return floors[2].pipeline(ctx, e, group) }, floors[2].db},
	})
	return t, err
}

// roundTrip returns what a statement takes that does nothing, at best.
func roundTrip(ctx context.Context, url string) (least time.Duration, err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	for range 50 {
		began := time.Now()
		if _, err := db.ExecContext(ctx, ""); err != nil {
			return 0, err
		}
		if took := time.Since(began); least == 0 || took < least {
			least = took
		}
	}
	return least, nil
}

func postgresFloor(ctx context.Context, url string) (*floor, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return newFloor(ctx, postgres, db)
}
