package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/ordering"
)

// Inputs implements [Inputs].
func (d *Database) Inputs(ctx context.Context) ([]Input, error) {
	rows, err := d.numbers.DB().QueryContext(ctx, `SELECT input, name, identity FROM inputs ORDER BY input`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []Input
	for rows.Next() {
		var in Input
		if err := rows.Scan(&in.ID, &in.Name, &in.Identity); err != nil {
			return nil, err
		}
		list = append(list, in)
	}
	return list, rows.Err()
}

// SaveInput implements [Inputs].
func (d *Database) SaveInput(ctx context.Context, in Input) (Input, error) {
	err := d.hold(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if in.ID != 0 {
			_, err := tx.ExecContext(ctx, `UPDATE inputs SET name = $1, identity = $2 WHERE input = $3`, in.Name, in.Identity, in.ID)
			return err
		}
		return tx.QueryRowContext(ctx, `INSERT INTO inputs (name, identity) VALUES ($1, $2) RETURNING input`,
			in.Name, in.Identity).Scan(&in.ID)
	})
	return in, err
}

// Digests implements [Inputs].
func (d *Database) Digests(ctx context.Context, input, block int64) (digests []byte, err error) {
	err = d.numbers.DB().QueryRowContext(ctx, `SELECT digests FROM digests WHERE input = $1 AND block = $2`, input, block).Scan(&digests)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return digests, err
}

// SaveDigests implements [Inputs].
func (d *Database) SaveDigests(ctx context.Context, input, block int64, digests []byte) error {
	return d.hold(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO digests (input, block, digests) VALUES ($1, $2, $3)
			ON CONFLICT (input, block) DO UPDATE SET digests = excluded.digests`, input, block, digests)
		return err
	})
}

// Checkpoint implements [Checkpoints].
func (d *Database) Checkpoint(ctx context.Context, input int64) (*Checkpoint, error) {
	c := new(Checkpoint)
	err := d.numbers.DB().QueryRowContext(ctx, `SELECT messages, line, place, numbers FROM checkpoints WHERE input = $1`, input).
		Scan(&c.Messages, &c.Line, &c.Place, &c.Numbers)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return c, err
}

// SaveCheckpoint implements [Checkpoints].
func (d *Database) SaveCheckpoint(ctx context.Context, input int64, c *Checkpoint) error {
	return d.hold(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if c == nil {
			_, err := tx.ExecContext(ctx, `DELETE FROM checkpoints WHERE input = $1`, input)
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO checkpoints (input, messages, line, place, numbers) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (input) DO UPDATE SET messages = excluded.messages, line = excluded.line, place = excluded.place, numbers = excluded.numbers`,
			input, c.Messages, c.Line, c.Place, c.Numbers)
		return err
	})
}

// Holds implements [Store].
func (d *Database) Holds(ctx context.Context) error {
	return d.hold(ctx, func(context.Context, *sql.Tx) error { return nil })
}

// hold runs do in a transaction that the holder alone can commit.
func (d *Database) hold(ctx context.Context, do func(ctx context.Context, tx *sql.Tx) error) error {
	return d.numbers.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if d.guard != "" {
			held := false
			if err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1`+d.guard+`)`).Scan(&held); err != nil {
				return err
			}
			if !held {
				return fmt.Errorf("%w: another program has opened the database", ordering.ErrFenced)
			}
		}
		return do(ctx, tx)
	})
}
