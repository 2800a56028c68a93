package book

import (
	"context"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// State is what has become of an account.
type State uint8

// The states.
const (
	Unknown State = iota
	Active
	Closed // it, or an account above it
)

// Holding names a balance: of an account, in a commodity.
type Holding struct {
	Account   Account
	Commodity Commodity
}

func (p Posting) holding() Holding { return Holding{p.Account, p.Commodity} }

// Reader reads the book as the last commit left it.
type Reader interface {
	// States returns the recorded state of each account, of which each is given
	// once.
	States(ctx context.Context, accounts []Account) ([]State, error)
	// Amounts returns the own balance of each holding, of which each is given
	// once: 0 where there is none.
	Amounts(ctx context.Context, holdings []Holding) ([]decimal.Decimal, error)
	// Balances lists the own balances of an account and of all below it.
	Balances(ctx context.Context, subtree Account) ([]Posting, error)
	// Exists reports whether the account, or one below it, has ever been opened.
	Exists(ctx context.Context, subtree Account) (bool, error)
}

// Changes is what a message changes, to be committed as a whole.
type Changes struct {
	States   map[Account]State           // new states
	Balances map[Holding]decimal.Decimal // new own balances
	Closing  []Money                     // the totals of an end of day
}

// Tx is the view that one message has of the book: what the store has, with
// the message's own changes over it. The changes reach the store when they are
// committed, all together, or never.
type Tx struct {
	ctx     context.Context
	store   Reader
	changes Changes
	// What was read so far; nobody else changes it meanwhile, see [Message.Claim].
	states  map[Account]State
	amounts map[Holding]decimal.Decimal
	// sums are totals that were asked for since the last change: a message may
	// expect many things of the whole book, which is read once for them all.
	sums map[Account]map[Commodity]decimal.Decimal
}

// Begin starts the work of a message.
func Begin(ctx context.Context, store Reader) *Tx {
	return &Tx{ctx: ctx, store: store, changes: Changes{
		States: map[Account]State{}, Balances: map[Holding]decimal.Decimal{},
	}, states: map[Account]State{}, amounts: map[Holding]decimal.Decimal{}}
}

// touch says what the message reads (Shared) or writes (Exclusive): an account with all
// below it. In production that does nothing; in tests it finds what is not declared by
// [Message.Claim].
func (tx *Tx) touch(subtree Account, mode lockkeys.Mode) error {
	key, err := subtree.Key()
	if err == nil {
		dispatcher.Touch(tx.ctx, key, mode)
	}
	return err
}

// Changes returns what was changed so far.
func (tx *Tx) Changes() *Changes { return &tx.changes }

// read reads what postings need, in two queries at most, however many they are.
func (tx *Tx) read(postings []Posting) error {
	var accounts []Account
	var holdings []Holding
	for _, p := range postings {
		accounts = append(accounts, p.Account.Lineage()...)
		holdings = append(holdings, p.holding())
	}
	if err := tx.readStates(accounts); err != nil {
		return err
	}
	return tx.readAmounts(holdings)
}

func (tx *Tx) readStates(accounts []Account) error {
	missing := unknown(accounts, tx.states)
	if len(missing) == 0 {
		return nil
	}
	for _, a := range missing {
		tx.touchState(a, lockkeys.Shared)
	}
	states, err := tx.store.States(tx.ctx, missing)
	if err != nil {
		return err
	}
	for i, a := range missing {
		tx.states[a] = states[i]
	}
	return nil
}

func (tx *Tx) readAmounts(holdings []Holding) error {
	missing := unknown(holdings, tx.amounts)
	if len(missing) == 0 {
		return nil
	}
	for _, h := range missing {
		if err := tx.touch(h.Account, lockkeys.Shared); err != nil {
			return err
		}
	}
	amounts, err := tx.store.Amounts(tx.ctx, missing)
	if err != nil {
		return err
	}
	for i, h := range missing {
		tx.amounts[h] = amounts[i]
	}
	return nil
}

// unknown returns those of wanted that known does not have, each once.
func unknown[K comparable, V any](wanted []K, known map[K]V) (missing []K) {
	for _, k := range wanted {
		if _, ok := known[k]; !ok && !slices.Contains(missing, k) {
			missing = append(missing, k)
		}
	}
	return missing
}

// state returns the state of an account, which is closed when one above it is.
// Reading those above needs no lock on them: whoever changes one of them has
// locked all that lies below it, this account included.
func (tx *Tx) state(a Account) (state State, err error) {
	lineage := a.Lineage()
	if err := tx.readStates(lineage); err != nil {
		return Unknown, err
	}
	for _, a := range lineage {
		changed := false
		if state, changed = tx.changes.States[a]; !changed {
			state = tx.states[a]
		}
		if state == Closed {
			return Closed, nil
		}
	}
	return state, nil
}

func (tx *Tx) setState(a Account, s State) {
	tx.touchState(a, lockkeys.Exclusive)
	tx.changes.States[a] = s
}

// touchState is touch for the state of an account, which has no key: who reads it holds
// the account or one below it, and who writes it the account.
func (tx *Tx) touchState(a Account, mode lockkeys.Mode) {
	dispatcher.TouchData(tx.ctx, string(a), mode)
}

func (tx *Tx) exists(subtree Account) (bool, error) {
	if err := tx.touch(subtree, lockkeys.Shared); err != nil {
		return false, err
	}
	return tx.store.Exists(tx.ctx, subtree)
}

func (tx *Tx) balance(h Holding) (decimal.Decimal, error) {
	if amount, changed := tx.changes.Balances[h]; changed {
		return amount, nil
	}
	if err := tx.readAmounts([]Holding{h}); err != nil {
		return decimal.Decimal{}, err
	}
	return tx.amounts[h], nil
}

func (tx *Tx) add(p Posting) error {
	if err := tx.touch(p.Account, lockkeys.Exclusive); err != nil {
		return err
	}
	had, err := tx.balance(p.holding())
	if err != nil {
		return err
	}
	tx.changes.Balances[p.holding()] = had.Add(p.Amount.Decimal)
	tx.sums = nil
	return nil
}

// balances lists the own balances of an account and of all below it.
func (tx *Tx) balances(subtree Account) ([]Posting, error) {
	if err := tx.touch(subtree, lockkeys.Shared); err != nil {
		return nil, err
	}
	list, err := tx.store.Balances(tx.ctx, subtree)
	if err != nil {
		return nil, err
	}
	fresh := 0
	for h := range tx.changes.Balances {
		if subtree.Contains(h.Account) {
			fresh++
		}
	}
	if fresh == 0 {
		return list, nil
	}
	list = slices.DeleteFunc(list, func(p Posting) bool {
		_, changed := tx.changes.Balances[p.holding()]
		return changed
	})
	for h, amount := range tx.changes.Balances {
		if subtree.Contains(h.Account) {
			list = append(list, Posting{h.Account, Money{Amount{amount}, h.Commodity}})
		}
	}
	return list, nil
}

func (tx *Tx) totals(subtree Account) (map[Commodity]decimal.Decimal, error) {
	if totals, ok := tx.sums[subtree]; ok {
		return totals, nil
	}
	balances, err := tx.balances(subtree)
	if err != nil {
		return nil, err
	}
	return tx.summed(subtree, balances), nil
}

// summed returns the totals of an account's balances, and keeps them until the next
// change.
func (tx *Tx) summed(subtree Account, balances []Posting) map[Commodity]decimal.Decimal {
	if tx.sums == nil {
		tx.sums = map[Account]map[Commodity]decimal.Decimal{}
	}
	tx.sums[subtree] = sum(balances)
	return tx.sums[subtree]
}
