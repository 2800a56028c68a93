package sqlstore

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/ordering"
)

// numbers are the streams of the events in a call of [Store.Together], as they will
// be when it has ended. On SQLite, which has one writer, nobody else can change them
// meanwhile. So each is read once, and written once, however many of its numbers
// become done.
type numbers map[streamOf]*numbered

// streamOf identifies a stream of a consumer.
type streamOf struct {
	consumer int64
	stream   string
}

// numbered is a stream's row as it is to be written.
type numbered struct {
	row
	done ordering.Spans // above last
	was  ordering.Spans // what the table has of them
	ends uint64         // the stream's last number, if one of the events has it
}

// note makes the numbers of an event done, to be written by [numbers.write].
func (b *sqlite) note(ctx context.Context, tx *transaction, c *commit) error {
	if err := b.inTerm(ctx, tx, c.term); err != nil {
		return err
	}
	streams := make([]*numbered, len(c.streams))
	for i, stream := range c.streams {
		n, err := b.numbered(ctx, tx, c.term, stream)
		if err != nil {
			return err
		}
		if err := c.fits(ctx, b, tx, i, n.row, n.done); err != nil {
			return err
		}
		streams[i] = n
	}
	for i, n := range streams {
		place := uint64(c.numbers[i])
		next, rest := slices.Clone(n.done).Add(ordering.Span{From: place, To: place}).Absorb(n.last + 1)
		n.last, n.done = next-1, rest
	}
	for _, p := range c.Event.Positions {
		if p.End {
			n := tx.numbers[streamOf{c.term.consumer, p.Stream.String()}]
			n.ends = max(n.ends, p.Place())
		}
	}
	return c.putJob(ctx, tx)
}

// numbered returns a stream, which is read if this is the first time.
func (b *sqlite) numbered(ctx context.Context, tx *transaction, t termOf, stream string) (*numbered, error) {
	key := streamOf{t.consumer, stream}
	if n := tx.numbers[key]; n != nil {
		return n, nil
	}
	rows, err := b.lock(ctx, tx, t, []string{stream})
	if err != nil {
		return nil, err
	}
	n := &numbered{row: rows[0]}
	if n.spans > 0 {
		if n.was, err = loadSpans(ctx, tx, t.consumer, stream); err != nil {
			return nil, err
		}
		n.done = n.was
	}
	tx.numbers[key] = n
	return n, nil
}

// write writes the streams, in order.
func (all numbers) write(ctx context.Context, tx *transaction) error {
	for _, key := range slices.SortedFunc(maps.Keys(all), func(a, b streamOf) int {
		return cmp.Or(cmp.Compare(a.consumer, b.consumer), cmp.Compare(a.stream, b.stream))
	}) {
		n := all[key]
		if err := writeStream(ctx, tx, key, n.last, n.was, n.done); err != nil {
			return err
		}
		if n.ends > n.ended {
			if err := endStream(ctx, tx, key, n.ends); err != nil {
				return err
			}
		}
	}
	return nil
}

// endStream notes the last number of a stream.
func endStream(ctx context.Context, tx *transaction, s streamOf, last uint64) error {
	_, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET ended = $1 WHERE consumer = $2 AND stream = $3 AND ended < $1`,
		int64(last), s.consumer, s.stream)
	return err
}
