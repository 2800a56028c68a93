package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/internal/eventbody"
	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Bounds of the events loaded for a run. One event may be larger.
const (
	maxRun      = 32
	maxRunBytes = 64 << 10
)

// At first minPast more streams are examined than may be started, since some are
// busy; twice as many each time too few were free, up to maxPast.
const (
	minPast = 32
	maxPast = 1024
)

// head is the first event of a stream that is not marked as sent.
type head struct {
	row    int64 // of the stream in outbox_streams
	stream string
	number int64
	event  int64
}

// position returns the head's position for the log.
func (h head) position() string {
	key, err := lockkeys.Parse(h.stream)
	if err != nil { // the row cannot be read
		return fmt.Sprintf("%s, place %d", h.stream, h.number)
	}
	return ordering.PositionAt(key, uint64(h.number)).String()
}

// find starts runs while there is room and there are streams with unsent events.
// It goes round all streams, skipping busy ones, so that none is forgotten when
// there are many. After a round it rests until there is news, or for a Poll; while
// many fail also for as long as the round took, since that is linear in their
// number. When MaxFailing is reached, it always rests for a Poll, since nothing
// else delays the next attempts of further failed events.
func (l *leader) find(stopped, work context.Context) error {
	now := time.Now()
	if now.Before(l.rest) || now.Before(l.nextFind) && (!l.news || l.full()) {
		return nil
	}
	l.news, l.nextFind = false, now.Add(l.config.Poll)
	round := func() {
		if len(l.failures) > l.config.Window {
			l.rest = time.Now().Add(time.Since(now))
		}
	}
	seen := map[int64]bool{}        // events, since one with several streams comes with each
	began, again := l.cursor, false // again: only the part up to began is left
	for past := minPast; ; past = min(2*past, maxPast) {
		room := l.room().any
		if room <= 0 {
			l.news = true
			return nil
		}
		limit := room + past
		heads, err := l.heads(work, limit)
		if err != nil {
			return err
		}
		chosen, all := l.choose(heads, room, seen)
		runs, err := l.load(work, chosen)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if l.occupy(r.streams) {
				l.start(stopped, work, r)
			}
		}
		if l.cutAt != 0 {
			l.cursor = l.cutAt
			clear(seen)
			continue
		}
		switch {
		case again && l.cursor >= began:
			round()
			return nil
		case all && len(heads) < limit: // these were the last ones
			if again || began == 0 {
				l.cursor = 0
				round()
				return nil
			}
			l.cursor, again = 0, true
		}
	}
}

// heads returns the heads of the streams after the cursor, in the order of their
// rows, at most limit. It jumps from stream to stream in the index, however
// many events each has.
func (l *leader) heads(ctx context.Context, limit int) ([]head, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	found, err := l.box.relaying.query(ctx, l.db, findHeads, l.cursor, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: find events to send: %w", err)
	}
	defer found.Close()
	var heads []head
	for found.Next() {
		var h head
		if err := found.Scan(&h.row, &h.stream, &h.number, &h.event); err != nil {
			return nil, err
		}
		heads = append(heads, h)
	}
	return heads, found.Err()
}

const findHeads = `WITH RECURSIVE unsent (stream, n) AS (
		SELECT (SELECT stream FROM outbox_positions WHERE NOT sent AND stream > $1 ORDER BY stream LIMIT 1), 1
		UNION ALL
		SELECT (SELECT p.stream FROM outbox_positions p WHERE NOT p.sent AND p.stream > u.stream ORDER BY p.stream LIMIT 1), u.n + 1
		FROM unsent u WHERE u.stream IS NOT NULL AND u.n < $2
	)
	SELECT u.stream, (SELECT s.stream FROM outbox_streams s WHERE s.id = u.stream),
		(SELECT p.number FROM outbox_positions p WHERE NOT p.sent AND p.stream = u.stream ORDER BY p.number LIMIT 1),
		(SELECT p.event FROM outbox_positions p WHERE NOT p.sent AND p.stream = u.stream ORDER BY p.number LIMIT 1)
	FROM unsent u WHERE u.stream IS NOT NULL ORDER BY u.n`

// choose returns the heads whose streams are free, at most limit, and moves the
// cursor to the last stream examined. all reports whether that was the last head.
func (l *leader) choose(heads []head, limit int, seen map[int64]bool) (chosen []head, all bool) {
	for _, h := range heads {
		if len(chosen) == limit {
			return chosen, false
		}
		l.cursor = h.row
		if _, busy := l.busy[h.stream]; !busy && !seen[h.event] {
			seen[h.event] = true
			chosen = append(chosen, h)
		}
	}
	return chosen, true
}

// load returns runs of the chosen heads and the events behind them. Heads that
// cannot be read are parked.
func (l *leader) load(ctx context.Context, chosen []head) ([]*run, error) {
	l.cutAt = 0
	if len(chosen) == 0 {
		return nil, nil
	}
	runs, err := l.runs(ctx, chosen)
	if err != nil {
		return nil, fmt.Errorf("outbox: load events to send: %w", err)
	}
	return runs, l.park(ctx)
}

// runs loads the chosen heads that are the first ones on all their streams, and
// neither parked nor given up since they were chosen, in the order of the streams'
// rows and as far as MaxBytes allows, at least one; if MaxBytes ended it, cutAt is the
// row of the stream of the last one. The events behind a head belong to its run while
// they, and the head, are on this stream alone and can be read. A head that cannot be
// read is unfit.
func (l *leader) runs(ctx context.Context, chosen []head) ([]*run, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	args := make([]any, 0, 3*len(chosen))
	streams := make(map[int64]string, len(chosen))
	for _, h := range chosen {
		args = append(args, h.row, h.number, h.event)
		streams[h.row] = h.stream
	}
	found, err := l.box.relaying.query(ctx, l.db, loadRuns(l.box.dialect, len(chosen)), args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var runs []*run
	var last *run // nil behind an event that cannot be read
	room, before := l.config.MaxBytes-l.bytes, int64(0)
	for found.Next() {
		var name, kind string
		var body []byte
		var ahead int64
		var s stored
		if err := found.Scan(&s.at.row, &s.at.number, &ahead, &s.at.event, &name, &kind, &body); err != nil {
			return nil, err
		}
		s.at.stream = streams[s.at.row]
		size := int64(len(body))
		if ahead == 0 {
			if len(runs) > 0 && size > room {
				l.cutAt = before
				break
			}
			before = s.at.row
		}
		var bad error
		s.event, bad = decode(s.at.event, name, kind, body)
		switch {
		case bad != nil:
			last = nil
			if ahead == 0 {
				l.unfit = append(l.unfit, unfit{s.at.event, name, s.at.position(), 0, bad})
			}
			continue
		case ahead == 0:
			last = &run{streams: streamsOf(s.event)}
			runs = append(runs, last)
		}
		if last != nil {
			last.events = append(last.events, s)
			last.bytes += size
			room -= size
		}
	}
	return runs, found.Err()
}

func loadRuns(d Dialect, n int) string {
	return fmt.Sprintf(`WITH heads (stream, number, event) AS (
			VALUES %[1]s
		), ready (stream, number) AS (
			SELECT h.stream, h.number FROM heads h
			WHERE NOT EXISTS (SELECT 1 FROM outbox_parked k WHERE k.event = h.event) AND NOT EXISTS (
				SELECT 1 FROM outbox_positions mine WHERE mine.event = h.event AND (mine.sent OR mine.number >
					(SELECT p.number FROM outbox_positions p WHERE NOT p.sent AND p.stream = mine.stream ORDER BY p.number LIMIT 1)))
		), behind (stream, number, event, ahead, most, bytes) AS (
			SELECT p.stream, p.number, p.event, p.number - r.number,
				max(e.streams) OVER (PARTITION BY p.stream ORDER BY p.number),
				sum(e.size) OVER (PARTITION BY p.stream ORDER BY p.number)
			FROM ready r
			JOIN outbox_positions p ON p.stream = r.stream AND p.number >= r.number AND p.number < r.number + %[2]d
			JOIN outbox_events e ON e.id = p.event
		)
		SELECT b.stream, b.number, b.ahead, e.id, e.name, %[4]s, e.body FROM behind b JOIN outbox_events e ON e.id = b.event
		WHERE b.ahead = 0 OR b.most = 1 AND b.bytes <= %[3]d
		ORDER BY b.stream, b.number`,
		sqldb.Repeat(d, n, "(CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS BIGINT))"), maxRun, maxRunBytes, typeOf)
}

func streamsOf(e *ordering.Event) []string {
	streams := make([]string, len(e.Positions))
	for i, p := range e.Positions {
		streams[i] = p.Stream.String()
	}
	return streams
}

func decode(id int64, name, kind string, body []byte) (*ordering.Event, error) {
	e, err := eventbody.Decode(name, kind, body)
	if err != nil {
		return nil, fmt.Errorf("outbox: the event in row %d of outbox_events cannot be read: %w", id, err)
	}
	return e, nil
}
