package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Bounds of one answer of Fetch. One event may exceed the second one.
const (
	maxFetch      = 256
	maxFetchBytes = 1 << 20
)

var _ replay.Source = (*Outbox)(nil)

// Fetch implements [replay.Source] for committed events, sent or not, parked or
// not. An answer has the first existing events of the range, at most 256, and
// stops once it has 1 MiB.
//
// Since numbers have no holes, it answers only in two cases that numbers never
// existed: those given up with [Outbox.Skip] or [Outbox.Drop], and those behind
// the end of a stream that has ended. Otherwise
//
//   - numbers without an event, up to the stream's last one, were deleted: the
//     error wraps [replay.ErrNotRetained] if there is nothing else to answer;
//   - an event that cannot be read is left out, and its error returned if there is
//     nothing else to answer;
//   - numbers above the stream's last one are not assigned yet, and may be at
//     any time: the error wraps [replay.ErrNotAssigned]. If a receiver has seen a
//     larger number, this database has lost events, for example because an old
//     backup was restored. The receiver should neither skip nor wait for ever,
//     but park the stream, as an [ordering.Sequencer] does after its attempts; and
//     the producer should raise [Config.Epoch], after which missing numbers of
//     earlier epochs count as deleted.
//
// The error wraps [ErrRange] if From is 0, To is less than From or more than
// [ordering.MaxNumber].
func (o *Outbox) Fetch(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
	if asked.From == 0 || asked.To < asked.From || asked.To > ordering.MaxNumber {
		return replay.Answer{}, dispatcher.Permanent(fmt.Errorf("%w: %v", ErrRange, asked))
	}
	stream := asked.Stream
	from, to := asked.Places()
	// The last number is read first, so that events missing up to it were deleted.
	last, ended, err := lastOf(ctx, o.db, stream)
	if err != nil {
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	}
	if from > last && !ended {
		return replay.Answer{}, fmt.Errorf("%w: %v: the last one is %s", replay.ErrNotAssigned, asked, ordering.PositionAt(stream, last))
	}
	answer, unreadable, err := o.answer(ctx, asked)
	if err != nil {
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	}
	if ended && to > last {
		answer.NoSuch = append(answer.NoSuch, ordering.RangeAt(stream, max(from, last+1), to))
	}
	switch {
	case len(answer.Events)+len(answer.NoSuch) > 0:
		return answer, nil
	case unreadable != nil:
		return replay.Answer{}, dispatcher.Permanent(fmt.Errorf("outbox: fetch %v: %w", asked, unreadable))
	}
	return replay.Answer{}, fmt.Errorf("%w: %v", replay.ErrNotRetained, asked)
}

// answer returns the events and skipped numbers of a range, and the error of the
// first event that cannot be read.
func (o *Outbox) answer(ctx context.Context, asked ordering.Range) (a replay.Answer, unreadable, err error) {
	a.Events, unreadable, err = o.events(ctx, asked)
	if err != nil {
		return a, nil, err
	}
	// Read after the events, so that an event skipped meanwhile is among them,
	// among the skipped numbers, or among both.
	a.NoSuch, err = o.skipped(ctx, asked)
	for _, e := range a.Events {
		p, _ := e.On(asked.Stream)
		a.NoSuch = slices.DeleteFunc(a.NoSuch, func(r ordering.Range) bool { return r.Has(p) })
	}
	return a, unreadable, err
}

// skipped returns the first numbers of a range that were given up.
func (o *Outbox) skipped(ctx context.Context, asked ordering.Range) (ranges []ordering.Range, err error) {
	from, to := asked.Places()
	found, err := o.db.QueryContext(ctx, `SELECT number FROM outbox_skipped WHERE stream = $1 AND number >= $2 AND number <= $3
		ORDER BY number LIMIT $4`, asked.Stream.String(), int64(from), int64(to), maxFetch)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var place uint64
		if err := found.Scan(&place); err != nil {
			return nil, err
		}
		ranges = append(ranges, ordering.RangeAt(asked.Stream, place, place))
	}
	return ranges, found.Err()
}

// events returns the first existing events of a range that were not given up, and
// the first error of one that cannot be read.
func (o *Outbox) events(ctx context.Context, asked ordering.Range) (events []*ordering.Event, unreadable, err error) {
	from, to := asked.Places()
	found, err := o.db.QueryContext(ctx, `WITH few (number, id, bytes) AS (
			SELECT p.number, e.id, sum(e.size) OVER (ORDER BY p.number) - e.size
			FROM (SELECT number, event FROM outbox_positions p WHERE stream = $1 AND number >= $2 AND number <= $3
				AND NOT EXISTS (SELECT 1 FROM outbox_skipped s WHERE s.stream = p.stream AND s.number = p.number)
				ORDER BY number LIMIT $4) p
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT e.id, e.body FROM few f JOIN outbox_events e ON e.id = f.id
		WHERE f.bytes < $5 ORDER BY f.number`, asked.Stream.String(), int64(from), int64(to), maxFetch, maxFetchBytes)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var body string
		if err := found.Scan(&id, &body); err != nil {
			return nil, nil, err
		}
		e, err := decode(id, body)
		switch {
		case err == nil:
			events = append(events, e)
		case unreadable == nil:
			unreadable = err
		}
	}
	return events, unreadable, found.Err()
}
