package durable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/interlock-go/interlock/bench/internal/stat"
)

// Contenders.
const (
	OneByOne  = "one by one"         // a plain loop on one connection, a transaction for each event
	ByHand    = "grouped"            // the same with as many events in a transaction as the sequencer has
	Pipelined = "grouped, pipelined" // and all statements of a transaction sent at once
	Interlock = "interlock"          // the sequencer and its store; on PostgreSQL, handlers queue their statements
	Waiting   = "interlock, sql.Tx"  // with handlers that wait for each statement, on PostgreSQL
)

// Throughput is how fast contenders write the ledger into a database.
type Throughput struct {
	Database  string
	Load      Load
	Workers   int           // of the sequencer
	Entries   int           // per round
	Distance  time.Duration // what the link to the server adds to a round trip
	RoundTrip time.Duration // what one takes at best; 0 without a server
	Flush     time.Duration // of one page, to the disk that the database is on
	Group     float64       // events in one of the sequencer's transactions, in the mean; 0 if unknown
	Rows      []Row
}

// Row is one contender's result.
type Row struct {
	Contender string
	times     []float64 // ns per event, by round
}

// NS returns what an event took, in nanoseconds, in the median round.
func (r Row) NS() float64 { return stat.Median(r.times) }

// PerSecond returns the events per second in the median round.
func (r Row) PerSecond() float64 { return 1e9 / r.NS() }

// Times returns how many times as fast as other it was in the same round; in
// the median round.
func (r Row) Times(other Row) float64 {
	ratios := make([]float64, len(r.times))
	for i := range ratios {
		ratios[i] = other.times[i] / r.times[i]
	}
	return stat.Median(ratios)
}

// contender writes entries, in their order as far as they have accounts in
// common.
type contender struct {
	name  string
	write func(ctx context.Context, entries []entry) error
	db    *sql.DB // where they are then
}

// race gives all contenders the same entries, round by round, each in a
// database of its own, and compares the books in the end. The first round
// warms up and is not counted.
func race(ctx context.Context, load Load, rounds, n int, contenders []contender) ([]Row, error) {
	rows := make([]Row, len(contenders))
	l := newLedger(load)
	for round := range rounds + 1 {
		entries := l.entries(n)
		for i := range contenders {
			at := (i + round) % len(contenders)
			c := contenders[at]
			runtime.GC()
			start := time.Now()
			if err := c.write(ctx, entries); err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			if round > 0 {
				rows[at].times = append(rows[at].times, float64(time.Since(start))/float64(n))
			}
		}
	}
	var books []book
	for i, c := range contenders {
		rows[i].Contender = c.name
		b, err := readBook(ctx, c.db)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if books = append(books, b); b != books[0] {
			return nil, fmt.Errorf("%s has other books than %s: %+v, %+v", c.name, contenders[0].name, b, books[0])
		}
	}
	return rows, nil
}

// book is the gist of a ledger's tables.
type book struct{ accounts, total, squares, journal int64 }

func readBook(ctx context.Context, db *sql.DB) (b book, err error) {
	balances := db.QueryRowContext(ctx, `SELECT COUNT(*), CAST(SUM(amount) AS BIGINT), CAST(SUM(amount * amount) AS BIGINT) FROM balances`)
	journal := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM journal`)
	err = errors.Join(balances.Scan(&b.accounts, &b.total, &b.squares), journal.Scan(&b.journal))
	return b, err
}

// groupOf is the number of entries that are grouped by hand: as many as the
// sequencer has in a transaction in the mean, and 64 of the hot account.
func groupOf(load Load, mean float64) int {
	if load == Hot {
		return 64
	}
	return max(1, int(math.Round(mean)))
}

// Row returns a contender's result.
func (t Throughput) Row(contender string) Row {
	for _, r := range t.Rows {
		if r.Contender == contender {
			return r
		}
	}
	panic("durable: no result of " + contender)
}

// Write writes a table in Markdown.
func (t Throughput) Write(w io.Writer) error {
	one := t.Row(OneByOne)
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d workers: to append a page to a file and flush it to the disk takes %v.", t.Database, t.Load, t.Workers, t.Flush.Round(time.Microsecond))
	if t.RoundTrip > 0 {
		fmt.Fprintf(&b, "\nA round trip to the server takes %v.", t.RoundTrip.Round(10*time.Microsecond))
	}
	if t.Group > 0 {
		fmt.Fprintf(&b, " The sequencer's transactions\nhad %.1f events in the mean.", t.Group)
	}
	fmt.Fprint(&b, "\n\n| contender | µs per event | events per second | times one by one |\n| --- | ---: | ---: | ---: |\n")
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.2f |\n", r.Contender, r.NS()/1000, r.PerSecond(), r.Times(one))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
