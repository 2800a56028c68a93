package book

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/shopspring/decimal"
)

// Apply does what a valid message asks for, in tx, and checks what it
// expects. The error is a [*Rejection] where the book does not allow it, an
// [*UnmetError] where an expectation does not hold, and otherwise one of the
// store. After an error tx must not be committed.
func Apply(tx *Tx, m *Message) (Reply, error) {
	reply, err := operations[m.Op].apply(tx, m)
	if err != nil {
		return Reply{}, err
	}
	for _, e := range m.Expect {
		if err := tx.expect(e); err != nil {
			return Reply{}, err
		}
	}
	return reply, nil
}

func open(tx *Tx, m *Message) (Reply, error) {
	state, err := tx.state(m.Account)
	switch {
	case err != nil:
		return Reply{}, err
	case state == Closed:
		return Reply{}, reject(AccountClosed, "%s cannot be opened again", m.Account)
	case state == Active:
		return Reply{}, reject(AccountExists, "%s", m.Account)
	}
	tx.setState(m.Account, Active)
	return Reply{}, nil
}

// post is for books that are already kept elsewhere: accounts come into being
// by it, and may go below zero.
func post(tx *Tx, m *Message) (Reply, error) {
	if err := tx.read(m.Postings); err != nil {
		return Reply{}, err
	}
	for _, p := range m.Postings {
		state, err := tx.state(p.Account)
		switch {
		case err != nil:
			return Reply{}, err
		case state == Closed:
			return Reply{}, reject(AccountClosed, "%s", p.Account)
		case state == Unknown:
			tx.setState(p.Account, Active)
		}
		if err := tx.add(p); err != nil {
			return Reply{}, err
		}
	}
	return Reply{}, nil
}

// move is deposit, withdraw, transfer and convert: between open accounts that
// never go below zero.
func move(tx *Tx, m *Message) (Reply, error) {
	moves := m.Moves()
	if err := tx.read(moves); err != nil {
		return Reply{}, err
	}
	for _, p := range moves {
		state, err := tx.state(p.Account)
		switch {
		case err != nil:
			return Reply{}, err
		case state == Closed:
			return Reply{}, reject(AccountClosed, "%s", p.Account)
		case state == Unknown:
			return Reply{}, reject(NoAccount, "%s was never opened", p.Account)
		}
		had, err := tx.balance(p.holding())
		if err != nil {
			return Reply{}, err
		}
		if p.Amount.IsNegative() && had.Add(p.Amount.Decimal).IsNegative() {
			return Reply{}, reject(NoCover, "%s has %s, of which %s cannot take %s", p.Account,
				Money{Amount{had}, p.Commodity}, m.Op, m.money())
		}
		if err := tx.add(p); err != nil {
			return Reply{}, err
		}
	}
	return Reply{}, nil
}

func buyingPower(tx *Tx, m *Message) (Reply, error) {
	totals, err := clientTotals(tx, m.Client)
	if err != nil {
		return Reply{}, err
	}
	return Reply{Totals: sorted(totals)}, nil
}

func creditCheck(tx *Tx, m *Message) (Reply, error) {
	totals, err := clientTotals(tx, m.Client)
	if err != nil {
		return Reply{}, err
	}
	if has := totals[m.AtLeast.Commodity]; has.LessThan(m.AtLeast.Amount.Decimal) {
		return Reply{}, reject(NoCredit, "%s has %s, which is less than %s",
			m.Client, Money{Amount{has}, m.AtLeast.Commodity}, m.AtLeast)
	}
	return Reply{Totals: sorted(totals)}, nil
}

func closeClient(tx *Tx, m *Message) (Reply, error) {
	totals, err := clientBalances(tx, m.Client)
	if err != nil {
		return Reply{}, err
	}
	for _, b := range totals {
		if !b.Amount.IsZero() {
			return Reply{}, reject(NotEmpty, "%s still has %s", b.Account, b.Money)
		}
	}
	tx.setState(m.Client, Closed)
	return Reply{}, nil
}

func endOfDay(tx *Tx, _ *Message) (Reply, error) {
	totals, err := tx.totals(Root)
	if err != nil {
		return Reply{}, err
	}
	tx.changes.Closing = sorted(totals)
	return Reply{Totals: tx.changes.Closing}, nil
}

// clientBalances lists the balances of all accounts of an active client.
func clientBalances(tx *Tx, client Account) ([]Posting, error) {
	state, err := tx.state(client)
	if err != nil {
		return nil, err
	}
	if state == Closed {
		return nil, reject(AccountClosed, "%s", client)
	}
	balances, err := tx.balances(client)
	if err != nil || len(balances) > 0 {
		return balances, err
	}
	exists, err := tx.exists(client)
	if err == nil && !exists {
		err = reject(NoAccount, "%s has no account", client)
	}
	return nil, err
}

func clientTotals(tx *Tx, client Account) (map[Commodity]decimal.Decimal, error) {
	balances, err := clientBalances(tx, client)
	if err != nil {
		return nil, err
	}
	return tx.summed(client, balances), nil
}

func sum(balances []Posting) map[Commodity]decimal.Decimal {
	totals := map[Commodity]decimal.Decimal{}
	for _, b := range balances {
		totals[b.Commodity] = totals[b.Commodity].Add(b.Amount.Decimal)
	}
	return totals
}

// Totals adds up balances by commodity, in order of the commodities.
func Totals(balances []Posting) []Money { return sorted(sum(balances)) }

func sorted(totals map[Commodity]decimal.Decimal) []Money {
	list := make([]Money, 0, len(totals))
	for _, c := range slices.Sorted(maps.Keys(totals)) {
		list = append(list, Money{Amount{totals[c]}, c})
	}
	return list
}

// expect checks one expectation against the book as tx leaves it.
func (tx *Tx) expect(e Expectation) error {
	var has decimal.Decimal
	var err error
	if e.Scope == Subtree {
		var totals map[Commodity]decimal.Decimal
		totals, err = tx.totals(e.Account)
		has = totals[e.Commodity]
	} else {
		has, err = tx.balance(Holding{e.Account, e.Commodity})
	}
	if err != nil {
		return err
	}
	if has.Sub(e.Balance.Decimal).Abs().GreaterThan(e.Tolerance.Decimal) {
		return &UnmetError{Expectation: e, Found: Amount{has}}
	}
	return nil
}

// Reason is why the book does not allow what a message asks for.
type Reason string

// The reasons.
const (
	NoAccount     Reason = "no such account"
	AccountExists Reason = "account exists"
	AccountClosed Reason = "account closed"
	NotEmpty      Reason = "client not empty"
	NoCover       Reason = "no cover"
	NoCredit      Reason = "no credit"
	Unmet         Reason = "expectation not met"
	Contradiction Reason = "numbers"     // contradict those of others
	IDTaken       Reason = "id is taken" // by a message that says something else
)

// Rejection says that the book does not allow what a message asks for. The
// message has had no effect.
type Rejection struct {
	Reason Reason `json:"reason"`
	Detail string `json:"detail"`
}

func (r *Rejection) Error() string { return string(r.Reason) + ": " + r.Detail }

func reject(reason Reason, format string, args ...any) error {
	return &Rejection{reason, fmt.Sprintf(format, args...)}
}

// UnmetError says that an expectation of a message does not hold. The message
// has had no effect.
type UnmetError struct {
	Expectation
	Found Amount
}

func (e *UnmetError) Error() string { return string(Unmet) + ": " + e.detail() }

func (e *UnmetError) detail() string {
	scope := ""
	if e.Scope == Subtree {
		scope = " with all below it"
	}
	within := ""
	if !e.Tolerance.IsZero() {
		within = fmt.Sprintf(" (within %s)", e.Tolerance)
	}
	return fmt.Sprintf("%s%s has %s, expected %s%s", e.Account, scope,
		Money{e.Found, e.Commodity}, Money{e.Balance, e.Commodity}, within)
}

// Refused returns the reason if err says that the message is at fault, rather
// than the machinery: a [*Rejection], also for an [*UnmetError].
func Refused(err error) (r *Rejection, ok bool) {
	if r, ok = errors.AsType[*Rejection](err); ok {
		return r, true
	}
	if unmet, ok := errors.AsType[*UnmetError](err); ok {
		return &Rejection{Unmet, unmet.detail()}, true
	}
	return nil, false
}
