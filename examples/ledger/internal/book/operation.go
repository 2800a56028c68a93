package book

import (
	"github.com/interlock-go/interlock/lockkeys"
)

// Op names an operation.
type Op string

// The operations. Those up to Convert move money and lock the accounts that
// they move it between; the others lock more.
const (
	Open        Op = "open"         // bring an account into being
	Post        Op = "post"         // add amounts to any number of accounts
	Deposit     Op = "deposit"      // add to an account
	Withdraw    Op = "withdraw"     // take from an account what it has
	Transfer    Op = "transfer"     // withdraw here and deposit there
	Convert     Op = "convert"      // the same, in another commodity
	BuyingPower Op = "buying_power" // add up all that a client has
	CreditCheck Op = "credit_check" // see that a client has enough
	CloseClient Op = "close_client" // end all accounts of a client, all empty
	EndOfDay    Op = "end_of_day"   // close the books on all clients
)

// operation is all that is to know about an Op.
type operation struct {
	needs, takes fieldSet
	// locks adds what is needed beyond the accounts that money moves between.
	locks func(m *Message) lock
	// apply reads, checks and writes.
	apply func(tx *Tx, m *Message) (Reply, error)
}

// lock is an account with all below it, and how it is wanted.
type lock struct {
	account Account
	mode    lockkeys.Mode
}

// Ops lists the operations.
func Ops() []Op {
	return []Op{Open, Post, Deposit, Withdraw, Transfer, Convert, BuyingPower, CreditCheck, CloseClient, EndOfDay}
}

func opNames() []string {
	var names []string
	for _, op := range Ops() {
		names = append(names, string(op))
	}
	return names
}

var operations = map[Op]operation{
	Open: {
		needs: fAccount,
		locks: func(m *Message) lock { return lock{m.Account, lockkeys.Exclusive} },
		apply: open,
	},
	Post: {
		takes: fPostings,
		apply: post,
	},
	Deposit: {
		needs: fAccount | fAmount, takes: fCommodity,
		apply: move,
	},
	Withdraw: {
		needs: fAccount | fAmount, takes: fCommodity,
		apply: move,
	},
	Transfer: {
		needs: fFrom | fTo | fAmount, takes: fCommodity,
		apply: move,
	},
	Convert: {
		needs: fFrom | fTo | fAmount | fGets, takes: fCommodity,
		apply: move,
	},
	BuyingPower: {
		needs: fClient,
		locks: func(m *Message) lock { return lock{m.Client, lockkeys.Shared} },
		apply: buyingPower,
	},
	CreditCheck: {
		needs: fClient | fAtLeast,
		locks: func(m *Message) lock { return lock{m.Client, lockkeys.Shared} },
		apply: creditCheck,
	},
	CloseClient: {
		needs: fClient,
		locks: func(m *Message) lock { return lock{m.Client, lockkeys.Exclusive} },
		apply: closeClient,
	},
	EndOfDay: {
		locks: func(*Message) lock { return lock{Root, lockkeys.Exclusive} },
		apply: endOfDay,
	},
}

func (m *Message) money() Money { return Money{*m.Amount, m.Commodity} }

func (m Money) neg() Money { return Money{Amount{m.Amount.Neg()}, m.Commodity} }

// Moves lists what a valid message adds to which accounts when it is applied.
func (m *Message) Moves() []Posting {
	switch m.Op {
	case Post:
		return m.Postings
	case Deposit:
		return []Posting{{m.Account, m.money()}}
	case Withdraw:
		return []Posting{{m.Account, m.money().neg()}}
	case Transfer:
		return []Posting{{m.From, m.money().neg()}, {m.To, m.money()}}
	case Convert:
		return []Posting{{m.From, m.money().neg()}, {m.To, *m.Gets}}
	}
	return nil
}

// Claim adds to claim the keys of a valid message: the accounts that it moves
// money between, exclusively; what its operation reads as a whole; and what
// its expectations read, shared.
func (m *Message) Claim(claim *lockkeys.Claim) error {
	var locks []lock
	for _, p := range m.Moves() {
		locks = append(locks, lock{p.Account, lockkeys.Exclusive})
	}
	if whole := operations[m.Op].locks; whole != nil {
		locks = append(locks, whole(m))
	}
	for _, e := range m.Expect {
		locks = append(locks, lock{e.Account, lockkeys.Shared})
	}
	for _, l := range locks {
		key, err := l.account.Key()
		if err != nil {
			return err
		}
		claim.Add(lockkeys.Request{Key: key, Mode: l.mode})
	}
	return nil
}
