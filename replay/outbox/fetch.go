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
	maxBefore     = 1024
	maxFetchBytes = 1 << 20
)

var _ replay.Source = (*Outbox)(nil)

// Fetch implements [replay.Source] for committed events, sent or not, parked or
// not. An answer has the first existing events of the range, at most 256, and
// stops once it has 1 MiB. If events that these wait for are welcome, there are up to
// 1024 of those too, the latest ones, within the same MiB.
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
	var bytes int
	a.Events, bytes, unreadable, err = o.events(ctx, asked)
	if err == nil && unreadable == nil && len(a.Events) > 0 && asked.Before > 0 {
		a.Before, err = o.before(ctx, asked, a.Events, maxFetchBytes-bytes)
	}
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

// events returns the first existing events of a range that were not given up, how
// many bytes they have, and the first error of one that cannot be read.
func (o *Outbox) events(ctx context.Context, asked ordering.Range) (events []*ordering.Event, bytes int, unreadable, err error) {
	from, to := asked.Places()
	found, err := o.db.QueryContext(ctx, `WITH few (number, id, bytes) AS (
			SELECT p.number, e.id, sum(e.size) OVER (ORDER BY p.number) - e.size
			FROM (SELECT number, event FROM outbox_positions p WHERE stream = `+rowOf+` AND number >= $2 AND number <= $3
				AND NOT EXISTS (SELECT 1 FROM outbox_skipped s WHERE s.stream = $1 AND s.number = p.number)
				ORDER BY number LIMIT $4) p
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT e.id, e.name, `+typeOf+`, e.body FROM few f JOIN outbox_events e ON e.id = f.id
		WHERE f.bytes < $5 ORDER BY f.number`, asked.Stream.String(), int64(from), int64(to), maxFetch, maxFetchBytes)
	if err != nil {
		return nil, 0, nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var name, kind string
		var body []byte
		if err := found.Scan(&id, &name, &kind, &body); err != nil {
			return nil, 0, nil, err
		}
		bytes += len(body)
		e, err := decode(id, name, kind, body)
		switch {
		case err == nil:
			events = append(events, e)
		case unreadable == nil:
			unreadable = err
		}
	}
	return events, bytes, unreadable, found.Err()
}

// before returns the latest events that the given ones, of the range, wait for on
// other streams, directly or not, in the order of their rows: as many as are welcome,
// with up to so many bytes. The rows of a stream are in the order of its numbers, since
// the next number is given only after the transaction with the one before has ended.
// So each event has one behind it that waits for it.
func (o *Outbox) before(ctx context.Context, asked ordering.Range, events []*ordering.Event, bytes int) (before []*ordering.Event, err error) {
	from, _ := asked.Places()
	last, _ := events[len(events)-1].On(asked.Stream)
	found, err := o.db.QueryContext(ctx, `WITH RECURSIVE start (id) AS (
			SELECT p.event FROM outbox_positions p WHERE p.stream = `+rowOf+` AND p.number >= $2 AND p.number <= $3
				AND NOT EXISTS (SELECT 1 FROM outbox_skipped s WHERE s.stream = $1 AND s.number = p.number)
		), back (id) AS (
			SELECT id FROM start
			UNION
			SELECT p.event FROM back b `+oneBefore(o.dialect)+`
			WHERE p.stream <> `+rowOf+` AND NOT EXISTS (SELECT 1 FROM outbox_skipped s
				WHERE s.stream = (SELECT stream FROM outbox_streams WHERE id = p.stream) AND s.number = p.number)
		), few (id, bytes) AS (
			SELECT e.id, sum(e.size) OVER (ORDER BY e.id DESC)
			FROM (SELECT id FROM back LIMIT $4) b JOIN outbox_events e ON e.id = b.id
			WHERE e.id NOT IN (SELECT id FROM start)
		)
		SELECT e.id, e.name, `+typeOf+`, e.body FROM few f JOIN outbox_events e ON e.id = f.id WHERE f.bytes <= $5 ORDER BY e.id`,
		asked.Stream.String(), int64(from), int64(last.Place()), len(events)+min(asked.Before, maxBefore), bytes)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var id int64
		var name, kind string
		var body []byte
		if err := found.Scan(&id, &name, &kind, &body); err != nil {
			return nil, err
		}
		if e, err := decode(id, name, kind, body); err == nil {
			before = append(before, e)
		} else {
			before = nil // only this one may wait for those before it
		}
	}
	return before, found.Err()
}

// oneBefore joins the rows b of events with the positions p before theirs. PostgreSQL
// expects more of them than there are, and would read the whole table for each step of
// the recursion, if it were free to choose.
func oneBefore(d Dialect) string {
	if d == SQLite {
		return `JOIN outbox_positions mine ON mine.event = b.id
			JOIN outbox_positions p ON p.stream = mine.stream AND p.number = mine.number - 1`
	}
	return `CROSS JOIN LATERAL (SELECT stream, number FROM outbox_positions WHERE event = b.id OFFSET 0) mine
			CROSS JOIN LATERAL (SELECT * FROM outbox_positions
				WHERE stream = mine.stream AND number = mine.number - 1 OFFSET 0) p`
}
