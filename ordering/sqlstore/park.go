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

// Park implements [ordering.Store].
func (s *Store) Park(ctx context.Context, p ordering.Parking, fences ordering.Fences) error {
	if len(p.Streams) == 0 {
		return fmt.Errorf("sqlstore: parking %q closes no stream", p.ID)
	}
	if slices.ContainsFunc(p.Events, func(h ordering.HeldEvent) bool { return h.Event == nil }) {
		return ordering.ErrNilEvent
	}
	needed := ordering.Fences{}
	for _, position := range p.Streams {
		needed[position.Stream] = fences[position.Stream]
	}
	return s.write(ctx, "park", func(ctx context.Context, tx *transaction) error {
		if err := s.backend.lockParking(ctx, tx, p.ID, needed); err != nil {
			return err
		}
		if err := unpark(ctx, tx, p.ID); err != nil {
			return err
		}
		return s.park(ctx, tx, p)
	})
}

// park does so in orders that are the same for all, as [Store.Hold] does.
func (s *Store) park(ctx context.Context, tx *transaction, p ordering.Parking) error {
	robbed := map[string]bool{} // parkings that streams are taken from
	for _, position := range slices.SortedFunc(slices.Values(p.Streams), func(a, b ordering.Position) int {
		return strings.Compare(a.Stream.String(), b.Stream.String())
	}) {
		stream := position.Stream.String()
		err := each(ctx, tx, func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			robbed[id] = true
			return err
		}, `SELECT parking FROM ordering_streams WHERE stream = $1 AND parking <> ''`, stream)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (stream, last, parking, closed_at) VALUES ($1, 0, $2, $3)
			ON CONFLICT (stream) DO UPDATE SET parking = excluded.parking, closed_at = excluded.closed_at`,
			stream, p.ID, int64(position.Number)); err != nil {
			return err
		}
	}
	for _, h := range p.Events {
		if err := parkEvent(ctx, tx, &p, h); err != nil {
			return err
		}
	}
	if err := forgetEmpty(ctx, tx, robbed); err != nil {
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
	_, err = tx.ExecContext(ctx, `INSERT INTO ordering_parkings (id, since, body) VALUES ($1, $2, $3)`, p.ID, toMicros(p.Since), string(body))
	return err
}

// parkEvent holds an event of a parking, unless it is held already, and keeps its
// failure.
func parkEvent(ctx context.Context, tx *transaction, p *ordering.Parking, h ordering.HeldEvent) error {
	id, err := heldID(ctx, tx, h.Positions)
	switch {
	case err != nil:
		return err
	case id != 0:
		_, err = tx.ExecContext(ctx, `UPDATE ordering_held SET attempts = $1, started = $2 WHERE id = $3`, int64(h.Attempts), toMicros(h.Started), id)
	case !h.Outline:
		err = hold(ctx, tx, h)
	}
	if err != nil {
		return err
	}
	at := firstOf(h.Positions)
	if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_parked_events (parking, stream, number) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`,
		p.ID, at.stream, at.number); err != nil {
		return err
	}
	if p.Error == "" {
		return nil
	}
	return putJobFailed(ctx, tx, at, h.Failed(p))
}

// forgetEmpty forgets those of parkings that have no streams any more.
func forgetEmpty(ctx context.Context, tx *transaction, parkings map[string]bool) error {
	for _, id := range slices.Sorted(maps.Keys(parkings)) {
		for _, statement := range []string{
			`DELETE FROM ordering_parked_events WHERE parking = $1 AND NOT EXISTS (SELECT 1 FROM ordering_streams WHERE parking = $1 AND parking <> '')`,
			`DELETE FROM ordering_parkings WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM ordering_streams WHERE parking = $1 AND parking <> '')`,
		} {
			if _, err := tx.ExecContext(ctx, statement, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unpark implements [ordering.Store].
func (s *Store) Unpark(ctx context.Context, id string, fences ordering.Fences) error {
	return s.write(ctx, "unpark", func(ctx context.Context, tx *transaction) error {
		if err := s.backend.lockParking(ctx, tx, id, fences); err != nil {
			return err
		}
		err := each(ctx, tx, func(scan func(...any) error) error {
			var stream string
			if err := scan(&stream); err != nil {
				return err
			}
			key, err := lockkeys.Parse(stream)
			if _, has := fences[key]; err == nil && !has {
				err = fenced(stream, 0)
			}
			return err
		}, `SELECT stream FROM ordering_streams WHERE parking = $1 AND parking <> ''`, id)
		if err != nil {
			return err
		}
		return unpark(ctx, tx, id)
	})
}

func unpark(ctx context.Context, tx *transaction, id string) error {
	if id == "" {
		return nil
	}
	for _, statement := range []string{
		`UPDATE ordering_streams SET parking = '', closed_at = 0 WHERE parking = $1`,
		`DELETE FROM ordering_parked_events WHERE parking = $1`,
		`DELETE FROM ordering_parkings WHERE id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// manyParkings is from how many on all are read to find those that are wanted.
const manyParkings = 100

// Parked implements [ordering.Store].
func (s *Store) Parked(ctx context.Context, ids ...string) (list []ordering.Parking, err error) {
	const all, closed = `SELECT body FROM ordering_parkings`, `SELECT parking, stream, closed_at FROM ordering_streams WHERE parking <> ''`
	if len(ids) == 0 {
		return s.parked(ctx, all, closed, nil)
	}
	if len(ids) < manyParkings {
		in := ` IN ($1`
		args := []any{ids[0]}
		for i, id := range ids[1:] {
			in += fmt.Sprintf(`, $%d`, i+2)
			args = append(args, id)
		}
		return s.parked(ctx, all+` WHERE id`+in+`)`, closed+` AND parking`+in+`)`, args)
	}
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	list, err = s.parked(ctx, all, closed, nil)
	return slices.DeleteFunc(list, func(p ordering.Parking) bool { return !wanted[p.ID] }), err
}

// parked lists parkings, which a query gives, with their streams, which another
// one gives.
func (s *Store) parked(ctx context.Context, parkings, streams string, args []any) (list []ordering.Parking, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.snapshot()})
	if err != nil {
		return nil, storeError("parked", err)
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
		return nil, storeError("parked", err)
	}
	err = each(ctx, tx, func(scan func(...any) error) error {
		var id, stream string
		var p ordering.Position
		err := scan(&id, &stream, &p.Number)
		if err != nil {
			return err
		}
		if p.Stream, err = lockkeys.Parse(stream); err != nil {
			return err
		}
		if i, ok := byID[id]; ok {
			list[i].Streams = append(list[i].Streams, p)
		}
		return nil
	}, streams, args...)
	for i := range list {
		sortPositions(list[i].Streams)
	}
	return list, storeError("parked", err)
}
