package store

import (
	"cmp"
	"context"
	"sync"

	"github.com/google/btree"
	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Tables are the book in memory. Like those of any database they stay whole
// under concurrent use, and like those of any database they do not keep two
// callers who read, compute and write the same balance from losing one of the
// results.
type Tables struct {
	mu struct {
		sync.RWMutex
		states   map[book.Account]book.State
		accounts *btree.BTreeG[book.Account]
		balances *btree.BTreeG[book.Posting]
		journal  int64 // messages
	}
}

// NewTables returns an empty book.
func NewTables() *Tables {
	t := &Tables{}
	t.mu.states = map[book.Account]book.State{}
	t.mu.accounts = btree.NewG(32, func(a, b book.Account) bool { return a.Compare(b) < 0 })
	t.mu.balances = btree.NewG(32, func(a, b book.Posting) bool {
		return cmp.Or(a.Account.Compare(b.Account), cmp.Compare(a.Commodity, b.Commodity)) < 0
	})
	return t
}

// States implements [book.Reader].
func (t *Tables) States(_ context.Context, accounts []book.Account) ([]book.State, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	states := make([]book.State, len(accounts))
	for i, a := range accounts {
		states[i] = t.mu.states[a]
	}
	return states, nil
}

// Amounts implements [book.Reader].
func (t *Tables) Amounts(_ context.Context, holdings []book.Holding) ([]decimal.Decimal, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	amounts := make([]decimal.Decimal, len(holdings))
	for i, h := range holdings {
		p, _ := t.mu.balances.Get(posting(h))
		amounts[i] = p.Amount.Decimal
	}
	return amounts, nil
}

// Balances implements [book.Reader].
func (t *Tables) Balances(_ context.Context, subtree book.Account) ([]book.Posting, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var list []book.Posting
	t.mu.balances.AscendGreaterOrEqual(posting(book.Holding{Account: subtree}), func(p book.Posting) bool {
		if !subtree.Contains(p.Account) {
			return false
		}
		list = append(list, p)
		return true
	})
	return list, nil
}

// Exists implements [book.Reader].
func (t *Tables) Exists(_ context.Context, subtree book.Account) (bool, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := false
	t.mu.accounts.AscendGreaterOrEqual(subtree, func(a book.Account) bool {
		found = subtree.Contains(a)
		return false
	})
	return found, nil
}

// Apply makes the changes of a message.
func (t *Tables) Apply(c *book.Changes) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.applyLocked(c)
}

func (t *Tables) applyLocked(c *book.Changes) {
	for a, state := range c.States {
		t.mu.states[a] = state
		t.mu.accounts.ReplaceOrInsert(a)
	}
	for h, amount := range c.Balances {
		p := posting(h)
		p.Amount = book.Amount{Decimal: amount}
		t.mu.balances.ReplaceOrInsert(p)
	}
	t.mu.journal++
}

// Journal implements [Store].
func (t *Tables) Journal(_ context.Context, after int64) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return int(t.mu.journal - after), nil
}

// Accounts implements [Store].
func (t *Tables) Accounts(context.Context) ([]book.Account, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	list := make([]book.Account, 0, t.mu.accounts.Len())
	t.mu.accounts.Ascend(func(a book.Account) bool {
		list = append(list, a)
		return true
	})
	return list, nil
}

// posting is the entry of a balance tree for h, with no amount.
func posting(h book.Holding) book.Posting {
	return book.Posting{Account: h.Account, Money: book.Money{Commodity: h.Commodity}}
}
