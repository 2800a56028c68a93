package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/shopspring/decimal"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/interlocktest"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
)

// asProgram makes the test binary behave as the program.
const asProgram = "LEDGER_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	flag.Parse()
	if most := flag.Lookup("test.parallel"); most.Value.String() == most.DefValue {
		// Most tests wait for disks, servers and processes.
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	temporary, err := ownTemporaryFolder()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	endShared()
	_ = os.RemoveAll(temporary)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// ownTemporaryFolder makes a folder, and has the tests and what they start use it for
// temporary files: many leave a file of rejects, and those that are killed what they had.
func ownTemporaryFolder() (dir string, err error) {
	if dir, err = os.MkdirTemp("", "ledger-tests"); err != nil {
		return "", err
	}
	return dir, errors.Join(os.Chmod(dir, 0o711), os.Setenv("TMPDIR", dir)) // PostgreSQL has a user of its own
}

// process is the program as a process of its own.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(binary, args...)
	command.Env = append(command.Environ(), asProgram+"=1")
	return command
}

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
}

// checked fails the test if a message reads or writes what it has not declared.
func checked(t *testing.T) func(*options) {
	touched := interlocktest.Touched(t)
	return func(o *options) { o.touched = touched }
}

// ledger runs the program.
func ledger(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if slices.Contains(args, "-in") && !slices.Contains(args, "-compare") {
		args = append(slices.Clip(args), "-compare", "0") // which runs all twice more
	}
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr, checked(t))
	return result{code, stdout.String(), stderr.String()}
}

// messages is a source of the messages in a slice.
type messages []*book.Message

func (ms *messages) Next() (feed.Item, error) {
	if len(*ms) == 0 {
		return feed.Item{}, io.EOF
	}
	m := (*ms)[0]
	*ms = (*ms)[1:]
	return feed.Item{Message: m}, nil
}

// setup is a way to run messages.
type setup struct {
	db      string // "memory", or "" for SQLite
	workers int
	policy  dispatcher.Policy
}

func (s setup) String() string {
	db := s.db
	if db == "" {
		db = "sqlite"
	}
	return db + "/" + s.policy.String() + "/" + strconv.Itoa(s.workers)
}

// setups are the ways to run each data set; see also TestOnSQLite.
func setups() (list []setup) {
	for _, policy := range []dispatcher.Policy{dispatcher.LookAhead(4096), dispatcher.HeadOnly()} {
		for _, workers := range []int{1, 2, 8, 64} {
			list = append(list, setup{"memory", workers, policy})
		}
	}
	return list
}

// part returns all of the messages, or as many as are worth it under the race
// detector, where everything takes ten times as long. The Makefile has both.
func part(ms []*book.Message, worth int) (_ []*book.Message, all bool) {
	if raceDetector && len(ms) > worth {
		return ms[:worth], false
	}
	return ms, true
}

// replayAll runs messages and returns the summary, of which the checks are for
// the caller to look at.
func replayAll(t *testing.T, how setup, ms []*book.Message) *report.Summary {
	t.Helper()
	o := &options{db: how.db, workers: how.workers, policy: how.policy, rejects: filepath.Join(t.TempDir(), "rejects.ndjson")}
	ctx := context.Background()
	source := messages(ms)
	s, err := o.begin(ctx, io.Discard, &input{source: &source}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	summary := &report.Summary{}
	summary.Failure = s.readAll(ctx, &source, summary)
	_, err = s.conclude(ctx, io.Discard, summary)
	require.NoError(t, err)
	return summary
}

// requireGood fails unless every check of a run holds.
func requireGood(t *testing.T, s *report.Summary) {
	t.Helper()
	for _, c := range s.Checks() {
		require.True(t, c.OK, "%s %v %+v", c.Text, c.More, s.Audit.Outcomes.Reasons())
	}
}

// finals looks up final balances; what is not there is zero.
type finals map[book.Holding]report.Balance

func finalsOf(balances []report.Balance) finals {
	f := finals{}
	for _, b := range balances {
		f[book.Holding{Account: b.Account, Commodity: b.Commodity}] = b
	}
	return f
}

// holdings reduces balances to those that are not zero, for comparison.
type holdings map[book.Holding]string

func (h holdings) set(account string, commodity book.Commodity, amount decimal.Decimal) {
	if !amount.IsZero() {
		h[book.Holding{Account: book.Account(account), Commodity: commodity}] = amount.String()
	}
}

func ownOf(balances []report.Balance) holdings {
	h := holdings{}
	for _, b := range balances {
		h.set(string(b.Account), b.Commodity, b.Own)
	}
	return h
}

func subtreesOf(balances []report.Balance) holdings {
	h := holdings{}
	for _, b := range balances {
		h.set(string(b.Account), b.Commodity, b.Subtree)
	}
	return h
}

// dataFile returns the path of a file of the data sets, which lie beside the
// repository.
func dataFile(t testing.TB, name ...string) string {
	t.Helper()
	root := filepath.Join("..", "..", "..", "shared", "data")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("the data sets are not here (%s): nothing to compare with", root)
	}
	return filepath.Join(append([]string{root}, name...)...)
}

// table is a CSV file with a header.
type table struct {
	columns map[string]int
	rows    [][]string
}

func readTable(t testing.TB, name ...string) table {
	t.Helper()
	f, err := os.Open(dataFile(t, name...))
	require.NoError(t, err)
	defer f.Close()
	return parseTable(t, f)
}

func parseTable(t testing.TB, r io.Reader) table {
	t.Helper()
	rows, err := csv.NewReader(r).ReadAll()
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	tab := table{map[string]int{}, rows[1:]}
	for i, name := range rows[0] {
		tab.columns[name] = i
	}
	return tab
}

func (tab table) get(row []string, column string) string { return row[tab.columns[column]] }

// each calls f for every row, with a function that gives a column.
func (tab table) each(f func(get func(column string) string)) {
	for _, row := range tab.rows {
		f(func(column string) string { return tab.get(row, column) })
	}
}

func amountOf(t testing.TB, text string) decimal.Decimal {
	t.Helper()
	a, err := book.ParseAmount(strings.TrimSpace(text))
	require.NoError(t, err)
	return a.Decimal
}

// Amounts as the tools print them, with the commodity before or behind.
var (
	prefixed = regexp.MustCompile(`^"?([^-0-9."]*?)"? ?(-?[0-9]+(?:\.[0-9]+)?)$`)
	suffixed = regexp.MustCompile(`^(-?[0-9]+(?:\.[0-9]+)?) ?"?([^0-9]*?)"?$`)
	negative = regexp.MustCompile(`^-([^-0-9."]+?) ?([0-9]+(?:\.[0-9]+)?)$`)
)

// parseMixed reads a balance of several commodities as hledger prints it:
// "$0.01, -2.482278 AAAAA".
func parseMixed(t testing.TB, text string) map[book.Commodity]decimal.Decimal {
	t.Helper()
	mixed := map[book.Commodity]decimal.Decimal{}
	for part := range strings.SplitSeq(text, ", ") {
		var commodity, amount string
		if m := prefixed.FindStringSubmatch(part); m != nil {
			commodity, amount = m[1], m[2]
		} else if m := suffixed.FindStringSubmatch(part); m != nil {
			amount, commodity = m[1], m[2]
		} else if m := negative.FindStringSubmatch(part); m != nil {
			commodity, amount = m[1], "-"+m[2]
		} else {
			require.Fail(t, "not an amount", "%q in %q", part, text)
		}
		mixed[book.Commodity(commodity)] = amountOf(t, amount)
	}
	return mixed
}
