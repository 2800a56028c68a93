package durable

import (
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/internal/pgtest"
	pgstore "github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// MeasurePostgres writes the ledger into a PostgreSQL server of its own, with
// the settings that it comes with: message by message on one connection, by hand
// in groups of 64, and by the sequencer.
func MeasurePostgres(ctx context.Context, load Load, workers, rounds, n int) (t Throughput, err error) {
	dir, remove, err := tempDir()
	if err != nil {
		return t, err
	}
	defer remove()
	t = Throughput{Database: "PostgreSQL", Load: load, Workers: workers, Entries: n}
	if t.Flush, err = flushCost(dir); err != nil {
		return t, err
	}
	server, err := pgtest.New()
	if err != nil {
		return t, err
	}
	defer server.Close()
	var urls [3]string
	for i := range urls {
		if urls[i], err = server.NewDatabase(); err != nil {
			return t, err
		}
	}
	store, err := pgstore.Open(ctx, urls[0])
	if err != nil {
		return t, err
	}
	ours, err := newInterlock(ctx, postgres, workers, store)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, ours.close()) }()
	one, err := postgresFloor(ctx, urls[1])
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, one.close()) }()
	grouped, err := postgresFloor(ctx, urls[2])
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, grouped.close()) }()

	t.Rows, err = race(ctx, load, rounds, n, []contender{
		{OneByOne, func(ctx context.Context, e []entry) error { return one.run(ctx, e, 1) }, one.db},
		{Interlock, ours.run, store.DB()},
		{ByHand, func(ctx context.Context, e []entry) error { return grouped.run(ctx, e, 64) }, grouped.db},
	})
	return t, err
}

func postgresFloor(ctx context.Context, url string) (*floor, error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return nil, err
	}
	return newFloor(ctx, postgres, db)
}
