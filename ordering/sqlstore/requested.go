package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/ordering"
)

var _ ordering.Requested = (*term)(nil)

const requestColumns = `r.id, c.name, r.action, r.target, r.decider, r.reason, r.made, r.begun, r.ended, r.error`

func scanRequest(scan func(...any) error) (r ordering.Request, err error) {
	var made, begun, ended int64
	err = scan(&r.ID, &r.Consumer, &r.Action.Name, &r.Action.Target, &r.By, &r.Reason, &made, &begun, &ended, &r.Error)
	r.Made, r.Begun, r.Ended = fromMicros(made), fromMicros(begun), fromMicros(ended)
	return r, err
}

// Requests implements [ordering.Requested]. On PostgreSQL each stream has the name of the
// partition that acquired it; on SQLite, where all partitions work in one process, not
// always.
func (t *term) Requests(ctx context.Context, limit int) (list []ordering.Request, err error) {
	if err := t.store.enter(ctx); err != nil {
		return nil, err
	}
	defer t.store.gate.leave()
	query, args := `SELECT `+requestColumns+` FROM ordering_requests r JOIN ordering_consumers c ON c.id = r.consumer
		WHERE r.consumer = $1 AND r.ended = 0`, []any{t.consumer, limit}
	if t.store.dialect == sqldb.PostgreSQL {
		query += ` AND (r.stream = '' OR EXISTS (SELECT FROM ordering_streams s WHERE s.consumer = $1 AND s.stream = r.stream AND s.part = $3))`
		args = append(args, t.info.Partition)
	}
	err = each(ctx, t.store.db, func(scan func(...any) error) error {
		r, err := scanRequest(scan)
		list = append(list, r)
		return err
	}, query+` ORDER BY r.id LIMIT $2`, args...)
	return list, storeError("requests", err)
}

// BeginRequest implements [ordering.Requested].
func (t *term) BeginRequest(ctx context.Context, id int64) error {
	return t.note(ctx, id, `UPDATE ordering_requests SET begun = CASE begun WHEN 0 THEN $3 ELSE begun END WHERE consumer = $1 AND id = $2 AND ended = 0`)
}

// EndRequest implements [ordering.Requested].
func (t *term) EndRequest(ctx context.Context, id int64, result error) error {
	text := ""
	if result != nil {
		text = clean(result.Error())
	}
	return t.note(ctx, id, `UPDATE ordering_requests SET ended = $3, error = $4 WHERE consumer = $1 AND id = $2 AND ended = 0`, text)
}

// note changes the row of a request that has not ended.
func (t *term) note(ctx context.Context, id int64, statement string, more ...any) error {
	found := 0
	err := t.write(ctx, "note a request", func(ctx context.Context, tx *transaction) (err error) {
		found, err = affected(tx.ExecContext(ctx, statement, append([]any{t.consumer, id, toMicros(time.Now())}, more...)...))
		return err
	})
	if err == nil && found == 0 {
		err = fmt.Errorf("%w: %d", ordering.ErrNoRequest, id)
	}
	return err
}
