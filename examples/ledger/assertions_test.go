package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// assertionCase is one of hledger's own cases of balance assertions.
type assertionCase struct {
	title, journal string
	holds          bool
}

// hledgerCases reads the cases that carry their journal: after "<", with the
// command after "$" and, if it must fail, ">=1".
func hledgerCases(t *testing.T) (cases []assertionCase) {
	t.Helper()
	text := readFile(t, dataFile(t, "hledger-examples", "assertions", "assertions.test"))
	for _, part := range strings.Split(text, "\n# ** ")[1:] {
		title, rest, _ := strings.Cut(part, "\n")
		_, journal, carried := strings.Cut(rest, "<\n")
		journal, command, found := strings.Cut(journal, "\n$ hledger ")
		if carried && found {
			cases = append(cases, assertionCase{title, journal, !strings.Contains(command, ">=1")})
		}
	}
	return cases
}

// inexpressible are the cases that say something else than what a balance is
// after a posting, in the order of the postings.
var inexpressible = map[string]string{
	"11.": "a balance from before the amounts of the same transaction were inferred",
	"12.": "hledger refuses the journal as such",
	"13.": "postings with dates of their own",
	"28.": "hledger 1.25 infers another amount than newer ones",
	"29.": "hledger 1.25 infers another amount than newer ones",
}

// The program says the same of hledger's cases as they say themselves.
func TestAssertionCases(t *testing.T) {
	expressed := 0
	for _, c := range hledgerCases(t) {
		number, _, _ := strings.Cut(c.title, " ")
		if inexpressible[number] != "" {
			continue
		}
		expressed++
		t.Run(number, func(t *testing.T) {
			ms := assertionMessages(t, write(t, "case.journal", c.journal))
			s := replayAll(t, setup{"memory", 8, dispatcher.LookAhead(4096)}, ms)
			assert.Equal(t, c.holds, s.Good(), "%s\n%s\n%+v", c.title, c.journal, s.Audit.Outcomes.Reasons())
		})
	}
	assert.Equal(t, 26, expressed)
}

// The files beside them, of which the README says which pass alone.
func TestAssertionFiles(t *testing.T) {
	for name, holds := range map[string]bool{
		"assertions1.j": true, "assertions11.j": true, "assertions2.j": false, "assertions21.j": false,
		"assertions22.j": false, "assertions31.j": false, "errors-assertions.j": false, "multicurrency.journal": true,
		"household2.journal": true,
	} {
		t.Run(name, func(t *testing.T) {
			ms := assertionMessages(t, dataFile(t, "hledger-examples", "assertions", name))
			s := replayAll(t, setup{"memory", 8, dispatcher.LookAhead(4096)}, ms)
			assert.Equal(t, holds, s.Good(), "%+v", s.Audit.Outcomes.Reasons())
		})
	}
}

// asserted is what stands behind the amount of a posting: "= 5 EUR".
var asserted = regexp.MustCompile(` (==?\*?) +(.+)$`)

// assertionMessages makes a message of each posting, since hledger checks the
// assertion of one before it goes on to the next. The amounts come from
// hledger's CSV and the assertions from its text, posting by posting.
func assertionMessages(t *testing.T, journal string) (ms []*book.Message) {
	t.Helper()
	postings := parseTable(t, strings.NewReader(mustHledger(t, "-f", journal, "print", "-I", "-O", "csv")))
	assertions := assertionsOf(mustHledger(t, "-f", journal, "print", "-I", "-x"))
	require.Len(t, assertions, len(postings.rows))
	seen := map[book.Commodity]bool{}
	for i, m := range decodePostings(t, postings) {
		seen[m.Postings[0].Commodity] = true
		if found := asserted.FindStringSubmatch(assertions[i]); found != nil {
			m.Expect = expectAsserted(t, m.Postings[0].Account, found[1], found[2], seen)
		}
		ms = append(ms, m)
	}
	return ms
}

// assertionsOf returns the posting lines of hledger's text, without comments.
func assertionsOf(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimRight(line, "\n"), ";")
		if strings.HasPrefix(line, "    ") && strings.TrimSpace(line) != "" {
			lines = append(lines, strings.TrimRight(line, " "))
		}
	}
	return lines
}

func decodePostings(t *testing.T, postings table) (ms []*book.Message) {
	postings.each(func(get func(string) string) {
		ms = append(ms, &book.Message{Op: book.Post, Postings: []book.Posting{{
			Account: book.Account(strings.Trim(get("account"), "()[]")),
			Money:   book.Money{Amount: book.Amount{Decimal: amountOf(t, get("amount"))}, Commodity: book.Commodity(get("commodity"))},
		}}})
	})
	return ms
}

// expectAsserted translates an assertion: one sign is about its commodity, two
// say that there is no other one, and a star takes in all accounts below.
func expectAsserted(t *testing.T, account book.Account, sign, amount string, seen map[book.Commodity]bool) (all []book.Expectation) {
	amount, _, _ = strings.Cut(amount, " @") // a cost does not matter
	scope := book.Own
	if strings.HasSuffix(sign, "*") {
		scope = book.Subtree
	}
	want := parseMixed(t, amount)
	if strings.HasPrefix(sign, "==") {
		for c := range seen {
			if _, named := want[c]; !named {
				want[c] = decimal.Zero
			}
		}
	}
	for _, c := range slices.Sorted(maps.Keys(want)) {
		all = append(all, book.Expectation{Account: account, Balance: book.Amount{Decimal: want[c]}, Commodity: c, Scope: scope})
	}
	return all
}
