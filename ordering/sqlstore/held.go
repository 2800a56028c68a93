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
	// In an order that is the same for all: then transactions do not deadlock.
	events = slices.SortedStableFunc(slices.Values(events), func(a, b *ordering.Event) int {
		return strings.Compare(a.Name(), b.Name())
	})
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
			if err := hold(ctx, tx, ordering.HeldEvent{Event: e}); err != nil {
				return err
			}
		}
		return nil
	})
}

// hold keeps an event, if it is not there already.
func hold(ctx context.Context, tx *transaction, h ordering.HeldEvent) error {
	body, err := json.Marshal(h.Event)
	if err != nil {
		return err
	}
	name := h.Name()
	result, err := tx.ExecContext(ctx, `INSERT INTO ordering_held (event, body, attempts, started) VALUES ($1, $2, $3, $4)
		ON CONFLICT (event) DO NOTHING`, name, string(body), int64(h.Attempts), toMicros(h.Started))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for _, p := range h.Positions {
		if _, err := tx.ExecContext(ctx, `INSERT INTO ordering_held_positions (stream, number, event) VALUES ($1, $2, $3)`,
			p.Stream.String(), int64(p.Number), name); err != nil {
			return err
		}
	}
	return nil
}

func forgetHeld(ctx context.Context, tx *transaction, event string) error {
	for _, statement := range []string{
		`DELETE FROM ordering_held_positions WHERE event = $1`,
		`DELETE FROM ordering_held WHERE event = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, event); err != nil {
			return err
		}
	}
	return nil
}

// Held implements [ordering.Store].
func (s *Store) Held(ctx context.Context, stream lockkeys.Key, from uint64, limit int) (list []ordering.HeldEvent, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.gate.leave()
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
	}, `SELECT h.body, h.attempts, h.started FROM ordering_held_positions p JOIN ordering_held h ON h.event = p.event
		WHERE p.stream = $1 AND p.number >= $2 ORDER BY p.number, p.event LIMIT $3`,
		stream.String(), int64(min(from, ordering.MaxNumber)), max(limit, 0))
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
