package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Park implements [ordering.Term].
func (t *term) Park(ctx context.Context, parkings []ordering.Parking, fences ordering.Fences) error {
	needed := ordering.Fences{}
	for i := range parkings {
		if err := parkings[i].Validate(); err != nil {
			return err
		}
		for _, position := range parkings[i].Streams {
			needed[position.Stream] = fences[position.Stream]
		}
	}
	return t.write(ctx, "park", func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.lockParkings(ctx, tx, t.termOf, nil, needed); err != nil { // their other streams stay
			return err
		}
		for _, p := range parkings {
			if err := t.park(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	})
}

// park locks rows in sorted order, as Hold does, so that transactions do not
// deadlock.
func (t *termOf) park(ctx context.Context, tx *transaction, p ordering.Parking) error {
	robbed := map[string]bool{} // parkings that streams are taken from
	for _, position := range slices.SortedFunc(slices.Values(p.Streams), func(a, b ordering.ParkedStream) int {
		return strings.Compare(a.Stream.String(), b.Stream.String())
	}) {
		stream := position.Stream.String()
		err := each(ctx, tx, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			if id != p.ID {
				robbed[id] = true
			}
			return err
		}, `SELECT parking FROM ordering_streams WHERE consumer = $1 AND stream = $2 AND parking <> ''`, t.consumer, stream)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (consumer, stream, last, parking, closed_at, bound) VALUES ($1, $2, 0, $3, $4, $5)
			ON CONFLICT (consumer, stream) DO UPDATE SET parking = excluded.parking, closed_at = excluded.closed_at, bound = excluded.bound`,
			t.consumer, stream, p.ID, int64(position.Position().Place()), clean(position.Bound)); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM ordering_parked_events WHERE consumer = $1 AND parking = $2`, t.consumer, p.ID); err != nil {
		return err
	}
	more := map[string]int64{}
	for _, h := range p.Events {
		if err := t.parkEvent(ctx, tx, &p, h, more); err != nil {
			return err
		}
	}
	if err := countHeld(ctx, tx, t.consumer, more); err != nil {
		return err
	}
	if err := t.forgetEmpty(ctx, tx, robbed); err != nil {
		return err
	}
	p.Events = slices.Clone(p.Events)
	for i, h := range p.Events {
		p.Events[i] = h.AsOutline()
	}
	p.Streams, p.Error = nil, clean(p.Error)
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO ordering_parkings (consumer, id, since, body) VALUES ($1, $2, $3, $4)
		ON CONFLICT (consumer, id) DO UPDATE SET since = excluded.since, body = excluded.body`, t.consumer, p.ID, toMicros(p.Since), string(body))
	return err
}

// parkEvent holds an event of a parking, unless it is held already, stores its
// failure, and deletes its mark.
func (t *termOf) parkEvent(ctx context.Context, tx *transaction, p *ordering.Parking, h ordering.HeldEvent, more map[string]int64) error {
	id, err := heldID(ctx, tx, t.consumer, h.Positions)
	switch {
	case err != nil:
		return err
	case id != 0:
		_, err = tx.ExecContext(ctx, `UPDATE ordering_held SET attempts = $1, started = $2 WHERE id = $3`, int64(h.Attempts), toMicros(h.Started), id)
	case !h.Outline:
		err = hold(ctx, tx, t.consumer, h, more)
	}
	if err != nil {
		return err
	}
	if err := forgetMark(ctx, tx, t.consumer, h.Positions, h.ID); err != nil {
		return err
	}
	at := firstOf(h.Positions)
	if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_parked_events (consumer, parking, stream, number) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING`,
		t.consumer, p.ID, at.stream, at.number); err != nil {
		return err
	}
	if p.Error == "" {
		return nil
	}
	return putJobFailed(ctx, tx, t.consumer, at, h.Failed(p))
}

// forgetEmpty deletes those of the parkings that have no streams left.
func (t *termOf) forgetEmpty(ctx context.Context, tx *transaction, parkings map[string]bool) error {
	const isEmpty = ` AND NOT EXISTS (SELECT 1 FROM ordering_streams WHERE consumer = $1 AND parking = $2 AND parking <> '')`
	for _, id := range slices.Sorted(maps.Keys(parkings)) {
		for _, statement := range []string{
			`DELETE FROM ordering_parked_events WHERE consumer = $1 AND parking = $2` + isEmpty,
			`DELETE FROM ordering_parkings WHERE consumer = $1 AND id = $2` + isEmpty,
		} {
			if _, err := tx.ExecContext(ctx, statement, t.consumer, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unpark implements [ordering.Term].
func (t *term) Unpark(ctx context.Context, ids []string, fences ordering.Fences) error {
	return t.write(ctx, "unpark", func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.lockParkings(ctx, tx, t.termOf, ids, fences); err != nil {
			return err
		}
		for _, id := range ids {
			if err := t.unpark(ctx, tx, id, fences); err != nil {
				return err
			}
		}
		return nil
	})
}

// unpark opens the streams of a parking, and forgets it.
func (t *termOf) unpark(ctx context.Context, tx *transaction, id string, fences ordering.Fences) error {
	if id == "" {
		return nil
	}
	missing := ""
	err := each(ctx, tx, func(scan func(...any) error) error {
		var stream string
		if err := scan(&stream); err != nil {
			return err
		}
		key, err := lockkeys.Parse(stream)
		if _, has := fences[key]; err == nil && !has {
			missing = stream
		}
		return err
	}, `SELECT stream FROM ordering_streams WHERE consumer = $1 AND parking = $2 AND parking <> ''`, t.consumer, id)
	if err == nil && missing != "" {
		err = t.fenced(ctx, tx, missing, 0)
	}
	if err != nil {
		return err
	}
	for _, statement := range []string{
		openStreams,
		`DELETE FROM ordering_parked_events WHERE consumer = $1 AND parking = $2`,
		`DELETE FROM ordering_parkings WHERE consumer = $1 AND id = $2`,
	} {
		if _, err := tx.ExecContext(ctx, statement, t.consumer, id); err != nil {
			return err
		}
	}
	return nil
}

// closedBy is the condition that a stream is closed by a parking. It must be completed
// by a condition on the ID of the parking, and a closing bracket. The nested query is
// answered by the index of closed streams alone; without it, SQLite visits all streams
// of the consumer.
const closedBy = ` AND stream IN (SELECT stream FROM ordering_streams WHERE consumer = $1 AND parking <> '' AND parking`

// Statements with closedBy: the first opens the streams of a parking, the second lists
// closed streams, and must be completed likewise.
const (
	openStreams   = `UPDATE ordering_streams SET parking = '', closed_at = 0, bound = '' WHERE consumer = $1` + closedBy + ` = $2)`
	closedStreams = `SELECT parking, stream, closed_at, bound, held FROM ordering_streams WHERE consumer = $1` + closedBy
)

// manyParkings is the number of wanted parkings at which all are read, instead of these
// alone.
const manyParkings = 100

// Parked implements [ordering.Reader].
func (r reader) Parked(ctx context.Context, ids ...string) (list []ordering.Parking, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	consumer, err := r.store.consumer(ctx, r.name)
	if err != nil || consumer == 0 {
		return nil, storeError("parked", err)
	}
	const all = `SELECT body FROM ordering_parkings WHERE consumer = $1`
	if len(ids) == 0 || len(ids) >= manyParkings {
		list, err = r.store.parked(ctx, all, closedStreams+` <> '')`, []any{consumer})
	} else {
		in := ` IN ($2`
		args := []any{consumer, ids[0]}
		for i, id := range ids[1:] {
			in += fmt.Sprintf(`, $%d`, i+3)
			args = append(args, id)
		}
		list, err = r.store.parked(ctx, all+` AND id`+in+`)`, closedStreams+in+`))`, args)
	}
	if len(ids) >= manyParkings {
		wanted := make(map[string]bool, len(ids))
		for _, id := range ids {
			wanted[id] = true
		}
		list = slices.DeleteFunc(list, func(p ordering.Parking) bool { return !wanted[p.ID] })
	}
	return list, storeError("parked", err)
}

// parked lists the parkings that one query returns, with their streams, which another
// query returns.
func (s *Store) parked(ctx context.Context, parkings, streams string, args []any) (list []ordering.Parking, err error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.snapshot()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // it only reads
	byID := map[string]int{}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var body string
		if err := scan(&body); err != nil {
			return err
		}
		var p ordering.Parking
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			return err
		}
		byID[p.ID] = len(list)
		list = append(list, p)
		return nil
	}, parkings+` ORDER BY since, id`, args...)
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var id, stream string
		var p ordering.ParkedStream
		var closedAt uint64
		err := scan(&id, &stream, &closedAt, &p.Bound, &p.Waiting)
		if err != nil {
			return err
		}
		key, err := lockkeys.Parse(stream)
		if err != nil {
			return err
		}
		at := ordering.PositionAt(key, closedAt)
		p.Stream, p.Epoch, p.Number = at.Stream, at.Epoch, at.Number
		if i, ok := byID[id]; ok {
			list[i].Streams = append(list[i].Streams, p)
		}
		return nil
	}, streams, args...)
	for i := range list {
		slices.SortFunc(list[i].Streams, func(a, b ordering.ParkedStream) int { return a.Stream.Compare(b.Stream) })
	}
	return list, err
}
