// Package madeup makes the input that the ledger runs when it is given none:
// the days of a small bank. It is the same for the same seed. A plain
// sequential model of its own, in whole cents, tells which messages must be
// rejected and which balances must come out; it has nothing in common with
// the code that it is used to test.
package madeup

import (
	"io"
	"math/rand/v2"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// Generator gives messages; it is a [feed.Seeker].
//
// Clients come one after the other: each opens two to four accounts, in a
// currency each, and is paid in. Which of them a message is about follows
// Zipf's law, so that a few are in most messages. There are deposits,
// withdrawals, transfers, conversions, pay rolls, credit checks, the end of a
// client now and then, and ten ends of day.
type Generator struct {
	total, made int
	random      *rand.PCG
	r           *rand.Rand // by random
	model       *model
	clients     []*client // so far
	newcomers   int       // clients still to come
	popular     *rand.Zipf
	script      []*book.Message // to be given before anything else is made
	choices     []choice        // the package's; named here since they lead back to the generator
	weights     int             // their sum
}

const (
	founders  = 8 // clients that are there from the beginning
	employers = 20
	days      = 10
)

// New returns a generator of n messages.
func New(n int, seed uint64) *Generator {
	random := rand.NewPCG(seed, 0x1edce5)
	r := rand.New(random)
	g := &Generator{total: n, random: random, r: r, model: newModel(), choices: choices}
	for _, c := range choices {
		g.weights += c.weight
	}
	g.newcomers = min(max(n/250, 2), 5000)
	g.popular = rand.NewZipf(r, 1.2, 20, uint64(g.newcomers-1))
	for range min(founders, g.newcomers) {
		g.introduce()
	}
	return g
}

// Total is the number of messages.
func (g *Generator) Total() int { return g.total }

// Next implements [feed.Source].
func (g *Generator) Next() (feed.Item, error) {
	if g.made == g.total {
		return feed.Item{}, io.EOF
	}
	g.made++
	return feed.Item{Line: g.made, Message: g.make()}, nil
}

func (g *Generator) make() *book.Message {
	if g.made%max(g.total/days, 1) == 0 {
		return g.endOfDay()
	}
	if len(g.script) > 0 {
		m := g.script[0]
		g.script = g.script[1:]
		return g.model.play(m)
	}
	if g.newcomers > 0 && g.chance(5) {
		g.introduce()
	}
	i := 0
	for n := g.r.IntN(g.weights); n >= g.choices[i].weight; i++ {
		n -= g.choices[i].weight
	}
	return g.choices[i].make(g)
}

// introduce lets the next client come: it opens its accounts and pays them in.
func (g *Generator) introduce() {
	c := newClient(len(g.clients)+1, 2+g.r.IntN(len(currencies)-1))
	g.clients = append(g.clients, c)
	g.newcomers--
	for i, a := range c.accounts {
		g.script = append(g.script,
			&book.Message{Op: book.Open, Account: a},
			&book.Message{Op: book.Deposit, Account: a, Amount: g.amount(500_00, 9_000_00), Commodity: currencies[i], Note: "first deposit"})
	}
}

// amount draws from low to high, in cents.
func (g *Generator) amount(low, high int64) *book.Amount { return cents(low + g.r.Int64N(high-low+1)) }

// chance is true p times in a hundred.
func (g *Generator) chance(p int) bool { return g.r.IntN(100) < p }

// someone is a client, mostly one of the popular ones.
func (g *Generator) someone() *client { return g.clients[g.popular.Uint64()%uint64(len(g.clients))] }

// account draws one of a client's accounts; its index is that of its currency.
func (g *Generator) account(c *client) (i int, a book.Account) {
	i = g.r.IntN(len(c.accounts))
	return i, c.accounts[i]
}
