package producer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// A Producer keeps the one input of its database.
var _ store.Inputs = (*Producer)(nil)

// Inputs implements [store.Inputs].
func (p *Producer) Inputs(ctx context.Context) ([]store.Input, error) {
	in := store.Input{ID: 1}
	var size int64
	var identity sql.NullString
	err := p.db.QueryRowContext(ctx, `SELECT name, size, digest FROM produced`).Scan(&in.Name, &size, &identity)
	if err != nil || !identity.Valid {
		return nil, err
	}
	in.Identity = identity.String
	if size > 0 {
		in.Identity = fmt.Sprintf("bytes:%d:%s", size, identity.String)
	}
	return []store.Input{in}, nil
}

// SaveInput implements [store.Inputs].
func (p *Producer) SaveInput(ctx context.Context, in store.Input) (store.Input, error) {
	known, err := p.Inputs(ctx)
	if err != nil {
		return in, err
	}
	if len(known) > 0 && in.ID == 0 {
		return in, fmt.Errorf("the database is that of another input, %s: give this one a database of its own", known[0].Name)
	}
	in.ID = 1
	_, err = p.db.ExecContext(ctx, `UPDATE produced SET name = $1, size = 0, digest = $2`, in.Name, in.Identity)
	return in, err
}

// Digests implements [store.Inputs].
func (p *Producer) Digests(ctx context.Context, _, block int64) (digests []byte, err error) {
	err = p.db.QueryRowContext(ctx, `SELECT digests FROM produced_digests WHERE block = $1`, block).Scan(&digests)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return digests, err
}

// SaveDigests implements [store.Inputs].
func (p *Producer) SaveDigests(ctx context.Context, _, block int64, digests []byte) error {
	_, err := p.db.ExecContext(ctx, `INSERT INTO produced_digests (block, digests) VALUES ($1, $2)
		ON CONFLICT (block) DO UPDATE SET digests = excluded.digests`, block, digests)
	return err
}
