package sqlstore

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Decisions implements [ordering.Reader].
func (r reader) Decisions(ctx context.Context, before time.Time, limit int) (list []ordering.JobState, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	consumer, err := r.store.consumer(ctx, r.name)
	if err != nil || consumer == 0 || limit <= 0 {
		return nil, storeError("decisions", err)
	}
	until := int64(math.MaxInt64)
	if !before.IsZero() {
		until = toMicros(before)
	}
	for _, part := range []struct {
		table, columns string
		use            scanner
	}{
		{`ordering_jobs`, `stream, number, event, hash, positions, status, attempts, error, started, ended, decider, reason, reply`, func(scan func(...any) error) error {
			var j jobRow
			if err := scan(j.columns()...); err != nil {
				return err
			}
			state, err := j.state()
			list = append(list, *state)
			return err
		}},
		{`ordering_commands`, `id, ` + commandColumns, func(scan func(...any) error) error {
			var id string
			state, err := scanCommand(scan, &id)
			list = append(list, *state)
			return err
		}},
		{`ordering_skips`, `stream, first, last, decider, reason, ended`, func(scan func(...any) error) error {
			var stream string
			var skip ordering.Skipped
			var ended int64
			err := scan(&stream, &skip.From, &skip.To, &skip.By, &skip.Reason, &ended)
			if err != nil {
				return err
			}
			skip.Time = fromMicros(ended)
			skip.Stream, err = lockkeys.Parse(stream)
			list = append(list, skip.JobState())
			return err
		}},
	} {
		// A page has everything that ended at the same time as its last entry.
		err := each(ctx, r.store.db, part.use, `SELECT `+part.columns+` FROM `+part.table+` WHERE consumer = $1 AND decider <> '' AND ended < $2
			AND ended >= coalesce((SELECT min(ended) FROM (SELECT ended FROM `+part.table+`
				WHERE consumer = $1 AND decider <> '' AND ended < $2 ORDER BY ended DESC LIMIT $3) AS page), 0)`, consumer, until, limit)
		if err != nil {
			return nil, storeError("decisions", err)
		}
	}
	slices.SortStableFunc(list, func(a, b ordering.JobState) int { return b.Ended.Compare(a.Ended) })
	for limit < len(list) && list[limit].Ended.Equal(list[limit-1].Ended) {
		limit++
	}
	return list[:min(limit, len(list))], nil
}
