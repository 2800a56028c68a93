package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// hledger runs hledger and returns what it prints.
func hledger(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	program, err := exec.LookPath("hledger")
	require.NoError(t, err, "hledger is not installed: run make deps")
	command := exec.Command(program, args...)
	command.Env = append(command.Environ(), "LANG=C.UTF-8")
	out, err := command.Output()
	return string(out), err
}

func mustHledger(t *testing.T, args ...string) string {
	t.Helper()
	out, err := hledger(t, args...)
	require.NoError(t, err, "hledger %v", args)
	return out
}

// tricky has what CSV and amounts can be like.
const tricky = `commodity EUR 1.000,00
commodity 1 000.00 "green apples"

2024-01-01 * (c1) Payee | note  ; comment, k:v
    Assets:Bank, Joint:X    1.234,56 EUR  = 1.234,56 EUR
    Equity:Open
2024-01-02 ! second "quoted"
    Assets:Apples   1 200.50 "green apples" @ 2,00 EUR
    Assets:Bank, Joint:X
2024-01-03 third
    (Virtual:One)   5 EUR
    [Bal:A]   6 EUR
    [Bal:B]
    A:B   $-1,000,000.25
    C:D   $1,000,000.25
2024-01-04 several commodities
    A:B   $10
    C:D   5 EUR
    Ä:Ö
2024-01-05 =2024-01-06 nothing
    A:B   0
    A     0.000001 BTC
    A:B:C
`

// Journals go through "hledger print -O csv" and the program, and both have
// the same balances, of every account and every subtree.
func TestAgainstHledger(t *testing.T) {
	t.Parallel()
	for name, journal := range map[string]func(t *testing.T) string{
		"made up": func(t *testing.T) string {
			made := ledger(t, "", "-generate", "journal", "-messages", "3000")
			return write(t, "made.journal", made.stdout)
		},
		"tricky":        func(t *testing.T) string { return write(t, "tricky.journal", tricky) },
		"bench":         dataJournal("hledger-examples", "bench-10000x1000x10", "10000x1000x10.journal"),
		"bcexample":     dataJournal("hledger-examples", "bcexample", "bcexample.journal"),
		"multicurrency": dataJournal("hledger-examples", "assertions", "multicurrency.journal"),
		"household2":    dataJournal("hledger-examples", "assertions", "household2.journal"),
		"standard":      dataJournal("ledger-standard", "standard.dat"),
		"transfer":      dataJournal("ledger-standard", "small", "transfer.dat"),
		"drewr":         dataJournal("ledger-standard", "small", "drewr.dat"),
	} {
		t.Run(name, func(t *testing.T) {
			path := journal(t)
			csv := write(t, "books.csv", mustHledger(t, "-f", path, "print", "-O", "csv"))
			out := filepath.Join(t.TempDir(), "balances.csv")
			r := ledger(t, "", "-in", csv, "-db", "memory", "-compare", "0", "-out", out)
			require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
			balances := parseTable(t, strings.NewReader(readFile(t, out)))
			assert.Equal(t, hledgerBalances(t, path, "--flat"), balanceColumn(t, balances, "own_balance"))
			assert.Equal(t, hledgerBalances(t, path, "--tree", "--no-elide"), balanceColumn(t, balances, "subtree_balance"))
			assert.Equal(t, hledgerNodes(t, path), nodesOf(balances))
		})
	}
}

func dataJournal(name ...string) func(t *testing.T) string {
	return func(t *testing.T) string { return dataFile(t, name...) }
}

func hledgerBalances(t *testing.T, journal string, layout ...string) holdings {
	t.Helper()
	args := append([]string{"-f", journal, "balance", "-N", "-E", "-O", "csv", "--layout", "bare"}, layout...)
	return balanceColumn(t, parseTable(t, strings.NewReader(mustHledger(t, args...))), "balance")
}

func balanceColumn(t *testing.T, balances table, column string) holdings {
	t.Helper()
	h := holdings{}
	balances.each(func(get func(string) string) {
		plain := strings.Replace(get(column), ",", ".", 1) // there are no marks between groups
		h.set(get("account"), book.Commodity(get("commodity")), amountOf(t, plain))
	})
	return h
}

// hledgerNodes lists every node of the tree of accounts that were posted to.
func hledgerNodes(t *testing.T, journal string) []string {
	t.Helper()
	out := strings.TrimSpace(mustHledger(t, "-f", journal, "accounts", "--used"))
	nodes := map[string]bool{}
	for account := range strings.SplitSeq(out, "\n") {
		for _, above := range book.Account(account).Lineage() {
			nodes[string(above)] = true
		}
	}
	return sortedKeys(nodes)
}

func nodesOf(balances table) []string {
	nodes := map[string]bool{}
	balances.each(func(get func(string) string) { nodes[get("account")] = true })
	return sortedKeys(nodes)
}

func sortedKeys(set map[string]bool) (keys []string) {
	for k := range set {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// The exported journal carries the expectations as assertions, and hledger
// finds that they hold: what the generator expects is right.
func TestHledgerChecksTheGenerator(t *testing.T) {
	t.Parallel()
	made := ledger(t, "", "-generate", "journal", "-messages", "20000", "-seed", "5")
	require.Greater(t, strings.Count(made.stdout, " = "), 1000)
	require.Greater(t, strings.Count(made.stdout, " =* "), 100)
	good := write(t, "good.journal", made.stdout)
	_, err := hledger(t, "-f", good, "check")
	require.NoError(t, err)

	first, rest, _ := strings.Cut(made.stdout, "\n2024-01-02 ")
	transactions := strings.SplitAfter(first, "\n\n")
	lost := strings.Join(slices.Delete(transactions, 2, 3), "") + "\n2024-01-02 " + rest
	_, err = hledger(t, "-f", write(t, "lost.journal", lost), "check")
	require.Error(t, err, "a journal that lacks a transaction must not pass")
}

// ledger-cli's own answer for a file in which every transaction uses the same
// two accounts.
func TestTotalContention(t *testing.T) {
	csv := mustHledger(t, "-f", dataFile(t, "ledger-standard", "small", "transfer.dat"), "print", "-O", "csv")
	for _, how := range setups() {
		t.Run(how.String(), func(t *testing.T) {
			ms := decodeCSV(t, csv)
			expectTransfers(t, ms)
			s := replayAll(t, how, ms)
			requireGood(t, s)
			assert.Equal(t, holdings{
				{Account: "Expenses:Internet", Commodity: "bytes"}:             "72355001",
				{Account: "Liabilities:Payable:hcoop.net", Commodity: "bytes"}: "-72355001",
			}, ownOf(s.Balances))
		})
	}
}

func decodeCSV(t *testing.T, csv string) (ms []*book.Message) {
	t.Helper()
	source := feed.NewHledger(strings.NewReader(csv), "")
	for {
		item, err := source.Next()
		if err != nil {
			require.ErrorContains(t, err, "EOF")
			return ms
		}
		ms = append(ms, item.Message)
	}
}

// expectTransfers adds the running totals that ledger-cli prints.
func expectTransfers(t *testing.T, ms []*book.Message) {
	t.Helper()
	running := strings.TrimSpace(readFile(t, dataFile(t, "ledger-standard", "small", "expected-transfer-running.txt")))
	lines := strings.Split(running, "\n")
	require.Len(t, lines, len(ms))
	for i, line := range lines {
		fields := strings.Split(line, "\t")
		number, commodity, _ := strings.Cut(fields[3], " ")
		ms[i].Expect = []book.Expectation{{
			Account: book.Account(fields[1]), Balance: book.Amount{Decimal: amountOf(t, number)}, Commodity: book.Commodity(commodity),
		}}
	}
}
