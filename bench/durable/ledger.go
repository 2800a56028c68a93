package durable

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// The ledger: nine of ten messages move an amount from one of its accounts to
// another, so they have two positions; one pays in.
const (
	accounts  = 1000
	transfers = 0.9
)

// Load is which accounts the messages of the ledger use.
type Load string

const (
	// Spread: any of 1,000.
	Spread Load = "any of 1,000 accounts"
	// Hot: transfers are from one account, and deposits to it, so that all
	// messages must run one after the other.
	Hot Load = "all through one account"
)

// entry is a message of the ledger. Its event's payload is its place in its
// list.
type entry struct {
	event    *ordering.Event
	from, to string // from is "" for a deposit
	amount   int64
}

// ledger makes messages, always the same.
type ledger struct {
	load    Load
	random  *rand.Rand
	numbers [accounts]uint64
	made    int
}

func newLedger(l Load) *ledger { return &ledger{load: l, random: rand.New(rand.NewPCG(7, 7))} }

func (l *ledger) entries(n int) []entry {
	list := make([]entry, n)
	for i := range list {
		l.made++
		to, transfer := l.random.IntN(accounts), l.random.Float64() < transfers
		if l.load == Hot && !transfer {
			to = 0
		}
		e := entry{to: account(to), amount: 1 + l.random.Int64N(1000)}
		e.event = &ordering.Event{ID: "message-" + strconv.Itoa(l.made), Payload: binary.LittleEndian.AppendUint64(nil, uint64(i))}
		if transfer {
			from := (to + 1 + l.random.IntN(accounts-1)) % accounts
			if l.load == Hot {
				from, to = 0, 1+to%(accounts-1)
				e.to = account(to)
			}
			e.from = account(from)
			e.event.Positions = append(e.event.Positions, l.position(from))
		}
		e.event.Positions = append(e.event.Positions, l.position(to))
		list[i] = e
	}
	return list
}

func (l *ledger) position(i int) ordering.Position {
	l.numbers[i]++
	return ordering.Position{Stream: lockkeys.Must("account", account(i)), Number: l.numbers[i]}
}

func account(i int) string { return strconv.Itoa(100_000 + i) }

// tables are the ledger's own.
var tables = []string{
	`CREATE TABLE balances (account TEXT PRIMARY KEY, amount BIGINT NOT NULL)`,
	`CREATE TABLE journal (message TEXT PRIMARY KEY, debit TEXT NOT NULL, credit TEXT NOT NULL, amount BIGINT NOT NULL)`,
}

const (
	upsertBalance = `INSERT INTO balances (account, amount) VALUES ($1, $2)
		ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount`
	insertJournal = `INSERT INTO journal (message, debit, credit, amount) VALUES ($1, $2, $3, $4)`
)

// dialect is the kind of a database.
type dialect string

const (
	sqlite   dialect = "SQLite"
	postgres dialect = "PostgreSQL"
)

// text returns a statement in the database's own form: SQLite writes ?1 where
// PostgreSQL writes $1.
func (d dialect) text(statement string) string {
	if d == sqlite {
		return strings.ReplaceAll(statement, "$", "?")
	}
	return statement
}

// execer runs a statement in a transaction.
type execer func(ctx context.Context, statement string, args ...any) error

// apply is an entry's effect on the ledger's own tables.
func (e *entry) apply(ctx context.Context, exec execer) error {
	if e.from != "" {
		if err := exec(ctx, upsertBalance, e.from, -e.amount); err != nil {
			return err
		}
	}
	if err := exec(ctx, upsertBalance, e.to, e.amount); err != nil {
		return err
	}
	return exec(ctx, insertJournal, e.event.ID, e.from, e.to, e.amount)
}
