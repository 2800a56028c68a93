package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	humanize "github.com/dustin/go-humanize"
	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// page writes lines and keeps the first error.
type page struct {
	w   io.Writer
	err error
}

func (p *page) row(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func (p *page) heading(text string) { p.row("\n%s", text) }

// fact writes a name and what there is to say; further lines are indented.
func (p *page) fact(name, text string) {
	const indent = 12
	p.row("%-*s%s", indent, name, strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", indent)))
}

func mark(ok bool) string {
	if ok {
		return "✓"
	}
	return "✗"
}

func count(n int) string { return humanize.Comma(int64(n)) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

func texts[T fmt.Stringer](list []T) (lines []string) {
	for _, item := range list {
		lines = append(lines, item.String())
	}
	return lines
}

// placesOf tells how many decimal places each commodity needs.
func placesOf(balances []Balance) map[book.Commodity]int32 {
	places := map[book.Commodity]int32{}
	for _, b := range balances {
		places[b.Commodity] = max(places[b.Commodity], -b.Own.Exponent())
	}
	return places
}

// grouped writes a number with commas between thousands.
func grouped(d decimal.Decimal, places int32) string {
	whole, fraction, hasFraction := strings.Cut(d.Abs().StringFixed(places), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if d.IsNegative() {
		whole = "-" + whole
	}
	if hasFraction {
		whole += "." + fraction
	}
	return whole
}

// maxTopLevel bounds the lines about top-level accounts.
const maxTopLevel = 12

// topLevel returns the balances of the accounts that are below none, up to
// maxTopLevel of them.
func topLevel(balances []Balance) (top []Balance) {
	for _, b := range balances {
		if parent, _ := b.Account.Parent(); parent == book.Root && len(top) < maxTopLevel {
			top = append(top, b)
		}
	}
	return top
}

// largestOwn returns the n largest balances, of either sign, in the commodity
// that the most accounts have.
func largestOwn(balances []Balance, n int) []Balance {
	accounts := map[book.Commodity]int{}
	var common book.Commodity
	for _, b := range balances {
		accounts[b.Commodity]++
	}
	for c, of := range accounts {
		if of > accounts[common] || of == accounts[common] && c < common {
			common = c
		}
	}
	list := slices.DeleteFunc(slices.Clone(balances), func(b Balance) bool { return b.Commodity != common || b.Own.IsZero() })
	slices.SortFunc(list, func(a, b Balance) int {
		return cmp.Or(-a.Own.Abs().Cmp(b.Own.Abs()), a.Account.Compare(b.Account))
	})
	return list[:min(n, len(list))]
}
