package main

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// The books that hledger and ledger agree about: every running balance of
// every node of the tree is an expectation on a subtree, and the balances at
// the end are compared, own and with all below.
func TestJournals(t *testing.T) {
	t.Parallel()
	for _, folder := range [][]string{
		{"hackclub-ledger"},
		{"ledger-standard"},
		{"hledger-examples", "bcexample"},
		{"hledger-examples", "bench-10000x1000x10"},
	} {
		t.Run(folder[len(folder)-1], func(t *testing.T) {
			file := func(name string) table { return readTable(t, append(slices.Clone(folder), name)...) }
			ms := journalMessages(t, file("postings.csv"), file("expected-running.csv"))
			ms, all := part(ms, 300)
			own, tree := balancesOf(t, file("expected-balances.csv")), balancesOf(t, file("expected-tree.csv"))
			for _, how := range setups() {
				t.Run(how.String(), func(t *testing.T) {
					s := replayAll(t, how, ms)
					requireGood(t, s)
					assert.Positive(t, s.Audit.Outcomes.Held)
					if all {
						assert.Equal(t, own, ownOf(s.Balances))
						assert.Equal(t, tree, subtreesOf(s.Balances))
					}
				})
			}
		})
	}
}

// journalMessages makes a message of each transaction.
func journalMessages(t *testing.T, postings, running table) []*book.Message {
	expect := runningExpectations(t, running)
	var ms []*book.Message
	last := ""
	postings.each(func(get func(string) string) {
		seq := get("seq")
		if seq != last {
			last = seq
			ms = append(ms, &book.Message{Op: book.Post, ID: seq, Note: get("description"), Expect: expect[seq]})
		}
		m := ms[len(ms)-1]
		m.Postings = append(m.Postings, book.Posting{
			Account: book.Account(strings.Trim(get("account"), "()[]")), // brackets mark virtual postings
			Money:   book.Money{Amount: book.Amount{Decimal: amountOf(t, get("amount"))}, Commodity: book.Commodity(get("commodity"))},
		})
	})
	return ms
}

// runningExpectations turns running balances into expectations, by sequence
// number. A commodity that a node once had and that is not listed any more is
// expected to be zero.
func runningExpectations(t *testing.T, running table) map[string][]book.Expectation {
	expect := map[string][]book.Expectation{}
	seen := map[string]map[book.Commodity]bool{}
	running.each(func(get func(string) string) {
		node, balance := get("node"), parseMixed(t, get("balance"))
		if seen[node] == nil {
			seen[node] = map[book.Commodity]bool{}
		}
		for c := range balance {
			seen[node][c] = true
		}
		for _, c := range slices.Sorted(maps.Keys(seen[node])) {
			expect[get("seq")] = append(expect[get("seq")], book.Expectation{
				Account: book.Account(node), Balance: book.Amount{Decimal: balance[c]}, Commodity: c, Scope: book.Subtree,
			})
		}
	})
	return expect
}

// balancesOf reads a file of final balances.
func balancesOf(t *testing.T, expected table) holdings {
	h := holdings{}
	expected.each(func(get func(string) string) {
		for c, amount := range parseMixed(t, get("balance")) {
			h.set(get("account"), c, amount)
		}
	})
	return h
}

// beancount's own examples: its balance directives are messages that only
// expect, on subtrees.
func TestBeancount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"example", "cozumel2015"} {
		t.Run(name, func(t *testing.T) {
			ms, checks := beancountMessages(t, readTable(t, "beancount-examples", name+"-stream.csv"))
			require.Positive(t, checks)
			expected := readTable(t, "beancount-examples", name+"-expected-balances.csv")
			for _, how := range setups() {
				t.Run(how.String(), func(t *testing.T) {
					s := replayAll(t, how, ms)
					requireGood(t, s)
					final := finalsOf(s.Balances)
					expected.each(func(get func(string) string) {
						h := book.Holding{Account: book.Account(get("account")), Commodity: book.Commodity(get("currency"))}
						off := final[h].Own.Sub(amountOf(t, get("total"))).Abs()
						assert.True(t, off.LessThanOrEqual(printed(h.Commodity)), "%v is off by %s", h, off)
					})
				})
			}
		})
	}
}

// printed is how far off a printed total may be: bean-query cuts those of two
// funds after the second place.
func printed(c book.Commodity) decimal.Decimal {
	if c == "RGAGX" || c == "VBMPX" {
		return decimal.New(1, -2)
	}
	return decimal.Zero
}

func beancountMessages(t *testing.T, stream table) (ms []*book.Message, checks int) {
	last := ""
	stream.each(func(get func(string) string) {
		if seq := get("seq"); seq != last {
			last = seq
			ms = append(ms, &book.Message{Op: book.Post, ID: seq})
		}
		m := ms[len(ms)-1]
		account, commodity := book.Account(get("account")), book.Commodity(get("currency"))
		number := book.Amount{Decimal: amountOf(t, get("number"))}
		if get("kind") == "balance" {
			checks++
			m.Expect = append(m.Expect, book.Expectation{Account: account, Balance: number, Commodity: commodity, Scope: book.Subtree})
			return
		}
		m.Postings = append(m.Postings, book.Posting{Account: account, Money: book.Money{Amount: number, Commodity: commodity}})
		running := book.Expectation{Account: account, Balance: book.Amount{Decimal: amountOf(t, get("running"))}, Commodity: commodity}
		same := func(e book.Expectation) bool { return e.Account == account && e.Commodity == commodity }
		m.Expect = append(slices.DeleteFunc(m.Expect, same), running) // the last of a message counts
	})
	return ms, checks
}

// Transactions of 85 blocks, side by side: a transaction adds one to its
// sender's nonce, which must then be the one after its own.
func TestEthereumBlocks(t *testing.T) {
	t.Parallel()
	ms, all := part(ethereumMessages(t), 1000)
	expected := readTable(t, "ethereum-blocks", "expected-nonces.csv")
	for _, how := range setups() {
		t.Run(how.String(), func(t *testing.T) {
			s := replayAll(t, how, ms)
			requireGood(t, s)
			if !all {
				require.Positive(t, s.Audit.Outcomes.Held)
				return
			}
			require.GreaterOrEqual(t, s.Audit.Outcomes.Held, 24_342)
			final := finalsOf(s.Balances)
			expected.each(func(get func(string) string) {
				h := book.Holding{Account: blockAccount(get("block"), get("sender")), Commodity: nonce}
				require.Equal(t, get("nonce_after"), final[h].Own.String(), "%v", h)
			})
		})
	}
}

const nonce book.Commodity = "nonce"

func blockAccount(block, address string) book.Account {
	return book.Account("block:" + block + ":" + address)
}

// ethereumMessages makes a message of the state before each block and one of
// each transaction, which locks its sender, its receiver and its access list.
func ethereumMessages(t *testing.T) (ms []*book.Message) {
	before := map[string][]book.Posting{}
	readTable(t, "ethereum-blocks", "expected-nonces.csv").each(func(get func(string) string) {
		before[get("block")] = append(before[get("block")], noncePosting(get("block"), get("sender"), amountOf(t, get("nonce_before"))))
	})
	last := ""
	readTable(t, "ethereum-blocks", "transactions.csv").each(func(get func(string) string) {
		block, one := get("block"), decimal.NewFromInt(1)
		if block != last {
			last = block
			ms = append(ms, &book.Message{Op: book.Post, ID: "before " + block, Postings: before[block]})
		}
		number, err := strconv.ParseInt(get("nonce"), 10, 64)
		require.NoError(t, err)
		m := &book.Message{Op: book.Post, ID: get("seq"), Postings: []book.Posting{noncePosting(block, get("from"), one)}}
		m.Expect = []book.Expectation{{Account: blockAccount(block, get("from")), Commodity: nonce, Balance: book.Amount{Decimal: decimal.NewFromInt(number + 1)}}}
		for _, touched := range append(splitFields(get("access_list")), splitFields(get("to"))...) {
			m.Postings = append(m.Postings, noncePosting(block, touched, decimal.Zero))
		}
		ms = append(ms, m)
	})
	return ms
}

func noncePosting(block, address string, by decimal.Decimal) book.Posting {
	return book.Posting{Account: blockAccount(block, address), Money: book.Money{Amount: book.Amount{Decimal: by}, Commodity: nonce}}
}
