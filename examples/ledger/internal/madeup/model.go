package madeup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

var (
	currencies = []book.Commodity{"EUR", "USD", "GBP", "CHF"}
	rates      = []int64{1000, 920, 1170, 1050} // in thousandths of a euro
)

// client is a client and its accounts, one for each of the first currencies.
type client struct {
	root     book.Account
	accounts []book.Account
}

func newClient(id, accounts int) *client {
	c := &client{root: book.Account(fmt.Sprintf("client:%d", id))}
	for i := range accounts {
		c.accounts = append(c.accounts, book.Account(fmt.Sprintf("%s:account:%d", c.root, i+1)))
	}
	return c
}

// model is the bank in the plainest form: whole cents in a map, one message
// after the other.
type model struct {
	balances map[book.Holding]int64
	totals   map[book.Holding]int64 // with all accounts below
	opened   map[book.Account]bool
	clients  map[book.Account]bool // those that have an account
	closed   map[book.Account]bool // clients
}

func newModel() *model {
	return &model{
		balances: map[book.Holding]int64{}, totals: map[book.Holding]int64{},
		opened: map[book.Account]bool{}, clients: map[book.Account]bool{}, closed: map[book.Account]bool{},
	}
}

// play does what m asks for, or marks it as one that must be rejected.
func (b *model) play(m *book.Message) *book.Message {
	m.Reject = !b.allows(m)
	if m.Reject {
		return m
	}
	switch m.Op {
	case book.Open:
		b.opened[m.Account] = true
		b.clients[clientOf(m.Account)] = true
	case book.Post: // a pay roll may come before the account is opened
		for _, p := range m.Postings {
			b.opened[p.Account] = true
			b.clients[clientOf(p.Account)] = true
		}
	case book.CloseClient:
		b.closed[m.Client] = true
	}
	for _, p := range m.Moves() {
		b.balances[book.Holding{Account: p.Account, Commodity: p.Commodity}] += inCents(&p.Amount)
		b.totals[book.Holding{Account: clientOf(p.Account), Commodity: p.Commodity}] += inCents(&p.Amount)
		b.totals[book.Holding{Account: book.Root, Commodity: p.Commodity}] += inCents(&p.Amount)
	}
	return m
}

func (b *model) allows(m *book.Message) bool {
	switch m.Op {
	case book.Open:
		return !b.opened[m.Account] && !b.closed[clientOf(m.Account)]
	case book.Post:
		return !slices.ContainsFunc(m.Postings, func(p book.Posting) bool { return b.closed[clientOf(p.Account)] })
	case book.Deposit:
		return b.usable(m.Account)
	case book.Withdraw:
		return b.usable(m.Account) && b.covers(m.Account, m)
	case book.Transfer, book.Convert:
		return b.usable(m.From) && b.usable(m.To) && b.covers(m.From, m)
	case book.BuyingPower:
		return b.serves(m.Client)
	case book.CreditCheck:
		return b.serves(m.Client) && b.total(m.Client, m.AtLeast.Commodity) >= inCents(&m.AtLeast.Amount)
	case book.CloseClient:
		return b.serves(m.Client) && !slices.ContainsFunc(currencies, func(c book.Commodity) bool { return b.total(m.Client, c) != 0 })
	}
	return true
}

func (b *model) usable(a book.Account) bool { return b.opened[a] && !b.closed[clientOf(a)] }

func (b *model) serves(client book.Account) bool { return b.clients[client] && !b.closed[client] }

func (b *model) covers(a book.Account, m *book.Message) bool {
	return b.balances[book.Holding{Account: a, Commodity: m.Commodity}] >= inCents(m.Amount)
}

func (b *model) total(a book.Account, c book.Commodity) int64 {
	return b.totals[book.Holding{Account: a, Commodity: c}]
}

// expect is what an account has by itself.
func (b *model) expect(a book.Account, c book.Commodity) book.Expectation {
	has := b.balances[book.Holding{Account: a, Commodity: c}]
	return book.Expectation{Account: a, Balance: *cents(has), Commodity: c}
}

// expectAll is what a client, or the whole book, has in all currencies.
func (b *model) expectAll(a book.Account) (all []book.Expectation) {
	for _, c := range currencies {
		all = append(all, book.Expectation{Account: a, Balance: *cents(b.total(a, c)), Commodity: c, Scope: book.Subtree})
	}
	return all
}

// clientOf returns the first two levels of an account: "client:42".
func clientOf(a book.Account) book.Account {
	levels := strings.SplitN(string(a), ":", 3)
	return book.Account(strings.Join(levels[:min(len(levels), 2)], ":"))
}

func cents(n int64) *book.Amount { return &book.Amount{Decimal: decimal.New(n, -2)} }

func inCents(a *book.Amount) int64 { return a.Shift(2).IntPart() }
