package saga

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
)

// Barrier makes a participant's actions happen once, in order, however often and late
// their calls come. Who is called by [Step].Do or Undo calls it first, in the transaction
// of what it is about to write, in its own database, which needs [BarrierTable]:
//
//	call, err := saga.ParseCall(r.Header.Get("Idempotency-Key"))
//	…
//	first, err := saga.Barrier(ctx, tx, call)
//	if err != nil || !first {
//		return err // ErrUndone, or nil: it was done before, or there is nothing to undo
//	}
//
// It reports whether the action is to be done now. It is not if it was done already. An
// undo of an action that was never done is not either, but it is recorded: when the late
// action comes, it is refused with [ErrUndone], marked by [dispatcher.Permanent]. Of two
// calls at the same time one waits for the transaction of the other. The records are kept
// until the participant deletes them, by the column at, in microseconds since 1970.
func Barrier(ctx context.Context, tx *sql.Tx, call Call) (first bool, err error) {
	added, err := passBarrier(ctx, tx, call.Key(), false)
	if err != nil {
		return false, err
	}
	if call.Undo && added {
		do := call
		do.Undo = false
		never, err := passBarrier(ctx, tx, do.Key(), true)
		return !never, err
	}
	if call.Undo || added {
		return added, nil
	}
	var undone bool
	if err := tx.QueryRowContext(ctx, `SELECT undone > 0 FROM saga_barrier WHERE action = $1`, call.Key()).Scan(&undone); err != nil {
		return false, fmt.Errorf("saga: barrier for %.200q: %w", call.Key(), err)
	}
	if undone {
		return false, dispatcher.Permanent(fmt.Errorf("%w: %.200q", ErrUndone, call.Key()))
	}
	return false, nil
}

// passBarrier records an action, and reports whether it was not recorded before.
func passBarrier(ctx context.Context, tx *sql.Tx, key string, undone bool) (added bool, err error) {
	mark := 0
	if undone {
		mark = 1
	}
	done, err := tx.ExecContext(ctx, `INSERT INTO saga_barrier (action, undone, at) VALUES ($1, $2, $3) ON CONFLICT (action) DO NOTHING`,
		key, mark, time.Now().UnixMicro())
	var n int64
	if err == nil {
		n, err = done.RowsAffected()
	}
	if err != nil {
		return false, fmt.Errorf("saga: barrier for %.200q: %w", key, err)
	}
	return n > 0, nil
}
