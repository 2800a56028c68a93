package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

const putJob = `INSERT INTO ordering_jobs (event, positions, status, attempts, error, started, ended)
	VALUES ($1, $2, $3, $4, $5, $6, $7) ` + replaceJob

const replaceJob = `ON CONFLICT (event) DO UPDATE SET positions = excluded.positions, status = excluded.status,
		attempts = excluded.attempts, error = excluded.error, started = excluded.started, ended = excluded.ended`

func jobArgs(j ordering.JobState) []any {
	positions, _ := json.Marshal(j.Positions) // of text and numbers: it cannot fail
	return []any{j.Event, string(positions), int64(j.Status), int64(j.Attempts), clean(j.Error),
		toMicros(j.Started), toMicros(j.Ended)}
}

func (s *Store) putJob(ctx context.Context, tx *transaction, j ordering.JobState) error {
	_, err := tx.ExecContext(ctx, putJob, jobArgs(j)...)
	return err
}

// Job implements [ordering.Store].
func (s *Store) Job(ctx context.Context, event string) (j ordering.JobState, err error) {
	if err := s.enter(ctx); err != nil {
		return j, err
	}
	defer s.gate.leave()
	var positions string
	var started, ended int64
	err = s.db.QueryRowContext(ctx, `SELECT positions, status, attempts, error, started, ended FROM ordering_jobs WHERE event = $1`, event).
		Scan(&positions, &j.Status, &j.Attempts, &j.Error, &started, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		return j, fmt.Errorf("%w: %.80q", ordering.ErrNoJob, event)
	}
	if err != nil {
		return j, storeError("job", err)
	}
	j.Event, j.Started, j.Ended = event, fromMicros(started), fromMicros(ended)
	return j, json.Unmarshal([]byte(positions), &j.Positions)
}

// pruneBatch is how many job states are deleted in one transaction, so that
// others need not wait for long.
const pruneBatch = 1000

// Prune implements [ordering.Store].
func (s *Store) Prune(ctx context.Context, before time.Time) (total int64, err error) {
	for {
		var n int64
		err := s.write(ctx, "prune", func(ctx context.Context, tx *transaction) error {
			result, err := tx.ExecContext(ctx, `DELETE FROM ordering_jobs WHERE event IN (
				SELECT event FROM ordering_jobs j WHERE ended < $1
					AND NOT (status = $2 AND EXISTS (SELECT 1 FROM ordering_parked_events p WHERE p.event = j.event))
				ORDER BY ended LIMIT $3)`, toMicros(before), int64(ordering.Failed), pruneBatch)
			if err != nil {
				return err
			}
			n, err = result.RowsAffected()
			return err
		})
		if err != nil {
			return total, storeError("prune", err)
		}
		if total += n; n < pruneBatch {
			return total, nil
		}
	}
}
