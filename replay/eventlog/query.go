package eventlog

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/interlock-go/interlock/internal/settings"
	"github.com/interlock-go/interlock/lockkeys"
)

// Query says which entries to read, and in which order. Its conditions apply
// together; the zero value stands for all entries of partition 0.
type Query struct {
	// Stream asks for the entries of a stream, in the order of its versions. Default:
	// those of a partition, in the order of their places; so those of the root, as a stream,
	// cannot be asked for.
	Stream lockkeys.Key
	// Partition is the partition, if Stream is not set.
	Partition int
	// After asks for versions, or places, above this one, and Before for those below
	// this one. In epoch 0 they are simply numbers; see [ordering.Position.Place] for
	// later ones. 0 for Before is no bound. Both are at most [math.MaxInt64].
	After, Before uint64
	// Backwards asks for the last ones first.
	Backwards bool
	// Types asks for events of these types alone, as they were written, before any
	// [Upcaster]. It has no index: entries of other types are passed over, without their
	// events.
	Types []string
	// Correlation asks for events with this correlation ID alone.
	Correlation string
	// Until asks for what had been appended at a time, as of the clock that the
	// entries' times are from. The zero value is no bound.
	Until time.Time
	// Limit bounds the number of entries. 0 is no bound.
	Limit int
}

func (l *Log) checkQuery(q Query) error {
	var p settings.Problems
	l.checkPartition(&p, q.Partition)
	p.Add(!q.Stream.IsRoot() && q.Partition != 0, "both Stream and Partition are set: a stream is in one partition")
	p.Add(q.After > math.MaxInt64, "After is %d: no number and no place is above %d", q.After, int64(math.MaxInt64))
	p.Add(q.Before > math.MaxInt64, "Before is %d: no number and no place is above %d; 0 is no bound", q.Before, int64(math.MaxInt64))
	year := q.Until.Year()
	p.Add(year < 0 || year > 9999, "Until is in the year %d: it must be in the years 0 to 9999; the zero value is no bound", year)
	p.Add(q.Limit < 0, "Limit is %d: it must not be negative", q.Limit)
	return p.Err(ErrQuery)
}

func (l *Log) checkPartition(p *settings.Problems, n int) {
	p.Add(n < 0 || n >= l.config.Partitions, "Partition is %d: it must be from 0 to %d", n, l.config.Partitions-1)
}

// statement returns the SQL for the first n entries of a query, and its arguments. Its
// columns are log, place, the number by which the entries are sorted, at, type, name and
// body; log is null for an event that is in no partition, and name for an entry
// without an event.
func (l *Log) statement(q Query, n int) (text string, args []any) {
	var b strings.Builder
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	number := "x.place"
	if q.Stream.IsRoot() {
		b.WriteString(`SELECT x.log, x.place, x.place, x.at, t.name, e.name, e.body
			FROM eventlog_entries x ` + l.byCorrelation(q) + `LEFT JOIN outbox_types t ON t.id = x.type
			LEFT JOIN outbox_events e ON e.id = x.event WHERE x.log = ` + arg(q.Partition))
	} else {
		number = "p.number"
		b.WriteString(`SELECT x.log, x.place, p.number, coalesce(x.at, 0), coalesce(t.name, ''), e.name, e.body
			FROM outbox_positions p LEFT JOIN eventlog_entries x ON x.event = p.event LEFT JOIN outbox_types t ON t.id = x.type
			LEFT JOIN outbox_events e ON e.id = p.event WHERE p.stream = (SELECT id FROM outbox_streams WHERE stream = ` + arg(q.Stream.String()) + `)`)
	}
	if q.After > 0 {
		b.WriteString(" AND " + number + " > " + arg(int64(q.After)))
	}
	if q.Before > 0 {
		b.WriteString(" AND " + number + " < " + arg(int64(q.Before)))
	}
	if len(q.Types) > 0 {
		list := make([]string, len(q.Types))
		for i, t := range q.Types {
			list[i] = "(SELECT id FROM outbox_types WHERE name = " + arg(t) + ")"
		}
		b.WriteString(" AND x.type IN (" + strings.Join(list, ", ") + ")")
	}
	if q.Correlation != "" {
		b.WriteString(" AND x.correlation = " + arg(q.Correlation) + " AND x.correlation <> ''")
	}
	if !q.Until.IsZero() {
		b.WriteString(" AND x.at <= " + arg(q.Until.UnixMicro()))
	}
	b.WriteString(" ORDER BY " + number)
	if q.Backwards {
		b.WriteString(" DESC")
	}
	b.WriteString(" LIMIT " + arg(n))
	return b.String(), args
}

// byCorrelation names the index for a correlation ID, where the database is to be told:
// SQLite, which does not count how many entries have one, reads the whole partition.
func (l *Log) byCorrelation(q Query) string {
	if l.dialect == SQLite && q.Correlation != "" {
		return "INDEXED BY eventlog_entries_correlation "
	}
	return ""
}
