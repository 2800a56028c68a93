package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// Bounds of a run: what is loaded before its first event is confirmed. One
// event may be larger.
const (
	maxRun      = 32
	maxRunBytes = 64 << 10
)

// spare is how many more streams are looked at than may be started, since some
// are busy.
const spare = 32

// head is the first event of a stream that is not marked as sent.
type head struct {
	stream string
	number int64
	event  int64
	ready  bool // it is the first one on all its streams
}

// find starts runs while there is room and there are streams to be sent. It
// goes round them all, so that none is forgotten when there are many.
func (l *leader) find(stopped, work context.Context) error {
	if len(l.waiting) >= l.config.MaxFailing {
		return nil
	}
	began, again := l.cursor, false // again: the part up to began is left
	for l.sending < l.config.Window {
		room := l.config.Window - l.sending
		heads, err := l.heads(work, room+spare)
		if err != nil {
			return err
		}
		chosen, all := l.choose(heads, room)
		if err := l.load(stopped, work, chosen); err != nil {
			return err
		}
		switch {
		case again && l.cursor >= began:
			return nil
		case all && len(heads) < room+spare: // these were the last ones
			if again || began == "" {
				l.cursor = ""
				return nil
			}
			l.cursor, again = "", true
		}
	}
	return nil
}

// heads returns the heads of the streams after the cursor, in the order of the
// streams, limit of them at most. It jumps from stream to stream in the index,
// however many events each has.
func (l *leader) heads(ctx context.Context, limit int) ([]head, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	found, err := l.db.QueryContext(ctx, `WITH RECURSIVE unsent (stream, n) AS (
			SELECT (SELECT stream FROM outbox_positions WHERE NOT sent AND stream > $1 ORDER BY stream LIMIT 1), 1
			UNION ALL
			SELECT (SELECT p.stream FROM outbox_positions p WHERE NOT p.sent AND p.stream > u.stream ORDER BY p.stream LIMIT 1), u.n + 1
			FROM unsent u WHERE u.stream IS NOT NULL AND u.n < $2
		)
		SELECT h.stream, h.number, h.event, NOT EXISTS (
			SELECT 1 FROM outbox_positions mine JOIN outbox_positions before
			ON before.stream = mine.stream AND before.number < mine.number AND NOT before.sent
			WHERE mine.event = h.event)
		FROM unsent u JOIN outbox_positions h ON h.stream = u.stream AND h.number =
			(SELECT p.number FROM outbox_positions p WHERE NOT p.sent AND p.stream = u.stream ORDER BY p.number LIMIT 1)
		ORDER BY u.n`, l.cursor, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: find events to send: %w", err)
	}
	defer found.Close()
	var heads []head
	for found.Next() {
		var h head
		if err := found.Scan(&h.stream, &h.number, &h.event, &h.ready); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, found.Err()
}

// choose returns those of the heads that can be started, limit of them at
// most, and moves the cursor to the last stream that it looked at. It tells
// whether that was the last one of all.
func (l *leader) choose(heads []head, limit int) (chosen []head, all bool) {
	taken := map[int64]bool{} // an event with several streams comes with each
	for _, h := range heads {
		if len(chosen) == limit {
			return chosen, false
		}
		l.cursor = h.stream
		if _, busy := l.busy[h.stream]; h.ready && !busy && !taken[h.event] {
			taken[h.event] = true
			chosen = append(chosen, h)
		}
	}
	return chosen, true
}

// load makes runs of chosen heads and what follows them, and starts them. The
// events behind a head belong to its run while they, and the head, are on this
// stream alone.
func (l *leader) load(stopped, work context.Context, chosen []head) error {
	if len(chosen) == 0 {
		return nil
	}
	runs, err := l.runs(work, chosen)
	if err != nil {
		return fmt.Errorf("outbox: load events to send: %w", err)
	}
	for _, r := range runs {
		for _, stream := range r.streams {
			l.busy[stream] = struct{}{}
		}
		l.start(stopped, work, r)
	}
	return nil
}

func (l *leader) runs(ctx context.Context, chosen []head) ([]*run, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	args := make([]any, 0, 2*len(chosen)+2)
	for _, h := range chosen {
		args = append(args, h.stream, h.number)
	}
	found, err := l.db.QueryContext(ctx, fmt.Sprintf(`WITH heads (stream, number) AS (
			SELECT CAST(NULL AS TEXT), CAST(NULL AS BIGINT) WHERE FALSE UNION ALL VALUES %[1]s
		), behind (stream, number, event, ahead, most, bytes) AS (
			SELECT p.stream, p.number, p.event, p.number - h.number,
				max(e.streams) OVER (PARTITION BY p.stream ORDER BY p.number),
				sum(e.size) OVER (PARTITION BY p.stream ORDER BY p.number)
			FROM heads h
			JOIN outbox_positions p ON p.stream = h.stream AND p.number >= h.number AND p.number < h.number + %[2]d
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT b.stream, b.ahead, e.id, e.body FROM behind b JOIN outbox_events e ON e.id = b.event
		WHERE b.ahead = 0 OR b.most = 1 AND b.bytes <= %[3]d
		ORDER BY b.stream, b.number`, rows(len(chosen), 2), maxRun, maxRunBytes), args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var runs []*run
	for found.Next() {
		var stream, body string
		var ahead int
		var s stored
		if err := found.Scan(&stream, &ahead, &s.id, &body); err != nil {
			return nil, err
		}
		if s.event, err = decode(s.id, body); err != nil {
			return nil, err
		}
		if ahead == 0 {
			runs = append(runs, &run{streams: streamsOf(s.event)})
		}
		last := runs[len(runs)-1]
		last.events = append(last.events, s)
	}
	return runs, found.Err()
}

func streamsOf(e *ordering.Event) []string {
	streams := make([]string, len(e.Positions))
	for i, p := range e.Positions {
		streams[i] = p.Stream.String()
	}
	return streams
}

func decode(id int64, body string) (*ordering.Event, error) {
	e := new(ordering.Event)
	err := json.Unmarshal([]byte(body), e)
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: the event in row %d of outbox_events cannot be read: %w", id, err)
	}
	return e, nil
}

// mark marks what was confirmed as sent.
func (l *leader) mark(ctx context.Context) error {
	if len(l.confirmed) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	if err := l.markSent(ctx); err != nil {
		return fmt.Errorf("outbox: mark events as sent: %w", err)
	}
	clear(l.confirmed)
	l.confirmed = l.confirmed[:0]
	return nil
}

func (l *leader) markSent(ctx context.Context) error {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	ids := rows(1, len(l.confirmed))
	if _, err := tx.ExecContext(ctx, `UPDATE outbox_positions SET sent = TRUE WHERE event IN `+ids, l.confirmed...); err != nil {
		return err
	}
	sent := fmt.Sprintf(`UPDATE outbox_events SET sent = %d WHERE id IN `, time.Now().UnixMicro())
	if _, err := tx.ExecContext(ctx, sent+ids, l.confirmed...); err != nil {
		return err
	}
	return tx.Commit()
}
