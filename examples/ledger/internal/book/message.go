package book

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Message asks for one operation. Which fields it needs depends on Op; those
// from Expect on go with any of them.
type Message struct {
	Op Op `json:"op"`

	Account   Account   `json:"account,omitempty"`
	Client    Account   `json:"client,omitempty"`
	From      Account   `json:"from,omitempty"`
	To        Account   `json:"to,omitempty"`
	Amount    *Amount   `json:"amount,omitempty"`
	Commodity Commodity `json:"commodity,omitempty"`
	Gets      *Money    `json:"gets,omitempty"`
	AtLeast   *Money    `json:"at_least,omitempty"`
	Postings  []Posting `json:"postings,omitempty"`

	// Expect lists what must hold once the message has been applied. If
	// something does not, the message is not applied.
	Expect []Expectation `json:"expect,omitempty"`
	// Reject says that the message must be rejected: applying it is the error.
	Reject bool `json:"reject,omitempty"`
	// Sequence says where the message belongs among others, whenever it comes.
	Sequence Sequence `json:"sequence,omitempty"`
	// ID, if it is there, is the message's alone: what comes with the same ID is
	// a copy of it, which gets the same answer, or is rejected.
	ID string `json:"id,omitempty"`
	// Note is for people.
	Note string `json:"note,omitempty"`
}

// Payload is the JSON form of the message without its numbers, which travel
// beside it: the same bytes by whichever way it comes.
func (m *Message) Payload() ([]byte, error) {
	plain := *m
	plain.Sequence = nil
	return json.Marshal(&plain)
}

// ParsePayload reads what [Message.Payload] has returned. The message was
// validated before that, see [Decode], and is not validated again.
func ParsePayload(data []byte) (*Message, error) {
	m := new(Message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	return m, nil
}

const maxID = 200 // characters: what an index of PostgreSQL has room for

// Posting adds an amount, which may be negative, to an account.
type Posting struct {
	Account Account `json:"account"`
	Money
}

// Scope reports whether a balance is an account's own or that of its subtree.
type Scope string

// The scopes. The zero Scope means Own.
const (
	Own     Scope = "own"
	Subtree Scope = "subtree"
)

// UnmarshalText reads the name of a scope.
func (s *Scope) UnmarshalText(text []byte) error {
	if scope := Scope(text); scope == Own || scope == Subtree {
		*s = scope
		return nil
	}
	return fmt.Errorf("scope %.40q is not known: use %q or %q", text, string(Own), string(Subtree))
}

// Expectation is a balance that an account must have, give or take the
// tolerance.
type Expectation struct {
	Account   Account   `json:"account"`
	Balance   Amount    `json:"balance"`
	Commodity Commodity `json:"commodity,omitempty"`
	Scope     Scope     `json:"scope,omitempty"`
	Tolerance Amount    `json:"tolerance,omitzero"`
}

// Validate tells what is wrong with the form of a message, all of it. Whether
// the book allows what it asks for is another question, see [Apply].
func (m *Message) Validate() error {
	op, ok := operations[m.Op]
	if !ok {
		return fmt.Errorf("op %q is not known: use one of %s", string(m.Op), strings.Join(opNames(), ", "))
	}
	var problems []error
	bad := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, f := range fields {
		given := f.given(m)
		switch needed := op.needs&f.bit != 0; {
		case needed && !given:
			bad("%s needs %q", m.Op, f.name)
		case given && !needed && op.takes&f.bit == 0:
			bad("%s does not take %q: remove it", m.Op, f.name)
		}
	}
	positive := func(name string, amount *Amount) {
		if amount != nil && !amount.IsPositive() {
			bad("%s must be more than 0, and is %s", name, amount)
		}
	}
	positive("amount", m.Amount)
	if m.Gets != nil {
		positive("gets", &m.Gets.Amount)
	}
	if m.AtLeast != nil {
		positive("at_least", &m.AtLeast.Amount)
	}
	if m.From != Root && m.From == m.To && m.Op == Transfer {
		bad("from and to are the same account")
	}
	if err := checkName(m.ID, maxID); err != nil {
		bad("id %.80q: %w", m.ID, err)
	}
	problems = append(problems, m.checkPostings(), m.checkExpectations())
	return errors.Join(problems...)
}

func (m *Message) checkPostings() error {
	for i, p := range m.Postings {
		if p.Account == Root {
			return fmt.Errorf("posting %d: the whole book is no account to post to", i+1)
		}
	}
	if m.Op == Post && len(m.Postings) == 0 && len(m.Expect) == 0 {
		return errors.New("post needs \"postings\", or \"expect\" to check without posting")
	}
	return nil
}

func (m *Message) checkExpectations() error {
	if m.Reject && len(m.Expect) > 0 {
		return errors.New("\"reject\" and \"expect\" exclude each other: a rejected message leaves nothing to check")
	}
	for i, e := range m.Expect {
		switch {
		case e.Scope != "" && e.Scope != Own && e.Scope != Subtree:
			return fmt.Errorf("expectation %d: scope %q is not known: use \"own\" or \"subtree\"", i+1, string(e.Scope))
		case e.Tolerance.IsNegative():
			return fmt.Errorf("expectation %d: tolerance is %s: it must not be negative", i+1, e.Tolerance)
		case e.Account == Root && e.Scope != Subtree:
			return fmt.Errorf("expectation %d: the whole book has no balance of its own: use scope \"subtree\"", i+1)
		}
	}
	return nil
}

// field is one of the fields that depend on the operation.
type field struct {
	bit   fieldSet
	name  string
	given func(*Message) bool
}

type fieldSet uint16

const (
	fAccount fieldSet = 1 << iota
	fClient
	fFrom
	fTo
	fAmount
	fCommodity
	fGets
	fAtLeast
	fPostings
)

var fields = []field{
	{fAccount, "account", func(m *Message) bool { return m.Account != Root }},
	{fClient, "client", func(m *Message) bool { return m.Client != Root }},
	{fFrom, "from", func(m *Message) bool { return m.From != Root }},
	{fTo, "to", func(m *Message) bool { return m.To != Root }},
	{fAmount, "amount", func(m *Message) bool { return m.Amount != nil }},
	{fCommodity, "commodity", func(m *Message) bool { return m.Commodity != "" }},
	{fGets, "gets", func(m *Message) bool { return m.Gets != nil }},
	{fAtLeast, "at_least", func(m *Message) bool { return m.AtLeast != nil }},
	{fPostings, "postings", func(m *Message) bool { return len(m.Postings) > 0 }},
}
