package outbox

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// assign gives the events the next numbers on each of their streams. The rows of
// these are locked in the order of the keys, as by Lock, so that transactions that do
// so once never wait for each other in a circle.
func (o *Outbox) assign(ctx context.Context, tx transaction, events []*ordering.Event) error {
	sorted, err := needsOf(events)
	if err != nil {
		return err
	}
	before := beforeEpoch(o.config.Epoch)
	for some := range slices.Chunk(sorted, ordering.MaxPositions) {
		args := make([]any, 0, 3*len(some))
		for _, n := range some {
			last, ended := before+n.count, int64(0)
			if n.ends {
				ended = last
			}
			args = append(args, n.stream.String(), last, ended)
		}
		last, err := lasts(ctx, tx, nextNumbers(o.dialect, len(some), o.config.Epoch), args...)
		if err != nil {
			return err
		}
		for _, n := range some {
			place, ok := last[n.stream.String()]
			if !ok {
				return refused(ctx, tx, n.stream)
			}
			n.next = place - uint64(n.count) + 1
		}
	}
	number(events, sorted)
	return nil
}

// needsOf returns how many numbers the events need of each of their streams, in the
// order of the keys.
func needsOf(events []*ordering.Event) ([]*need, error) {
	needs := map[lockkeys.Key]*need{}
	for _, e := range events {
		for _, p := range e.Positions {
			n := needs[p.Stream]
			if n == nil {
				n = &need{stream: p.Stream}
				needs[p.Stream] = n
			}
			if n.ends {
				return nil, fmt.Errorf("%w: %s: an event before event %.80q ends it", ErrEnded, p.Stream, e.ID)
			}
			n.count++
			n.ends = p.End
		}
	}
	return slices.SortedFunc(maps.Values(needs), func(a, b *need) int { return a.stream.Compare(b.stream) }), nil
}

// number gives the events the numbers that were found for their streams.
func number(events []*ordering.Event, needs []*need) {
	next := make(map[lockkeys.Key]uint64, len(needs))
	for _, n := range needs {
		next[n.stream] = n.next
	}
	for _, e := range events {
		for i, p := range e.Positions {
			at := ordering.PositionAt(p.Stream, next[p.Stream])
			e.Positions[i].Epoch, e.Positions[i].Number = at.Epoch, at.Number
			next[p.Stream]++
		}
	}
}

// need is how many numbers of a stream are needed.
type need struct {
	stream lockkeys.Key
	count  int64
	ends   bool   // the last of them ends the stream
	next   uint64 // the place of the first of them
}

// beforeEpoch is the place before the first number of an epoch.
func beforeEpoch(epoch uint16) int64 { return int64(ordering.Position{Epoch: epoch}.Place()) }

// nextNumbers gives each of n streams as many numbers as its value for last is beyond
// the place before the epoch: they are the first ones of the epoch, or those after its
// last, whichever is later, unless they would reach into an epoch that has not begun.
func nextNumbers(d Dialect, n int, epoch uint16) string {
	before, most := beforeEpoch(epoch), int64(ordering.MaxNumber)
	next := fmt.Sprintf(`CASE WHEN s.last < %[1]d THEN excluded.last ELSE s.last + (excluded.last - %[1]d) END`, before)
	return `INSERT INTO outbox_streams AS s (stream, last, ended) VALUES ` + sqldb.Repeat(d, n, "(?, ?, ?)") + `
		ON CONFLICT (stream) DO UPDATE SET last = ` + next + `,
			ended = CASE excluded.ended WHEN 0 THEN 0 ELSE ` + next + ` END
		` + fmt.Sprintf(`WHERE s.ended = 0 AND (s.last <= %[1]d OR (s.last - 1) %% %[2]d + 1 + (excluded.last - %[1]d) <= %[2]d)`, before, most) + `
		RETURNING stream, last`
}

// refused returns the error for a stream that gave no number.
func refused(ctx context.Context, tx transaction, stream lockkeys.Key) error {
	last, ended, err := lastOf(ctx, tx, stream)
	switch {
	case err != nil:
		return err
	case ended:
		return hasEnded(stream, last)
	}
	return hasNoMore(stream)
}

// refuses returns an error if a stream gives no numbers after its last one, in the epoch
// behind a place or in a later one that has begun.
func (l lastNumber) refuses(n *need, before uint64) error {
	switch {
	case l.ended:
		return hasEnded(n.stream, l.place)
	case l.place > before && (l.place-1)%ordering.MaxNumber+1+uint64(n.count) > ordering.MaxNumber:
		return hasNoMore(n.stream)
	}
	return nil
}

func hasEnded(stream lockkeys.Key, last uint64) error {
	return fmt.Errorf("%w: its last event is %s", ErrEnded, ordering.PositionAt(stream, last))
}

func hasNoMore(stream lockkeys.Key) error {
	return fmt.Errorf("%w: %s has no numbers left: raise Config.Epoch", ordering.ErrNumber, stream)
}

// lasts returns a place for each stream that the statement returns.
func lasts(ctx context.Context, tx transaction, statement string, args ...any) (map[string]uint64, error) {
	found, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	last := map[string]uint64{}
	for found.Next() {
		var stream string
		var place uint64
		if err := found.Scan(&stream, &place); err != nil {
			return nil, err
		}
		last[stream] = place
	}
	return last, found.Err()
}
