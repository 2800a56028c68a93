package sqlstore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Hold implements [ordering.Store].
func (s *Store) Hold(ctx context.Context, events []*ordering.Event, fences ordering.Fences) error {
	if slices.Contains(events, nil) {
		return ordering.ErrNilEvent
	}
	needed := ordering.Fences{}
	for _, e := range events {
		for _, p := range e.Positions {
			needed[p.Stream] = fences[p.Stream]
		}
	}
	return s.write(ctx, "hold", func(ctx context.Context, tx *transaction) error {
		if err := s.backend.check(ctx, tx, needed); err != nil {
			return err
		}
		for _, e := range events {
			id, err := heldID(ctx, tx, e.Positions)
			if err == nil && id != 0 {
				err = confirm(ctx, tx, id, e)
			} else if err == nil {
				err = hold(ctx, tx, ordering.HeldEvent{Event: e})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// hold keeps an event that is not there.
func hold(ctx context.Context, tx *transaction, h ordering.HeldEvent) error {
	body, err := json.Marshal(h.Event)
	if err != nil {
		return err
	}
	var id int64
	err = each(ctx, tx, func(scan func(...any) error) error { return scan(&id) },
		`INSERT INTO ordering_held (size, attempts, started, body) VALUES ($1, $2, $3, $4) RETURNING id`,
		len(body), int64(h.Attempts), toMicros(h.Started), string(body))
	if err != nil {
		return err
	}
	for _, p := range h.Positions {
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_held_positions (stream, number, id) VALUES ($1, $2, $3)`,
			p.Stream.String(), int64(p.Number), id); err != nil {
			return err
		}
	}
	return nil
}

// confirm gives an error if a held event is another one than e, which has the
// same numbers.
func confirm(ctx context.Context, tx *transaction, id int64, e *ordering.Event) error {
	var body string
	err := each(ctx, tx, func(scan func(...any) error) error { return scan(&body) }, `SELECT body FROM ordering_held WHERE id = $1`, id)
	if err != nil {
		return err
	}
	var held ordering.Event
	if err := json.Unmarshal([]byte(body), &held); err != nil || held.IsCopy(e) {
		return err
	}
	return &ordering.ConflictError{Event: e, Position: e.Positions[0], Other: held.Name()}
}

// heldID returns the key of the held event with these numbers, 0 for none.
func heldID(ctx context.Context, tx *transaction, positions []ordering.Position) (found int64, err error) {
	if len(positions) == 0 {
		return 0, nil
	}
	var ids []int64
	err = each(ctx, tx, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM ordering_held_positions WHERE stream = $1 AND number = $2`, positions[0].Stream.String(), int64(positions[0].Number))
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		left := map[place]bool{}
		for _, p := range placesOf(positions) {
			left[p] = true
		}
		same := true
		err := each(ctx, tx, func(scan func(...any) error) error {
			var p place
			err := scan(&p.stream, &p.number)
			same = same && left[p]
			delete(left, p)
			return err
		}, `SELECT stream, number FROM ordering_held_positions WHERE id = $1`, id)
		if err != nil {
			return 0, err
		}
		if same && len(left) == 0 {
			return id, nil
		}
	}
	return 0, nil
}

// forgetHeld forgets the held event with these numbers, if there is one.
func forgetHeld(ctx context.Context, tx *transaction, positions []ordering.Position) error {
	id, err := heldID(ctx, tx, positions)
	if err != nil || id == 0 {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM ordering_held_positions WHERE id = $1`,
		`DELETE FROM ordering_held WHERE id = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

// Forget implements [ordering.Store].
func (s *Store) Forget(ctx context.Context, e *ordering.Event, fences ordering.Fences) error {
	if e == nil {
		return ordering.ErrNilEvent
	}
	needed := ordering.Fences{}
	for _, p := range e.Positions {
		needed[p.Stream] = fences[p.Stream]
	}
	return s.write(ctx, "forget", func(ctx context.Context, tx *transaction) error {
		if err := s.backend.check(ctx, tx, needed); err != nil {
			return err
		}
		return forgetHeld(ctx, tx, e.Positions)
	})
}

// Held implements [ordering.Store].
func (s *Store) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) (list []ordering.HeldEvent, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	if from > ordering.MaxNumber {
		return nil, nil
	}
	err = each(ctx, s.db, func(scan func(...any) error) error {
		h := ordering.HeldEvent{Event: &ordering.Event{}}
		var body string
		var started int64
		if err := scan(&body, &h.Attempts, &started); err != nil {
			return err
		}
		h.Started = fromMicros(started)
		list = append(list, h)
		return json.Unmarshal([]byte(body), h.Event)
	}, `WITH page AS (
			SELECT p.number, p.id, sum(h.size) OVER (ORDER BY p.number, p.id) AS total, row_number() OVER (ORDER BY p.number, p.id) AS place
			FROM (SELECT number, id FROM ordering_held_positions WHERE stream = $1 AND number >= $2 ORDER BY number, id LIMIT $3) p
			JOIN ordering_held h ON h.id = p.id)
		SELECT h.body, h.attempts, h.started FROM page JOIN ordering_held h ON h.id = page.id
		WHERE page.place = 1 OR page.total <= $4 ORDER BY page.place`,
		stream.String(), int64(from), max(limit, 0), size)
	return list, storeError("held", err)
}

// Backlog implements [ordering.Store].
func (s *Store) Backlog(ctx context.Context) (list []lockkeys.Key, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	err = each(ctx, s.db, func(scan func(...any) error) error {
		var stream string
		if err := scan(&stream); err != nil {
			return err
		}
		key, err := lockkeys.Parse(stream)
		list = append(list, key)
		return err
	}, `SELECT DISTINCT p.stream FROM ordering_held_positions p
		LEFT JOIN ordering_streams s ON s.stream = p.stream
		WHERE coalesce(s.parking, '') = '' ORDER BY p.stream`)
	return list, storeError("backlog", err)
}

// clean makes text fit for any database: PostgreSQL takes neither NUL nor what
// is not UTF-8.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
