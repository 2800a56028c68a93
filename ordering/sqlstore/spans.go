package sqlstore

import (
	"context"
	"database/sql"
	"slices"
)

// span is a range of numbers, both ends included.
type span struct{ from, to uint64 }

// spans are rising and neither overlap nor touch.
type spans []span

func (s spans) contains(n uint64) bool {
	return slices.ContainsFunc(s, func(r span) bool { return r.from <= n && n <= r.to })
}

func (s spans) numbers() (list []uint64) {
	for _, r := range s {
		for n := r.from; n <= r.to; n++ {
			list = append(list, n)
		}
	}
	return list
}

// with returns the last number up to which all is done, and what is above it,
// once r is done too.
func (s spans) with(last uint64, r span) (uint64, spans) {
	all := append(slices.Clone(s), r)
	slices.SortFunc(all, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	var rest spans
	for _, r := range all {
		switch {
		case r.from <= last+1:
			last = max(last, r.to)
		case len(rest) > 0 && r.from <= rest[len(rest)-1].to+1:
			rest[len(rest)-1].to = max(rest[len(rest)-1].to, r.to)
		default:
			rest = append(rest, r)
		}
	}
	return last, rest
}

func loadSpans(ctx context.Context, db queryer, stream string) (done spans, err error) {
	err = each(ctx, db, func(scan func(...any) error) error {
		var r span
		err := scan(&r.from, &r.to)
		done = append(done, r)
		return err
	}, `SELECT first, last FROM ordering_done WHERE stream = $1 ORDER BY first`, stream)
	return done, err
}

// writeDone makes r done as well in a stream of which done is above last.
func writeDone(ctx context.Context, tx *sql.Tx, r row, done spans, more span) error {
	last, rest := done.with(r.last, more)
	for _, old := range done {
		if !slices.Contains(rest, old) {
			if _, err := tx.ExecContext(ctx, `DELETE FROM ordering_done WHERE stream = $1 AND first = $2`, r.stream, int64(old.from)); err != nil {
				return err
			}
		}
	}
	for _, span := range rest {
		if !slices.Contains(done, span) {
			if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_done (stream, first, last) VALUES ($1, $2, $3)`,
				r.stream, int64(span.from), int64(span.to)); err != nil {
				return err
			}
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (stream, last, spans) VALUES ($1, $2, $3)
		ON CONFLICT (stream) DO UPDATE SET last = excluded.last, spans = excluded.spans`, r.stream, int64(last), len(rest))
	return err
}
