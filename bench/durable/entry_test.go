package durable

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strconv"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// accounts of the ledger are numbered from 1; 0 is the world outside, from which deposits
// come.
const accounts = 1000

// entry is a message of the ledger.
type entry struct {
	event            *ordering.Event
	from, to, amount int64
}

// ledger makes messages, always the same: nine of ten move an amount from one account to
// another, so they have two positions; one pays in. If it is hot, transfers are from the
// first account, and deposits to it, so that all messages must run one after the other.
type ledger struct {
	hot     bool
	random  *rand.Rand
	numbers [accounts + 1]uint64
	made    int
}

func newLedger(hot bool) *ledger { return &ledger{hot: hot, random: rand.New(rand.NewPCG(7, 7))} }

func (l *ledger) entries(n int) []entry {
	list := make([]entry, n)
	for i := range list {
		from, to, amount := 1+l.random.Int64N(accounts), 1+l.random.Int64N(accounts-1), 1+l.random.Int64N(1000)
		if l.hot {
			from = 1
		}
		if to >= from { // any other
			to++
		}
		if l.random.IntN(10) == 0 {
			from, to = 0, from
		}
		l.made++
		e := entry{&ordering.Event{ID: "message-" + strconv.Itoa(l.made)}, from, to, amount}
		if from > 0 {
			e.event.Positions = append(e.event.Positions, l.position(from))
		}
		e.event.Positions = append(e.event.Positions, l.position(to))
		for _, v := range []int64{from, to, amount} {
			e.event.Payload = binary.LittleEndian.AppendUint64(e.event.Payload, uint64(v))
		}
		list[i] = e
	}
	return list
}

// decode makes an entry of its event again.
func decode(e *ordering.Event) (entry, error) {
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(e.Payload[8*i:])) }
	return entry{e, at(0), at(1), at(2)}, nil
}

func (l *ledger) position(account int64) ordering.Position {
	l.numbers[account]++
	return ordering.Position{Stream: lockkeys.Must("account", strconv.FormatInt(account, 10)), Number: l.numbers[account]}
}

// tables are the ledger's own.
var tables = []string{
	`CREATE TABLE balances (account BIGINT PRIMARY KEY, amount BIGINT NOT NULL)`,
	`CREATE TABLE journal (message TEXT PRIMARY KEY, debit BIGINT NOT NULL, credit BIGINT NOT NULL, amount BIGINT NOT NULL)`,
}

const (
	upsertBalance = `INSERT INTO balances (account, amount) VALUES ($1, $2)
		ON CONFLICT (account) DO UPDATE SET amount = balances.amount + excluded.amount`
	insertJournal = `INSERT INTO journal (message, debit, credit, amount) VALUES ($1, $2, $3, $4)`
)

// execer runs a statement in a transaction.
type execer func(ctx context.Context, statement string, args ...any) error

// apply is an entry's effect on the ledger's own tables.
func (e *entry) apply(ctx context.Context, exec execer) error {
	if e.from > 0 {
		if err := exec(ctx, upsertBalance, e.from, -e.amount); err != nil {
			return err
		}
	}
	if err := exec(ctx, upsertBalance, e.to, e.amount); err != nil {
		return err
	}
	return exec(ctx, insertJournal, e.event.ID, e.from, e.to, e.amount)
}
