package sqlstore

import (
	"context"
	"slices"

	"github.com/interlock-go/interlock/ordering"
)

// note stages the numbers of an event as done, with its job state.
func (b *sqlite) note(ctx context.Context, tx *transaction, c *commit) error {
	if err := b.inTerm(ctx, tx, c.term); err != nil {
		return err
	}
	streams := make([]*numbered, len(c.numbers))
	for i, becomes := range c.numbers {
		n, err := b.numbered(ctx, tx, c.term, becomes.stream)
		if err != nil {
			return err
		}
		if err := c.fits(ctx, b, tx, becomes, n.row, n.done); err != nil {
			return err
		}
		streams[i] = n
	}
	for i, n := range streams {
		place := uint64(c.numbers[i].place)
		next, rest := slices.Clone(n.done).Add(ordering.Span{From: place, To: place}).Absorb(n.last + 1)
		n.last, n.done, n.changed = next-1, rest, true
	}
	for _, p := range c.Event.Positions {
		if p.End {
			n := tx.staged.numbers[streamOf{c.term.consumer, p.Stream.String()}]
			n.ends = max(n.ends, p.Place())
		}
	}
	c.noted = true
	tx.staged.commits = append(tx.staged.commits, c)
	return nil
}

// numbered returns a stream, and reads it if it is not known yet.
func (b *sqlite) numbered(ctx context.Context, tx *transaction, t termOf, stream string) (*numbered, error) {
	key := streamOf{t.consumer, stream}
	if n := tx.staged.numbers[key]; n != nil {
		return n, nil
	}
	if n := tx.staged.session.stream(key); n != nil {
		n.changed = false
		tx.staged.numbers[key] = n
		return n, nil
	}
	rows, err := b.lock(ctx, tx, t, []string{stream})
	if err != nil {
		return nil, err
	}
	n := &numbered{row: rows[0], wrote: rows[0].last}
	if n.spans > 0 {
		if n.was, err = loadSpans(ctx, tx, t.consumer, stream); err != nil {
			return nil, err
		}
		n.done = n.was
	}
	tx.staged.numbers[key] = n
	return n, nil
}

// endStream notes the last number of a stream.
func endStream(ctx context.Context, tx *transaction, s streamOf, last uint64) error {
	_, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET ended = $1 WHERE consumer = $2 AND stream = $3 AND ended < $1`,
		int64(last), s.consumer, s.stream)
	return err
}
