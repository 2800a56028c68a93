package book_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

func TestParseAccount(t *testing.T) {
	for text, problem := range map[string]string{
		"Assets:Chase:Checking":        "",
		"Assets:Wells Fargo/Co.":       "",
		"1":                            "",
		"/":                            "",
		"Русский язык:Активы":          "",
		"":                             "empty",
		":":                            "a level has no name",
		"a::b":                         "a level has no name",
		"a:":                           "a level has no name",
		":a":                           "a level has no name",
		"a\x00b":                       "control character",
		"a\nb":                         "control character",
		"a\xffb":                       "not UTF-8",
		strings.Repeat("a", 513):       "longer than 512 characters",
		strings.Repeat("é", 512):       "",
		strings.Repeat("a:", 64):       "deeper than 64 levels",
		"a" + strings.Repeat(":a", 63): "",
	} {
		_, err := book.ParseAccount(text)
		if problem == "" {
			assert.NoError(t, err, "%q", text)
		} else {
			assert.ErrorContains(t, err, problem, "%q", text)
		}
	}
}

func TestAccountTree(t *testing.T) {
	a := book.Account("Assets:Bank:Checking")
	assert.Equal(t, []book.Account{"Assets", "Assets:Bank", a}, a.Lineage())
	assert.Empty(t, book.Root.Lineage())
	assert.Equal(t, "/", book.Root.String())
	parent, ok := a.Parent()
	assert.Equal(t, book.Account("Assets:Bank"), parent)
	assert.True(t, ok)
	top, ok := book.Account("Assets").Parent()
	assert.Equal(t, book.Root, top)
	assert.True(t, ok)
	_, ok = book.Root.Parent()
	assert.False(t, ok)
}

// accounts draws from few names, so that related ones are drawn often.
var accounts = rapid.Custom(func(t *rapid.T) book.Account {
	levels := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a-b", "a b", "b", "ä", "~"}), 0, 4).Draw(t, "levels")
	return book.Account(strings.Join(levels, ":"))
})

// Accounts and their keys agree about what lies below what, and about order.
func TestAccountsAreOrderedLikeTheirKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := accounts.Draw(t, "a"), accounts.Draw(t, "b")
		x, err := a.Key()
		require.NoError(t, err)
		y, err := b.Key()
		require.NoError(t, err)
		require.Equal(t, x.Contains(y), a.Contains(b))
		require.Equal(t, sign(x.Compare(y)), sign(a.Compare(b)))
		require.Equal(t, a != book.Root && a.Contains(b), slices.Contains(b.Lineage(), a))
		text, err := a.MarshalText()
		require.NoError(t, err)
		again, err := book.ParseAccount(string(text))
		require.NoError(t, err)
		require.Equal(t, a, again)
	})
}

func sign(n int) int { return min(max(n, -1), 1) }
