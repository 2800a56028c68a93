// Package report shows what a run did: a summary, the balances of all
// accounts, and a picture of which message ran when.
package report

import (
	"cmp"
	"context"
	"encoding/csv"
	"io"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// Balance is what an account has in one commodity, by itself and together with
// all below it. The account may be one that only others lie below of.
type Balance struct {
	Account   book.Account
	Commodity book.Commodity
	Own       decimal.Decimal
	Subtree   decimal.Decimal
}

// Balances lists the balances of every node of the tree of accounts, in tree
// order. An account that never had anything has one entry, of zero and no
// commodity.
func Balances(ctx context.Context, s store.Store) ([]Balance, error) {
	accounts, err := s.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	postings, err := s.Balances(ctx, book.Root)
	if err != nil {
		return nil, err
	}
	found := map[book.Holding]*Balance{}
	bare := map[book.Account]bool{}
	at := func(a book.Account, c book.Commodity) *Balance {
		h := book.Holding{Account: a, Commodity: c}
		if found[h] == nil {
			found[h] = &Balance{Account: a, Commodity: c}
		}
		bare[a] = false
		return found[h]
	}
	for _, a := range accounts {
		for _, above := range a.Lineage() {
			bare[above] = true
		}
	}
	for _, p := range postings {
		for _, above := range p.Account.Lineage() {
			b := at(above, p.Commodity)
			b.Subtree = b.Subtree.Add(p.Amount.Decimal)
		}
		b := at(p.Account, p.Commodity)
		b.Own = p.Amount.Decimal
	}
	var list []Balance
	for a, isBare := range bare {
		if isBare {
			list = append(list, Balance{Account: a})
		}
	}
	for _, b := range found {
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b Balance) int {
		return cmp.Or(a.Account.Compare(b.Account), cmp.Compare(a.Commodity, b.Commodity))
	})
	return list, nil
}

// WriteBalances writes balances as CSV with a header.
func WriteBalances(w io.Writer, balances []Balance) error {
	c := csv.NewWriter(w)
	c.Write([]string{"account", "commodity", "own_balance", "subtree_balance"}) // its error is kept for c.Error
	for _, b := range balances {
		c.Write([]string{string(b.Account), string(b.Commodity), text(b.Own), text(b.Subtree)})
	}
	c.Flush()
	return c.Error()
}

func text(d decimal.Decimal) string { return book.Amount{Decimal: d}.String() }
