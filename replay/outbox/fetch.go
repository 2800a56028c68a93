package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// Bounds of one answer of Fetch. The second one may be passed by one event.
const (
	maxFetch      = 256
	maxFetchBytes = 1 << 20
)

var _ replay.Source = (*Outbox)(nil)

// Fetch implements [replay.Source] for what was committed, whether it was sent
// or not, and parked or not. An answer has the first events of the range that
// are there, 256 of them at most, and no more once it has 1 MiB.
//
// Since numbers have no holes there are two cases only in which numbers are
// answered to have never existed: those that were given up with [Outbox.Skip],
// and those behind the end of a stream that has ended. Otherwise
//
//   - numbers up to the stream's last one that have no event were deleted: the
//     error wraps [replay.ErrNotRetained] if there is nothing else to answer;
//   - an event that cannot be read is left out, and if there is nothing else to
//     answer the error says so;
//   - numbers above the stream's last one are not assigned yet, and can be at
//     any time: the error wraps [replay.ErrNotAssigned]. A receiver that saw a
//     larger number than the outbox knows of has seen more than this database
//     remembers, which was restored from an old backup perhaps. It should
//     neither skip nor wait for ever, but park the stream, as an
//     [ordering.Sequencer] does after its attempts.
//
// The error wraps [ErrRange] if from is 0, to is less than from or more than
// [ordering.MaxNumber].
func (o *Outbox) Fetch(ctx context.Context, stream lockkeys.Key, from, to uint64) (replay.Answer, error) {
	asked := ordering.Range{Stream: stream, From: from, To: to}
	if from == 0 || to < from || to > ordering.MaxNumber {
		return replay.Answer{}, dispatcher.Permanent(fmt.Errorf("%w: %v", ErrRange, asked))
	}
	// The last number is read first: what is not there up to it is gone.
	last, ended, err := lastOf(ctx, o.db, stream)
	if err != nil {
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	}
	if from > last && !ended {
		return replay.Answer{}, fmt.Errorf("%w: %v: the last one is %d", replay.ErrNotAssigned, asked, last)
	}
	answer, unreadable, err := o.answer(ctx, asked)
	if err != nil {
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	}
	if ended && to > last {
		answer.NoSuch = append(answer.NoSuch, ordering.Range{Stream: stream, From: max(from, last+1), To: to})
	}
	switch {
	case len(answer.Events)+len(answer.NoSuch) > 0:
		return answer, nil
	case unreadable != nil:
		return replay.Answer{}, dispatcher.Permanent(fmt.Errorf("outbox: fetch %v: %w", asked, unreadable))
	}
	return replay.Answer{}, fmt.Errorf("%w: %v", replay.ErrNotRetained, asked)
}

// answer returns what there is of a range, and the error of the first event
// that cannot be read, if there is one.
func (o *Outbox) answer(ctx context.Context, asked ordering.Range) (a replay.Answer, unreadable, err error) {
	a.Events, unreadable, err = o.events(ctx, asked)
	if err != nil {
		return a, nil, err
	}
	// Read after the events, so that one that is being skipped meanwhile is
	// among them, among the skipped numbers, or among both.
	a.NoSuch, err = o.skipped(ctx, asked)
	for _, e := range a.Events {
		number, _ := e.On(asked.Stream)
		a.NoSuch = slices.DeleteFunc(a.NoSuch, func(r ordering.Range) bool { return r.From == number })
	}
	return a, unreadable, err
}

// skipped returns the first numbers of a range that were given up.
func (o *Outbox) skipped(ctx context.Context, asked ordering.Range) (ranges []ordering.Range, err error) {
	found, err := o.db.QueryContext(ctx, `SELECT number FROM outbox_skipped WHERE stream = $1 AND number >= $2 AND number <= $3
		ORDER BY number LIMIT $4`, asked.Stream.String(), int64(asked.From), int64(asked.To), maxFetch)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		r := ordering.Range{Stream: asked.Stream}
		if err := found.Scan(&r.From); err != nil {
			return nil, err
		}
		r.To = r.From
		ranges = append(ranges, r)
	}
	return ranges, found.Err()
}

// events returns the first events of a range that are there and were not given
// up, without those that cannot be read, of which it returns the first error.
func (o *Outbox) events(ctx context.Context, asked ordering.Range) (events []*ordering.Event, unreadable, err error) {
	found, err := o.db.QueryContext(ctx, `WITH few (number, id, bytes) AS (
			SELECT p.number, e.id, sum(e.size) OVER (ORDER BY p.number) - e.size
			FROM (SELECT number, event FROM outbox_positions p WHERE stream = $1 AND number >= $2 AND number <= $3
				AND NOT EXISTS (SELECT 1 FROM outbox_skipped s WHERE s.stream = p.stream AND s.number = p.number)
				ORDER BY number LIMIT $4) p
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT e.id, e.body FROM few f JOIN outbox_events e ON e.id = f.id
		WHERE f.bytes < $5 ORDER BY f.number`, asked.Stream.String(), int64(asked.From), int64(asked.To), maxFetch, maxFetchBytes)
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
