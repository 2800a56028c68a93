package store

import (
	"cmp"
	"context"
	"sync"

	"github.com/google/btree"
	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Memory is a store that ends with the program. Like any database it keeps its
// own structures whole under concurrent use, and like any database it does not
// keep two callers who read, compute and write the same balance from losing
// one of the results.
type Memory struct {
	mu       sync.RWMutex
	states   map[book.Account]book.State
	accounts *btree.BTreeG[book.Account]
	balances *btree.BTreeG[book.Posting]
	journal  int
	last     uint64
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{
		states:   map[book.Account]book.State{},
		accounts: btree.NewG(32, func(a, b book.Account) bool { return a.Compare(b) < 0 }),
		balances: btree.NewG(32, func(a, b book.Posting) bool {
			return cmp.Or(a.Account.Compare(b.Account), cmp.Compare(a.Commodity, b.Commodity)) < 0
		}),
	}
}

// States implements [book.Reader].
func (s *Memory) States(_ context.Context, accounts []book.Account) ([]book.State, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	states := make([]book.State, len(accounts))
	for i, a := range accounts {
		states[i] = s.states[a]
	}
	return states, nil
}

// Balance implements [book.Reader].
func (s *Memory) Balance(_ context.Context, h book.Holding) (decimal.Decimal, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, _ := s.balances.Get(posting(h))
	return p.Amount.Decimal, nil
}

// Balances implements [book.Reader].
func (s *Memory) Balances(_ context.Context, subtree book.Account) ([]book.Posting, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var list []book.Posting
	s.balances.AscendGreaterOrEqual(posting(book.Holding{Account: subtree}), func(p book.Posting) bool {
		if !subtree.Contains(p.Account) {
			return false
		}
		list = append(list, p)
		return true
	})
	return list, nil
}

// Exists implements [book.Reader].
func (s *Memory) Exists(_ context.Context, subtree book.Account) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	found := false
	s.accounts.AscendGreaterOrEqual(subtree, func(a book.Account) bool {
		found = subtree.Contains(a)
		return false
	})
	return found, nil
}

// Commit implements [Store].
func (s *Memory) Commit(_ context.Context, c *book.Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for a, state := range c.States {
		s.states[a] = state
		s.accounts.ReplaceOrInsert(a)
	}
	for h, amount := range c.Balances {
		p := posting(h)
		p.Amount = book.Amount{Decimal: amount}
		s.balances.ReplaceOrInsert(p)
	}
	s.journal++
	s.last = max(s.last, c.Seq)
	return nil
}

// Last implements [Store].
func (s *Memory) Last(context.Context) (uint64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.last, nil
}

// Journal implements [Store].
func (s *Memory) Journal(context.Context) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.journal, nil
}

// Accounts implements [Store].
func (s *Memory) Accounts(context.Context) ([]book.Account, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]book.Account, 0, s.accounts.Len())
	s.accounts.Ascend(func(a book.Account) bool {
		list = append(list, a)
		return true
	})
	return list, nil
}

// Stats implements [Store]. Every message is a commit of its own.
func (s *Memory) Stats() Stats {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := int64(s.journal)
	return Stats{Commits: n, Messages: n}
}

// Name implements [Store].
func (s *Memory) Name() string { return "memory" }

// Close implements [Store].
func (s *Memory) Close() error { return nil }

// posting is the entry of a balance tree for h, with no amount.
func posting(h book.Holding) book.Posting {
	return book.Posting{Account: h.Account, Money: book.Money{Commodity: h.Commodity}}
}
