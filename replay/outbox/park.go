package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Parked is an event that no relay sends until an operator decides. It is the
// next one on each of its streams, and later ones wait.
type Parked struct {
	Event     string              // its ID
	Positions []ordering.Position // its numbers, in order of the streams; without End
	Error     string              // why it is parked, cut after 4 KiB
	Attempts  int                 // number of failed ones in a row; 0 if the event cannot be read
	Since     time.Time
}

// Parked lists the events that are parked, longest first.
func (o *Outbox) Parked(ctx context.Context) ([]Parked, error) {
	list, err := o.parked(ctx)
	if err != nil {
		return nil, fmt.Errorf("outbox: list parked events: %w", err)
	}
	return list, nil
}

func (o *Outbox) parked(ctx context.Context) ([]Parked, error) {
	found, err := o.db.QueryContext(ctx, `SELECT e.name, k.attempts, k.since, k.error, s.stream, p.number
		FROM outbox_parked k
		JOIN outbox_events e ON e.id = k.event AND e.sent IS NULL
		JOIN outbox_positions p ON p.event = k.event
		JOIN outbox_streams s ON s.id = p.stream
		ORDER BY k.since, k.event, s.stream`)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var list []Parked
	for found.Next() {
		var p Parked
		var since int64
		var stream string
		var place uint64
		if err := found.Scan(&p.Event, &p.Attempts, &since, &p.Error, &stream, &place); err != nil {
			return nil, err
		}
		key, err := lockkeys.Parse(stream)
		if err != nil {
			return nil, err
		}
		if n := len(list); n == 0 || list[n-1].Event != p.Event {
			p.Since = time.UnixMicro(since)
			list = append(list, p)
		}
		last := &list[len(list)-1]
		last.Positions = append(last.Positions, ordering.PositionAt(key, place))
	}
	return list, found.Err()
}

// unfit is an event that a relay will park.
type unfit struct {
	id       int64
	name     string // the event's ID
	position string
	attempts int
	err      error
}

// hopeless reports whether a failed event is to be parked.
func (c RelayConfig) hopeless(attempts int, err error) bool {
	return dispatcher.IsPermanent(err) || c.MaxAttempts > 0 && attempts >= c.MaxAttempts
}

// park parks the unfit events. Once ctx has ended it parks none, since that may
// have interrupted their attempts.
func (l *leader) park(ctx context.Context) error {
	if len(l.unfit) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, databaseTimeout)
	defer cancel()
	parked, err := l.storeParked(ctx)
	if err != nil {
		return fmt.Errorf("outbox: park events: %w", err)
	}
	for _, u := range parked {
		l.stats.parked.Add(1)
		l.config.Logger.Error("outbox: event cannot be sent and its streams are parked: resume, skip or drop it",
			"event", u.name, "position", u.position, "attempts", u.attempts, "err", u.err)
	}
	l.unfit = nil
	return nil
}

// storeParked returns the events that were not parked or sent by another relay.
func (l *leader) storeParked(ctx context.Context) (parked []unfit, err error) {
	tx, err := l.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // says that it is done already after Commit
	for _, u := range l.unfit {
		done, err := tx.ExecContext(ctx, `INSERT INTO outbox_parked (event, attempts, since, error)
			SELECT id, $2, $3, $4 FROM outbox_events WHERE id = $1 AND sent IS NULL
			ON CONFLICT (event) DO NOTHING`, u.id, u.attempts, time.Now().UnixMicro(), errorText(u.err))
		if err != nil {
			return nil, err
		}
		n, err := done.RowsAffected()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			parked = append(parked, u)
		}
	}
	return parked, tx.Commit()
}

// errorText returns the text of an error in a form that every database can store.
func errorText(err error) string { return text(err.Error()) }

// text returns a text in a form that every database can store, cut after 4 KiB.
func text(of string) string {
	const most = 4 << 10
	of = of[:min(len(of), most)]
	return strings.ReplaceAll(strings.ToValidUTF8(of, "\uFFFD"), "\x00", "\uFFFD")
}
