package outbox

import (
	"context"
	"fmt"

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
// or not. An answer has the first events of the range that are there, 256 of
// them at most, and no more once it has 1 MiB.
//
// Since numbers have no holes there is one case only in which numbers are
// answered to have never existed: those behind the end of a stream that has
// ended. Otherwise
//
//   - numbers up to the stream's last one that have no event were deleted: the
//     error wraps [replay.ErrNotRetained] if there is nothing else to answer;
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
		return replay.Answer{}, replay.Permanent(fmt.Errorf("%w: %v", ErrRange, asked))
	}
	// The last number is read first: what is not there up to it is gone.
	last, ended, err := lastOf(ctx, o.db, stream)
	if err != nil {
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	}
	if from > last && !ended {
		return replay.Answer{}, fmt.Errorf("%w: %v: the last one is %d", replay.ErrNotAssigned, asked, last)
	}
	var answer replay.Answer
	if ended && to > last {
		answer.NoSuch = []ordering.Range{{Stream: stream, From: max(from, last+1), To: to}}
	}
	if from > last {
		return answer, nil
	}
	answer.Events, err = o.events(ctx, stream, from, to)
	switch {
	case err != nil:
		return replay.Answer{}, fmt.Errorf("outbox: fetch %v: %w", asked, err)
	case len(answer.Events)+len(answer.NoSuch) == 0:
		return replay.Answer{}, fmt.Errorf("%w: %v", replay.ErrNotRetained, asked)
	}
	return answer, nil
}

// events returns the first events of a range that are there.
func (o *Outbox) events(ctx context.Context, stream lockkeys.Key, from, to uint64) ([]*ordering.Event, error) {
	found, err := o.db.QueryContext(ctx, `WITH few (number, id, bytes) AS (
			SELECT p.number, e.id, sum(e.size) OVER (ORDER BY p.number) - e.size
			FROM (SELECT number, event FROM outbox_positions WHERE stream = $1 AND number >= $2 AND number <= $3
				ORDER BY number LIMIT $4) p
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT e.id, e.body FROM few f JOIN outbox_events e ON e.id = f.id
		WHERE f.bytes < $5 ORDER BY f.number`, stream.String(), int64(from), int64(to), maxFetch, maxFetchBytes)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var events []*ordering.Event
	for found.Next() {
		var id int64
		var body string
		if err := found.Scan(&id, &body); err != nil {
			return nil, err
		}
		e, err := decode(id, body)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, found.Err()
}
