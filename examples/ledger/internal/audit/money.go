package audit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Money checks that nothing is lost or made: in each commodity, what the
// accounts have is what they had plus what the applied messages added. It is
// checked at every end of day, which must see what came before it and nothing
// else, and at the end.
type Money struct {
	// Closings is the number of ends of day that were checked.
	Closings int
	// Problems describes what does not add up.
	Problems []string

	expected map[book.Commodity]decimal.Decimal
}

func newMoney(opening []book.Money) *Money {
	m := &Money{expected: map[book.Commodity]decimal.Decimal{}}
	for _, o := range opening {
		m.expected[o.Commodity] = o.Amount.Decimal
	}
	return m
}

// Commodities is the number of commodities seen.
func (m *Money) Commodities() int { return len(m.expected) }

// applied takes the next applied message.
func (m *Money) applied(r Record) {
	for _, p := range r.Message.Moves() {
		m.expected[p.Commodity] = m.expected[p.Commodity].Add(p.Amount.Decimal)
	}
	if r.Message.Op == book.EndOfDay {
		m.Closings++
		m.compare(fmt.Sprintf("end of day, message %d", r.ID), r.Reply.Totals)
	}
}

// Close compares with the totals of the book at the end.
func (m *Money) Close(totals []book.Money) { m.compare("at the end", totals) }

func (m *Money) compare(when string, totals []book.Money) {
	left := maps.Clone(m.expected)
	for _, t := range totals {
		left[t.Commodity] = left[t.Commodity].Sub(t.Amount.Decimal)
	}
	for _, c := range slices.Sorted(maps.Keys(left)) {
		if !left[c].IsZero() {
			missing := book.Money{Amount: book.Amount{Decimal: left[c]}, Commodity: c}
			m.Problems = append(m.Problems, fmt.Sprintf("%s: %s missing from the accounts", when, missing))
		}
	}
}
