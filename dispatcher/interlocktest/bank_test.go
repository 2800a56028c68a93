package interlocktest

import (
	"context"
	"errors"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// transfer is a message of the tests: it moves an amount between two accounts of a
// client, and counts it in the client's total of moved amounts if it says so.
type transfer struct {
	from, to string
	amount   int
	counts   bool
}

func account(name string) lockkeys.Key { return lockkeys.Must("client", "42", "account", name) }

func transferKeys(m transfer, claim *lockkeys.Claim) error {
	claim.Exclusive(account(m.from), account(m.to))
	return nil
}

// bank is what the handlers change.
type bank struct {
	balance map[string]*int
	moved   int
}

func newBank(accounts ...string) *bank {
	b := &bank{balance: map[string]*int{}}
	for _, a := range accounts {
		b.balance[a] = new(int)
	}
	return b
}

var errOverdrawn = errors.New("overdrawn")

// move is a handler that touches what it uses.
func (b *bank) move(ctx context.Context, m transfer) error {
	dispatcher.Touch(ctx, account(m.from), lockkeys.Shared)
	from := *b.balance[m.from]
	dispatcher.Touch(ctx, account(m.from), lockkeys.Exclusive)
	*b.balance[m.from] = from - m.amount
	dispatcher.Touch(ctx, account(m.to), lockkeys.Exclusive)
	*b.balance[m.to] += m.amount
	if m.counts {
		dispatcher.TouchData(ctx, "moved", lockkeys.Exclusive)
		b.moved += m.amount
	}
	return nil
}

// total is what all accounts have together: always 0.
func (b *bank) total() (sum int) {
	for _, n := range b.balance {
		sum += *n
	}
	return sum
}
