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
// meanwhile. So however many of its numbers become done, a stream is read and written
// once; or if they are its next ones, as usual, it is written with the first and the
// last of them, and not read.
type numbers map[streamOf]*numbered

// streamOf identifies a stream of a consumer.
type streamOf struct {
	consumer int64
	stream   string
}

// numbered is a stream's row as it is to be written.
type numbered struct {
	row
	unread bool   // of the row, last and fence are known, and that nothing above last is done
	wrote  uint64 // last, as the table has it, while unread

	done ordering.Spans // above last
	was  ordering.Spans // what the table has of them
	ends uint64         // the stream's last number, if one of the events has it
}

// note makes the numbers of an event done, to be written by [numbers.write], and its
// job state by [keepJobs].
func (b *sqlite) note(ctx context.Context, tx *transaction, c *commit) error {
	if err := b.inTerm(ctx, tx, c.term); err != nil {
		return err
	}
	noted, err := b.noteNext(ctx, tx, c)
	if err == nil && !noted {
		err = b.noteAny(ctx, tx, c)
	}
	if err != nil {
		return err
	}
	c.noted = true
	tx.commits = append(tx.commits, c)
	return nil
}

// noteNext is note for an event with the next numbers of its streams; noted is false,
// and nothing has changed, if that is not sure.
func (b *sqlite) noteNext(ctx context.Context, tx *transaction, c *commit) (noted bool, err error) {
	if !c.simple || c.ends {
		return false, nil
	}
	for i, stream := range c.streams {
		n := tx.numbers[streamOf{c.term.consumer, stream}]
		switch {
		case !b.mayBe(c.term, c.fences[i]):
			return false, nil
		case n != nil && (!n.unread || n.fence > c.fences[i] || n.last+1 != uint64(c.numbers[i])):
			return false, nil
		}
	}
	var moved []string
	for i, stream := range c.streams {
		key := streamOf{c.term.consumer, stream}
		if n := tx.numbers[key]; n != nil {
			continue
		}
		done, err := moveOne(ctx, tx, c, i)
		if err != nil {
			return false, err
		}
		if !done {
			return false, moveBack(ctx, tx, c.term.consumer, moved)
		}
		moved = append(moved, stream)
	}
	for i, stream := range c.streams {
		key := streamOf{c.term.consumer, stream}
		place := uint64(c.numbers[i])
		if n := tx.numbers[key]; n != nil {
			n.last = place
		} else {
			tx.numbers[key] = &numbered{row: row{stream: stream, last: place, fence: c.fences[i]}, unread: true, wrote: place}
		}
	}
	return true, nil
}

// noteAny is note for any event.
func (b *sqlite) noteAny(ctx context.Context, tx *transaction, c *commit) error {
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
	return nil
}

// numbered returns a stream, which is read if that has not been done.
func (b *sqlite) numbered(ctx context.Context, tx *transaction, t termOf, stream string) (*numbered, error) {
	key := streamOf{t.consumer, stream}
	if n := tx.numbers[key]; n != nil {
		if !n.unread {
			return n, nil
		}
		if err := n.write(ctx, tx, key); err != nil {
			return nil, err
		}
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
		if err := all[key].write(ctx, tx, key); err != nil {
			return err
		}
	}
	return nil
}

// write writes a stream.
func (n *numbered) write(ctx context.Context, tx *transaction, key streamOf) error {
	if n.unread {
		if n.last == n.wrote {
			return nil
		}
		n.wrote = n.last
		_, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET last = $3 WHERE consumer = $1 AND stream = $2`, key.consumer, key.stream, int64(n.last))
		return err
	}
	err := writeStream(ctx, tx, key, n.last, n.was, n.done)
	if err == nil && n.ends > n.ended {
		err = endStream(ctx, tx, key, n.ends)
	}
	return err
}

// endStream notes the last number of a stream.
func endStream(ctx context.Context, tx *transaction, s streamOf, last uint64) error {
	_, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET ended = $1 WHERE consumer = $2 AND stream = $3 AND ended < $1`,
		int64(last), s.consumer, s.stream)
	return err
}
