package main

import (
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

func splitFields(text string) []string { return strings.Fields(text) }

const crowns book.Commodity = "CZK"

// tolerance is how far the bank itself is off in a step: it rounded interest.
var tolerance = book.Amount{Decimal: decimal.New(10, -2)}

// A real bank: every row carries the balance that the bank had after it.
func TestBerka(t *testing.T) {
	t.Parallel()
	bank := berkaMessages(t)
	ms, all := part(bank.messages, 1000)
	for _, how := range setups() {
		t.Run(how.String(), func(t *testing.T) {
			s := replayAll(t, how, ms)
			requireGood(t, s)
			if !all {
				return
			}
			final := finalsOf(s.Balances)
			readTable(t, "berka", "expected-final.csv").each(func(get func(string) string) {
				h := book.Holding{Account: bank.accounts[get("account_id")], Commodity: crowns}
				booked := final[h].Own.Add(bank.rounding[h.Account])
				assert.True(t, booked.Equal(amountOf(t, get("final_balance"))), "%v has %s", h, booked)
			})
		})
	}
}

// berka is the bank's rows as messages.
type berka struct {
	messages []*book.Message
	accounts map[string]book.Account
	last     map[book.Account]decimal.Decimal // the bank's own balance
	rounding map[book.Account]decimal.Decimal // that the bank has made and we have not
}

// berkaMessages makes a message of each row: its amount, and the rounding that
// the bank made in the row before, so that each step begins at the bank's own
// balance. At the end of each month there is a message for each district that
// compares the sum over all its accounts.
func berkaMessages(t *testing.T) *berka {
	b := &berka{accounts: map[string]book.Account{}, last: map[book.Account]decimal.Decimal{}, rounding: map[book.Account]decimal.Decimal{}}
	month := ""
	readTable(t, "berka", "trans-chain.csv").each(func(get func(string) string) {
		if now := get("date")[:6]; now != month {
			b.compareDistricts()
			month = now
		}
		account := book.Account("district:" + get("district_id") + ":client:" + get("owner_client_id") + ":account:" + get("account_id"))
		b.accounts[get("account_id")] = account
		b.row(t, account, get)
	})
	b.compareDistricts()
	return b
}

func (b *berka) row(t *testing.T, account book.Account, get func(string) string) {
	crowned := func(d decimal.Decimal) book.Money {
		return book.Money{Amount: book.Amount{Decimal: d}, Commodity: crowns}
	}
	amount, balance := amountOf(t, get("amount")), amountOf(t, get("balance"))
	m := &book.Message{
		Op: book.Post, ID: get("trans_id"),
		Postings: []book.Posting{{Account: account, Money: crowned(amount)}},
		Expect:   []book.Expectation{{Account: account, Balance: book.Amount{Decimal: balance}, Commodity: crowns, Tolerance: tolerance}},
	}
	if r := b.rounding[account]; !r.IsZero() {
		m.Postings = append(m.Postings, book.Posting{Account: account, Money: crowned(r)})
	}
	if partner := get("partner_bank"); partner != "" {
		m.Postings = append(m.Postings, book.Posting{Account: book.Account("bank:" + partner), Money: crowned(amount.Neg())})
	}
	b.rounding[account] = balance.Sub(b.last[account]).Sub(amount)
	require.True(t, b.rounding[account].Abs().LessThanOrEqual(tolerance.Decimal), "the file itself is off at %s", get("seq"))
	b.last[account] = balance
	b.messages = append(b.messages, m)
}

func (b *berka) compareDistricts() {
	sums, slack := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	for account, balance := range b.last {
		district := strings.Join(strings.SplitN(string(account), ":", 3)[:2], ":")
		sums[district] = sums[district].Add(balance)
		slack[district] = slack[district].Add(b.rounding[account].Abs())
	}
	m := &book.Message{Op: book.Post, Note: "month"}
	for district, sum := range sums {
		m.Expect = []book.Expectation{{
			Account: book.Account(district), Balance: book.Amount{Decimal: sum}, Commodity: crowns,
			Scope: book.Subtree, Tolerance: book.Amount{Decimal: slack[district]},
		}}
		one := *m
		b.messages = append(b.messages, &one)
	}
}
