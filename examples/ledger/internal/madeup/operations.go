package madeup

import (
	"fmt"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// choice is a kind of message and how often it is made.
type choice struct {
	weight int
	make   func(g *Generator) *book.Message
}

// choices add up to a thousand.
var choices = []choice{
	{300, (*Generator).deposit},
	{240, (*Generator).withdraw},
	{220, (*Generator).transfer},
	{90, (*Generator).convert},
	{39, (*Generator).payroll},
	{50, (*Generator).buyingPower},
	{60, (*Generator).creditCheck},
	{1, (*Generator).closeClient},
}

func (g *Generator) deposit() *book.Message {
	i, a := g.account(g.someone())
	return g.moved(&book.Message{Op: book.Deposit, Account: a, Amount: g.amount(5_00, 2_000_00), Commodity: currencies[i]})
}

func (g *Generator) withdraw() *book.Message {
	i, a := g.account(g.someone())
	return g.moved(&book.Message{Op: book.Withdraw, Account: a, Amount: g.spend(a, i), Commodity: currencies[i]})
}

// transfer goes to an account of the same currency. When none turns up soon,
// it is a deposit after all.
func (g *Generator) transfer() *book.Message {
	i, from := g.account(g.someone())
	for range 20 {
		c := g.someone()
		if i >= len(c.accounts) || c.accounts[i] == from {
			continue
		}
		return g.moved(&book.Message{Op: book.Transfer, From: from, To: c.accounts[i], Amount: g.spend(from, i), Commodity: currencies[i]})
	}
	return g.deposit()
}

func (g *Generator) convert() *book.Message {
	c := g.someone()
	i, from := g.account(c)
	j := (i + 1) % len(c.accounts)
	amount := g.spend(from, i)
	gets := max(inCents(amount)*rates[i]/rates[j], 1)
	return g.moved(&book.Message{
		Op: book.Convert, From: from, To: c.accounts[j], Amount: amount, Commodity: currencies[i],
		Gets: &book.Money{Amount: *cents(gets), Commodity: currencies[j]},
	})
}

// spend draws what to take from an account: a part of what it has, and now and
// then more than that.
func (g *Generator) spend(a book.Account, currency int) *book.Amount {
	has := g.model.balances[book.Holding{Account: a, Commodity: currencies[currency]}]
	if has < 2_00 || g.chance(2) {
		return g.amount(has+1, has+500_00)
	}
	return g.amount(1_00, max(has/3, 1_00))
}

// payroll pays some employees of one employer in a single message. Employers
// may go below zero.
func (g *Generator) payroll() *book.Message {
	employer := book.Account(fmt.Sprintf("employer:%d", 1+g.r.IntN(employers)))
	m := &book.Message{Op: book.Post, Note: "pay roll"}
	paid := int64(0)
	for range 2 + g.r.IntN(4) {
		wage := g.amount(1_000_00, 4_000_00)
		paid += inCents(wage)
		m.Postings = append(m.Postings, book.Posting{Account: g.someone().accounts[0], Money: book.Money{Amount: *wage, Commodity: currencies[0]}})
	}
	m.Postings = append(m.Postings, book.Posting{Account: employer, Money: book.Money{Amount: *cents(-paid), Commodity: currencies[0]}})
	return g.moved(m)
}

func (g *Generator) buyingPower() *book.Message {
	c := g.someone()
	m := g.model.play(&book.Message{Op: book.BuyingPower, Client: c.root})
	if !m.Reject {
		m.Expect = g.model.expectAll(c.root)
	}
	return m
}

func (g *Generator) creditCheck() *book.Message {
	c := g.someone()
	total := g.model.total(c.root, currencies[0])
	need := g.amount(total/4, total+total/20+1_00)
	if need.IsZero() {
		need = cents(1)
	}
	return g.model.play(&book.Message{Op: book.CreditCheck, Client: c.root, AtLeast: &book.Money{Amount: *need, Commodity: currencies[0]}})
}

// closeClient closes one of the less popular clients: half of them after
// emptying its accounts, and half of them too early.
func (g *Generator) closeClient() *book.Message {
	c := g.clients[len(g.clients)/2+g.r.IntN((len(g.clients)+1)/2)]
	end := &book.Message{Op: book.CloseClient, Client: c.root}
	if g.chance(50) {
		return g.model.play(end)
	}
	for i, a := range c.accounts {
		if has := g.model.balances[book.Holding{Account: a, Commodity: currencies[i]}]; has > 0 {
			g.script = append(g.script, &book.Message{Op: book.Withdraw, Account: a, Amount: cents(has), Commodity: currencies[i], Note: "all that is left"})
		}
	}
	g.script = append(g.script, end)
	return g.model.play(&book.Message{Op: book.BuyingPower, Client: c.root})
}

func (g *Generator) endOfDay() *book.Message {
	return &book.Message{Op: book.EndOfDay, Expect: g.model.expectAll(book.Root)}
}

// moved plays a message that moves money, and lets some of them say which
// balances must come out.
func (g *Generator) moved(m *book.Message) *book.Message {
	g.model.play(m)
	if !m.Reject && g.chance(20) {
		for _, p := range m.Moves() {
			m.Expect = append(m.Expect, g.model.expect(p.Account, p.Commodity))
		}
	}
	return m
}
