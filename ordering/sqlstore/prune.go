package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// pruneBatch bounds the job states deleted in one transaction, so that other
// transactions do not wait long.
const pruneBatch = 1000

// Prune implements [ordering.Term].
func (t *term) Prune(ctx context.Context, before, commandsBefore time.Time) (total int64, err error) {
	for _, prune := range []func(ctx context.Context, tx *transaction) (int, error){
		func(ctx context.Context, tx *transaction) (int, error) { return t.pruneJobs(ctx, tx, toMicros(before)) },
		func(ctx context.Context, tx *transaction) (int, error) {
			return affected(tx.ExecContext(ctx, `DELETE FROM ordering_commands WHERE consumer = $1
				AND id IN (SELECT id FROM ordering_commands WHERE consumer = $1 AND ended < $2 ORDER BY ended LIMIT $3)`,
				t.consumer, toMicros(commandsBefore), pruneBatch))
		},
		func(ctx context.Context, tx *transaction) (int, error) {
			return affected(tx.ExecContext(ctx, `DELETE FROM ordering_marks WHERE consumer = $1
				AND marked < CASE command WHEN 0 THEN CAST($2 AS BIGINT) ELSE CAST($3 AS BIGINT) END`,
				t.consumer, toMicros(before), toMicros(commandsBefore)))
		},
		func(ctx context.Context, tx *transaction) (int, error) {
			return affected(tx.ExecContext(ctx, `DELETE FROM ordering_requests WHERE consumer = $1 AND ended > 0 AND ended < $2`, t.consumer, toMicros(before)))
		},
	} {
		for n := 1; n > 0; total += int64(n) {
			err := t.write(ctx, "prune", func(ctx context.Context, tx *transaction) (err error) {
				n, err = prune(ctx, tx)
				return err
			})
			if err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// pruneJobs deletes a batch of job states that ended before a time, except
// those of commands, and returns how many.
func (t *term) pruneJobs(ctx context.Context, tx *transaction, before int64) (n int, err error) {
	var gone []place             // the job states
	pruned := map[string]int64{} // the largest number of each stream that was in one
	err = each(ctx, tx, func(scan func(...any) error) error {
		var at place
		var text string
		var status ordering.Status
		if err := scan(&at.stream, &at.number, &text, &status); err != nil {
			return err
		}
		if gone = append(gone, at); status == ordering.StatusParked { // it has made nothing done
			return nil
		}
		positions, err := jobPositions(at.stream, at.number, text)
		for _, p := range placesOf(positions) {
			pruned[p.stream] = max(pruned[p.stream], p.number)
		}
		return err
	}, `SELECT stream, number, positions, status FROM ordering_jobs j WHERE consumer = $1 AND ended < $2
		AND NOT (status = $3 AND EXISTS (SELECT 1 FROM ordering_parked_events p WHERE p.consumer = $1 AND p.stream = j.stream AND p.number = j.number))
		ORDER BY ended LIMIT $4`, t.consumer, before, int64(ordering.StatusParked), pruneBatch)
	if err != nil {
		return 0, err
	}
	var skips []place
	err = each(ctx, tx, func(scan func(...any) error) error {
		var at place
		var last int64
		err := scan(&at.stream, &at.number, &last)
		skips = append(skips, at)
		pruned[at.stream] = max(pruned[at.stream], last)
		return err
	}, `SELECT stream, first, last FROM ordering_skips WHERE consumer = $1 AND ended < $2 AND last % $3 <> 0 ORDER BY ended LIMIT $4`,
		t.consumer, before, int64(ordering.MaxNumber), pruneBatch) // not where an epoch ends
	if err != nil {
		return 0, err
	}
	// In sorted order, so that transactions do not deadlock.
	for _, stream := range slices.Sorted(maps.Keys(pruned)) {
		if _, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET pruned = $1 WHERE consumer = $2 AND stream = $3 AND pruned < $1`,
			pruned[stream], t.consumer, stream); err != nil {
			return 0, err
		}
	}
	for _, list := range []struct {
		places    []place
		statement string
	}{
		{gone, `DELETE FROM ordering_jobs WHERE consumer = $1 AND stream = $2 AND number = $3`},
		{skips, `DELETE FROM ordering_skips WHERE consumer = $1 AND stream = $2 AND first = $3`},
	} {
		slices.SortFunc(list.places, func(a, b place) int {
			return cmp.Or(strings.Compare(a.stream, b.stream), cmp.Compare(a.number, b.number))
		})
		for _, at := range list.places {
			if _, err := tx.ExecContext(ctx, list.statement, t.consumer, at.stream, at.number); err != nil {
				return 0, err
			}
		}
	}
	return len(gone) + len(skips), nil
}
