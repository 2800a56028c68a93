// Package once does what a call asks for once, however often and late the call comes.
package once

import (
	"context"
	"database/sql"

	"github.com/interlock-go/interlock/examples/orders/internal/wire"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/saga"
)

// Do runs write in a transaction of the store, unless the action of the key was done
// before, or is an undo of what was never done. For an action that was undone before, the
// error wraps [saga.ErrUndone].
func Do(ctx context.Context, store *sqlstore.Store, key string, write func(ctx context.Context, tx *sql.Tx) error) error {
	call, err := saga.ParseCall(key)
	if err != nil {
		return wire.Refuse("key: %v", err)
	}
	return store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
		first, err := saga.Barrier(ctx, tx, call)
		if err != nil || !first {
			return err
		}
		return write(ctx, tx)
	})
}
