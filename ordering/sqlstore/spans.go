package sqlstore

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/ordering"
)

func loadSpans(ctx context.Context, db queryer, consumer int64, stream string) (done ordering.Spans, err error) {
	err = each(ctx, db, func(scan func(...any) error) error {
		var r ordering.Span
		err := scan(&r.From, &r.To)
		done = append(done, r)
		return err
	}, `SELECT first, last FROM ordering_done WHERE consumer = $1 AND stream = $2 ORDER BY first`, consumer, stream)
	return done, err
}

// writeDone makes more numbers of the stream r done; done are those above its last
// number that are done already.
func writeDone(ctx context.Context, tx *transaction, consumer int64, r row, done ordering.Spans, more ordering.Span) error {
	next, rest := slices.Clone(done).Add(more).Absorb(r.last + 1)
	return writeStream(ctx, tx, streamOf{consumer, r.stream}, next-1, done, rest)
}

// writeStream writes the last number of a stream, and what is done above it: was is
// what the table has, and done what it must have.
func writeStream(ctx context.Context, tx *transaction, s streamOf, last uint64, was, done ordering.Spans) error {
	for _, old := range was {
		if !slices.Contains(done, old) {
			if _, err := tx.ExecContext(ctx, `DELETE FROM ordering_done WHERE consumer = $1 AND stream = $2 AND first = $3`, s.consumer, s.stream, int64(old.From)); err != nil {
				return err
			}
		}
	}
	for _, span := range done {
		if !slices.Contains(was, span) {
			if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_done (consumer, stream, first, last) VALUES ($1, $2, $3, $4)`,
				s.consumer, s.stream, int64(span.From), int64(span.To)); err != nil {
				return err
			}
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (consumer, stream, last, spans) VALUES ($1, $2, $3, $4)
		ON CONFLICT (consumer, stream) DO UPDATE SET last = excluded.last, spans = excluded.spans`, s.consumer, s.stream, int64(last), len(done))
	return err
}
