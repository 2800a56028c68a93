package sqlstore

import (
	"context"
	"slices"
	"sync"
)

// doubts are the sessions of commits whose outcome is unknown: the connection was lost
// after a COMMIT was sent, and the server may carry it out at any time, as long as the
// session lives. They are identified by the locks that they hold.
type doubts struct {
	mu struct {
		sync.Mutex
		locks []int64
	}
}

func (d *doubts) add(lock int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.locks = append(d.mu.locks, lock)
}

func (d *doubts) list() []int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.mu.locks)
}

func (d *doubts) remove(lock int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.locks = slices.DeleteFunc(d.mu.locks, func(l int64) bool { return l == lock })
}

// endSession ends the session that holds an advisory lock, if there is one.
const endSession = `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
	AND classid::bigint << 32 | objid::bigint = $1 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// settle waits until no commit is in doubt any more: what was not committed when it
// returns will never be. It ends the sessions in doubt, since a server that has not
// noticed that the connection is gone keeps them for hours. If the user is not allowed
// to do that, it just waits.
func (b *postgres) settle(ctx context.Context) error {
	for _, lock := range b.doubts.list() {
		_, _ = b.db.ExecContext(ctx, endSession, lock)
		if _, err := b.db.ExecContext(ctx, `SELECT pg_advisory_xact_lock_shared($1)`, lock); err != nil {
			return err
		}
		b.doubts.remove(lock)
	}
	return nil
}
