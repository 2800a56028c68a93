package site

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

//go:embed tables.sql
var tables string

// Open opens the database, with the numbers of the orders and the example's
// own tables in it. Processes must agree on the number of partitions, or an
// order would be in two queues: the first one sets it.
func (s Site) Open(ctx context.Context) (*sqlstore.Store, error) {
	store, err := postgres.Open(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	err = store.Migrate(ctx, "convoy", []string{tables})
	if err == nil {
		err = s.agree(ctx, store.DB())
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

func (s Site) agree(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `INSERT INTO convoy_partitions (number) VALUES ($1) ON CONFLICT DO NOTHING`, s.Queues); err != nil {
		return err
	}
	var queues int
	if err := db.QueryRowContext(ctx, `SELECT number FROM convoy_partitions`).Scan(&queues); err != nil {
		return err
	}
	if queues != s.Queues {
		return fmt.Errorf("-queues is %d, and the queues were filled with %d in mind: "+
			"to change that, stop the processors, let the workers empty all queues, stop them too, "+
			"UPDATE convoy_partitions, and start all with the new number", s.Queues, queues)
	}
	return nil
}
