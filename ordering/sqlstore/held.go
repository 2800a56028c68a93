package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// checkHeld returns an error for an event that cannot be held.
func checkHeld(e *ordering.Event) error {
	switch {
	case e == nil:
		return ordering.ErrNilEvent
	case len(e.Positions) == 0:
		return &ordering.EventError{ID: e.ID, Reason: ordering.ErrNoPosition}
	}
	return nil
}

// Hold implements [ordering.Term].
func (t *term) Hold(ctx context.Context, events []*ordering.Event, fences ordering.Fences) error {
	needed := ordering.Fences{}
	for _, e := range events {
		if err := checkHeld(e); err != nil {
			return err
		}
		for _, p := range e.Positions {
			needed[p.Stream] = fences[p.Stream]
		}
	}
	return t.write(ctx, "hold", func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.check(ctx, tx, t.termOf, needed); err != nil {
			return err
		}
		more := map[string]int64{}
		for _, e := range events {
			id, err := heldID(ctx, tx, t.consumer, e.Positions)
			if err == nil && id != 0 {
				err = confirm(ctx, tx, id, e)
			} else if err == nil {
				err = hold(ctx, tx, t.consumer, ordering.HeldEvent{Event: e}, more)
			}
			if err != nil {
				return err
			}
		}
		return countHeld(ctx, tx, t.consumer, more)
	})
}

// hold stores an event unless it is held already; then it also counts it in more, for
// each of its streams.
func hold(ctx context.Context, tx *transaction, consumer int64, h ordering.HeldEvent, more map[string]int64) error {
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
		stream := p.Stream.String()
		more[stream]++
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_held_positions (consumer, stream, number, id) VALUES ($1, $2, $3, $4)`,
			consumer, stream, int64(p.Place()), id); err != nil {
			return err
		}
	}
	return nil
}

// countHeld adds to the number of held events of each stream, in sorted order,
// so that transactions do not deadlock.
func countHeld(ctx context.Context, tx *transaction, consumer int64, more map[string]int64) error {
	for _, stream := range slices.Sorted(maps.Keys(more)) {
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_streams (consumer, stream, last, held) VALUES ($1, $2, 0, $3)
			ON CONFLICT (consumer, stream) DO UPDATE SET held = ordering_streams.held + excluded.held`, consumer, stream, more[stream]); err != nil {
			return err
		}
	}
	return nil
}

// confirm returns an error if the held event with the numbers of e is a
// different event.
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

// heldID returns the row ID of the held event with these numbers, or 0 if there
// is none.
func heldID(ctx context.Context, tx *transaction, consumer int64, positions []ordering.Position) (found int64, err error) {
	if len(positions) == 0 {
		return 0, nil
	}
	var ids []int64
	err = each(ctx, tx, func(scan func(...any) error) error {
		var id int64
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, `SELECT id FROM ordering_held_positions WHERE consumer = $1 AND stream = $2 AND number = $3`, consumer, positions[0].Stream.String(), int64(positions[0].Place()))
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

// forgetHeld deletes the held event with these numbers, if there is one.
func forgetHeld(ctx context.Context, tx *transaction, consumer int64, positions []ordering.Position) error {
	id, err := heldID(ctx, tx, consumer, positions)
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
	less := map[string]int64{}
	for _, p := range placesOf(positions) {
		less[p.stream]--
	}
	return countHeld(ctx, tx, consumer, less)
}

// Forget implements [ordering.Term].
func (t *term) Forget(ctx context.Context, e *ordering.Event, fences ordering.Fences) error {
	if err := checkHeld(e); err != nil {
		return err
	}
	needed := ordering.Fences{}
	for _, p := range e.Positions {
		needed[p.Stream] = fences[p.Stream]
	}
	return t.write(ctx, "forget", func(ctx context.Context, tx *transaction) error {
		if err := t.store.backend.check(ctx, tx, t.termOf, needed); err != nil {
			return err
		}
		return forgetHeld(ctx, tx, t.consumer, e.Positions)
	})
}

// errEnough ends the reading of a page.
var errEnough = errors.New("enough")

// The query for a page of the held events of a stream, from a number on. It limits
// their count and their bytes. On SQLite the limit of bytes is left to the caller:
// SQLite reads row by row anyway, and compiles the query each time.
const (
	heldRows   = `ordering_held_positions WHERE consumer = $1 AND stream = $2 AND number >= $3 ORDER BY number, id LIMIT $4`
	sqliteHeld = `SELECT h.body, h.size, h.attempts, h.started FROM (SELECT number, id FROM ` + heldRows + `) p
		JOIN ordering_held h ON h.id = p.id WHERE $5 IS NOT NULL ORDER BY p.number, p.id`
	postgresHeld = `WITH page AS (
			SELECT p.number, p.id, sum(h.size) OVER (ORDER BY p.number, p.id) AS total, row_number() OVER (ORDER BY p.number, p.id) AS place
			FROM (SELECT number, id FROM ` + heldRows + `) p JOIN ordering_held h ON h.id = p.id)
		SELECT h.body, h.size, h.attempts, h.started FROM page JOIN ordering_held h ON h.id = page.id
		WHERE page.place = 1 OR page.total <= $5 ORDER BY page.place`
)

func (*sqlite) heldPage() string   { return sqliteHeld }
func (*postgres) heldPage() string { return postgresHeld }

// Held implements [ordering.Reader].
func (r reader) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int, size int64) (list []ordering.HeldEvent, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	consumer, err := r.store.consumer(ctx, r.name)
	if err != nil || consumer == 0 || from > ordering.MaxPlace {
		return nil, storeError("held", err)
	}
	err = each(ctx, r.store.db, func(scan func(...any) error) error {
		h := ordering.HeldEvent{Event: &ordering.Event{}}
		var body string
		var bytes, started int64
		if err := scan(&body, &bytes, &h.Attempts, &started); err != nil {
			return err
		}
		if size -= bytes; size < 0 && len(list) > 0 {
			return errEnough
		}
		h.Started = fromMicros(started)
		list = append(list, h)
		return json.Unmarshal([]byte(body), h.Event)
	}, r.store.backend.heldPage(), consumer, stream.String(), int64(from), max(limit, 0), size)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, storeError("held", err)
}

// Backlog implements [ordering.Reader].
func (r reader) Backlog(ctx context.Context) (list []lockkeys.Key, err error) {
	if err := r.store.enter(ctx); err != nil {
		return nil, err
	}
	defer r.store.gate.leave()
	consumer, err := r.store.consumer(ctx, r.name)
	if err != nil || consumer == 0 {
		return nil, storeError("backlog", err)
	}
	err = each(ctx, r.store.db, func(scan func(...any) error) error {
		var stream string
		if err := scan(&stream); err != nil {
			return err
		}
		key, err := lockkeys.Parse(stream)
		list = append(list, key)
		return err
	}, `SELECT DISTINCT p.stream FROM ordering_held_positions p
		LEFT JOIN ordering_streams s ON s.consumer = p.consumer AND s.stream = p.stream
		WHERE p.consumer = $1 AND coalesce(s.parking, '') = '' ORDER BY p.stream`, consumer)
	return list, storeError("backlog", err)
}

// Reached implements [ordering.Reader].
func (r reader) Reached(ctx context.Context, stream lockkeys.Key) (last uint64, err error) {
	if err := r.store.enter(ctx); err != nil {
		return 0, err
	}
	defer r.store.gate.leave()
	consumer, err := r.store.consumer(ctx, r.name)
	if err != nil || consumer == 0 {
		return 0, storeError("reached", err)
	}
	err = each(ctx, r.store.db, func(scan func(...any) error) error { return scan(&last) },
		`SELECT last FROM ordering_streams WHERE consumer = $1 AND stream = $2`, consumer, stream.String())
	return last, storeError("reached", err)
}

// clean makes text valid for any database: PostgreSQL accepts neither NUL nor
// invalid UTF-8.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
