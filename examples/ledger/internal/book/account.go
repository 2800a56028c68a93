package book

import (
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// Account is the path of an account in the tree of accounts, written as
// ledger-cli, hledger and beancount do: "Assets:Chase:Checking". The zero
// Account is the root, which stands for the whole book and is written "/".
type Account string

// Root is the whole book.
const Root Account = ""

const (
	rootText   = "/"
	separator  = ":"
	maxAccount = 512 // characters: with a commodity what an index of PostgreSQL has room for
)

// ParseAccount reads the text form of an account.
func ParseAccount(text string) (Account, error) {
	if text == rootText {
		return Root, nil
	}
	if err := checkAccount(text); err != nil {
		return Root, fmt.Errorf("account %.80q: %w", text, err)
	}
	return Account(text), nil
}

func checkAccount(text string) error {
	if text == "" {
		return errors.New("empty: write a path such as \"Assets:Bank\", or \"/\" for the whole book")
	}
	err := checkName(text, maxAccount)
	switch {
	case err != nil:
		return err
	case strings.Count(text, separator) >= lockkeys.MaxDepth:
		return fmt.Errorf("deeper than %d levels: join some of them", lockkeys.MaxDepth)
	}
	for segment := range strings.SplitSeq(text, separator) {
		if segment == "" {
			return errors.New("a level has no name: remove the extra \":\"")
		}
	}
	return nil
}

// String returns the text form that [ParseAccount] reads.
func (a Account) String() string {
	if a == Root {
		return rootText
	}
	return string(a)
}

// MarshalText gives the text form.
func (a Account) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads the text form.
func (a *Account) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAccount(string(text))
	return err
}

// Key returns the lock key of the account: one segment for each level.
func (a Account) Key() (lockkeys.Key, error) {
	if a == Root {
		return lockkeys.Root(), nil
	}
	return lockkeys.New(strings.Split(string(a), separator)...)
}

// Parent returns the account one level up; ok is false for the root.
func (a Account) Parent() (parent Account, ok bool) {
	if a == Root {
		return Root, false
	}
	return a[:max(strings.LastIndex(string(a), separator), 0)], true
}

// Lineage returns the account and all accounts above it but the root, from
// the top down.
func (a Account) Lineage() []Account {
	if a == Root {
		return nil
	}
	lineage := make([]Account, 0, strings.Count(string(a), separator)+1)
	for i := range len(a) {
		if a[i] == separator[0] {
			lineage = append(lineage, a[:i])
		}
	}
	return append(lineage, a)
}

// Contains reports whether b is a or lies below it.
func (a Account) Contains(b Account) bool {
	rest, ok := strings.CutPrefix(string(b), string(a))
	return ok && (a == Root || rest == "" || rest[0] == separator[0])
}

// Compare orders accounts as the tree does: an account, what lies below it,
// then the next one. Plain string order would put "a-b" between "a" and "a:b".
func (a Account) Compare(b Account) int {
	n := min(len(a), len(b))
	for i := range n {
		x, y := a[i], b[i]
		switch {
		case x == y:
			continue
		case x == separator[0]:
			return -1
		case y == separator[0]:
			return +1
		case x < y:
			return -1
		default:
			return +1
		}
	}
	return len(a) - len(b)
}
