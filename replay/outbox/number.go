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

// lastNumber is the last number of a stream.
type lastNumber struct {
	place uint64
	ended bool
}

// refuses returns an error if a stream gives no numbers after its last one, in the epoch
// behind a place or in a later one that has begun.
func (l lastNumber) refuses(n *need, before uint64) error {
	switch {
	case l.ended:
		return fmt.Errorf("%w: its last event is %s", ErrEnded, ordering.PositionAt(n.stream, l.place))
	case l.place > before && (l.place-1)%ordering.MaxNumber+1+uint64(n.count) > ordering.MaxNumber:
		return fmt.Errorf("%w: %s has no numbers left: raise Config.Epoch", ordering.ErrNumber, n.stream)
	}
	return nil
}

// eachLast returns the last numbers of streams that have one, by a statement for some of
// them at a time, in the order of the keys.
func eachLast(ctx context.Context, tx transaction, streams []lockkeys.Key, statement func(d Dialect, n int) string, d Dialect) (map[string]lastNumber, error) {
	sorted := slices.Compact(slices.SortedFunc(slices.Values(streams), lockkeys.Key.Compare))
	last := make(map[string]lastNumber, len(sorted))
	for some := range slices.Chunk(sorted, ordering.MaxPositions) {
		if err := readLast(ctx, tx, statement(d, len(some)), some, last); err != nil {
			return nil, err
		}
	}
	return last, nil
}

func readLast(ctx context.Context, tx transaction, statement string, streams []lockkeys.Key, to map[string]lastNumber) error {
	args := make([]any, len(streams))
	for i, stream := range streams {
		args[i] = stream.String()
	}
	found, err := tx.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer found.Close()
	for found.Next() {
		var stream string
		var last lastNumber
		if err := found.Scan(&stream, &last.place, &last.ended); err != nil {
			return err
		}
		to[stream] = last
	}
	return found.Err()
}

func lastNumbers(d Dialect, n int) string {
	return `SELECT stream, last, ended > 0 FROM outbox_streams WHERE stream IN (` + sqldb.Repeat(d, n, "?") + `)`
}

func putLast(d Dialect, n int) string {
	return `INSERT INTO outbox_streams (stream, last, ended) VALUES ` + sqldb.Repeat(d, n, "(?, ?, ?)") + `
		ON CONFLICT (stream) DO UPDATE SET last = excluded.last, ended = excluded.ended`
}
