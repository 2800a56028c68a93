package main

import (
	"crypto/sha256"
	"database/sql"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// deposits are messages that add 1 to an account and expect what it has then.
func deposits(balances ...string) string {
	var b strings.Builder
	for _, balance := range balances {
		b.WriteString(`{"op":"post","postings":[{"account":"A","amount":"1"}],"expect":[{"account":"A","balance":"` + balance + `"}]}` + "\n")
	}
	return b.String()
}

// A second run on the same database and input does nothing; what is added to
// the input is run, and another input of the same name is another one.
func TestSameInputAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, db := filepath.Join(folder, "today.ndjson"), filepath.Join(folder, "ledger.db")
	for _, step := range []struct{ what, input, want string }{
		{"begin", deposits("1", "2"), "2: 2 applied, 0 rejected"},
		{"again", deposits("1", "2"), "2: 2 done before, 0 applied, 0 rejected"},
		{"more", deposits("1", "2", "3"), "3: 2 done before, 1 applied, 0 rejected"},
		{"another", deposits("4"), "1: 1 applied, 0 rejected"},
		{"the longer one again", deposits("1", "2", "3"), "3: 3 done before, 0 applied, 0 rejected"},
		{"its first part", deposits("1"), "1: 1 done before, 0 applied, 0 rejected"},
	} {
		require.NoError(t, os.WriteFile(in, []byte(step.input), 0o600))
		out := filepath.Join(folder, "balances.csv")
		r := ledger(t, "", "-in", in, "-db", db, "-out", out)
		require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
		assert.Contains(t, r.stdout, step.want, step.what)
		if strings.Contains(step.input, `"4"`) {
			assert.Contains(t, readFile(t, out), "A,,4,4")
		}
	}
}

// Made-up messages are the same input when they are made the same way.
func TestSameMadeUpMessagesAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db, first, second := filepath.Join(folder, "ledger.db"), filepath.Join(folder, "1.csv"), filepath.Join(folder, "2.csv")
	r := ledger(t, "", "-messages", "500", "-db", db, "-out", first)
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	r = ledger(t, "", "-messages", "500", "-db", db, "-out", second)
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Contains(t, r.stdout, "500: 500 done before, 0 applied")
	assert.Contains(t, r.stdout, "500 read, 500 done before, 0 ended, 0 applied, 0 in the journal")
	assert.Empty(t, r.stderr)
	assert.Equal(t, readFile(t, first), readFile(t, second))
}

// A run says when it goes on after an earlier one.
func TestGoingOn(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, db := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db")
	require.NoError(t, os.WriteFile(in, []byte(deposits("1")), 0o600))
	require.Equal(t, exitGood, ledger(t, "", "-in", in, "-db", db).code)
	require.NoError(t, os.WriteFile(in, []byte(deposits("1", "2")), 0o600))
	r := ledger(t, "", "-in", in, "-db", db)
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Regexp(t, `^going on after 1 message that was done before; the first other one ended after [0-9.]+m?s\n$`, r.stderr)
	assert.Contains(t, r.stdout, "restart     the first message that was not done before ended after ")
}

// Messages with numbers of their own are applied in the order of those, each
// once, whatever the order of the lines.
func TestOwnNumbers(t *testing.T) {
	t.Parallel()
	post := func(sequence, balance string) string {
		return `{"op":"post","sequence":"` + sequence + `","postings":[{"account":"A:B","amount":"1"}],"expect":[{"account":"A:B","balance":"` + balance + `"}]}` + "\n"
	}
	db := filepath.Join(t.TempDir(), "ledger.db")
	run := func(lines ...string) result {
		return ledger(t, strings.Join(lines, ""), "-in", "-", "-db", db, "-gap", "10ms")
	}
	r := run(post("A/B=3", "3"), post("A/B=1", "1"), post("A/B=1", "1"), post("A/B=2", "2"), post("A/B=3", "3"))
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Contains(t, r.stdout, "5: 2 done before, 3 applied")

	r = run(post("A/B=1", "1"), post("A/B=6", "6"), post("A/B=5", "5"))
	require.Equal(t, exitBad, r.code, r.stdout+r.stderr)
	assert.Contains(t, r.stdout, "3: 1 done before, 0 applied")
	assert.Contains(t, r.stdout, "✗ messages that did not come: 1 stream cannot go on")
	assert.Contains(t, r.stdout, "A/B: 4")

	r = run(post("A/B=4", "4"))
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Contains(t, r.stdout, "1: 3 applied") // with the two that were kept

	r = run(post("A/B=7, C/D=2", "7"), post("C/D=1, A/B=8", "8"))
	require.Equal(t, exitBad, r.code, r.stdout+r.stderr)
	assert.Contains(t, r.stdout, "✗")
}

// Of two programs on one database, the one that opened it first ends, and has
// changed nothing since.
func TestTakenOver(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "ledger.db")
	stdin, feed := io.Pipe()
	var stdout strings.Builder
	first := make(chan int, 1)
	go func() {
		first <- run(t.Context(), []string{"-in", "-", "-db", db}, stdin, &stdout, io.Discard)
	}()
	_, err := io.WriteString(feed, deposits("1"))
	require.NoError(t, err)
	requireJournal(t, db, 1)

	second := ledger(t, deposits("2"), "-in", "-", "-db", db)
	require.Equal(t, exitGood, second.code, second.stdout+second.stderr)

	go func() { // until the first one has noticed
		for {
			if _, err := io.WriteString(feed, deposits("3")); err != nil {
				return
			}
		}
	}()
	require.Equal(t, exitBad, <-first)
	require.NoError(t, stdin.Close())
	assert.Contains(t, stdout.String(), "another program has taken over the database")
	assert.NotContains(t, stdout.String(), "missing from the accounts")
	assert.Contains(t, stdout.String(), "✓ nothing lost or doubled")
	assert.Len(t, journalOf(t, db), 2)
}

// An input that begins like a known one and goes on otherwise is refused from
// there on, unless it is named.
func TestChangedInput(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, db := filepath.Join(folder, "today.ndjson"), filepath.Join(folder, "ledger.db")
	run := func(input string, args ...string) result {
		require.NoError(t, os.WriteFile(in, []byte(input), 0o600))
		return ledger(t, "", append([]string{"-in", in, "-db", db}, args...)...)
	}
	require.Equal(t, exitGood, run(deposits("1", "2")).code)
	r := run(deposits("1", "7", "8"))
	require.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stdout, "line 2: the input begins like "+in+", which was read before, with the same 1 messages, and goes on otherwise")
	assert.Contains(t, r.stdout, "1: 1 done before, 0 applied")
	r = run(deposits("3", "4"), "-as", "another")
	require.Equal(t, exitGood, r.code, r.stdout)
	r = run(deposits("3", "4", "5"), "-as", "another")
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Contains(t, r.stdout, "3: 2 done before, 1 applied")
	r = run(deposits("1"))
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Contains(t, r.stderr, "the input ends before what was read of it once")

	r = ledger(t, deposits("6"), "-in", "-", "-db", db, "-as", "a pipe")
	require.Equal(t, exitGood, r.code, r.stdout)
	r = ledger(t, deposits("6", "7"), "-in", "-", "-db", db, "-as", "a pipe")
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Contains(t, r.stdout, "2: 1 done before, 1 applied")
}

// A CSV that was read while it was written is gone on with.
func TestCutCSV(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, db, out := filepath.Join(folder, "books.csv"), filepath.Join(folder, "ledger.db"), filepath.Join(folder, "out.csv")
	whole := "txnidx,account,amount,commodity\n1,a,5,EUR\n1,b,-5,EUR\n2,a,-3,EUR\n2,c,3,EUR\n3,c,1,EUR\n3,b,-1,EUR\n"
	for n := range len(whole) {
		if raceDetector && n%4 != 0 && whole[n-1] != '\n' {
			continue // the Makefile has the others
		}
		require.NoError(t, os.WriteFile(in, []byte(whole[:n]), 0o600))
		r := ledger(t, "", "-in", in, "-db", db, "-out", out)
		complete := strings.HasSuffix(whole[:n], "EUR\n") && strings.Count(whole[:n], "\n")%2 == 1
		require.Equal(t, complete, r.code == exitGood, "%q: %s", whole[:n], r.stdout)
		require.NotContains(t, r.stdout, "goes on otherwise")
	}
	require.NoError(t, os.WriteFile(in, []byte(whole), 0o600))
	r := ledger(t, "", "-in", in, "-db", db, "-out", out)
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Contains(t, r.stdout, "3: 2 done before, 1 applied")
	assert.Equal(t, "account,commodity,own_balance,subtree_balance\na,EUR,2,2\nb,EUR,-6,-6\nc,EUR,4,4\n", readFile(t, out))
}

// The end of a download that broke off is told by file and line, and is not applied;
// the whole file goes on from there, whatever its name is by then.
func TestCutDownload(t *testing.T) {
	t.Parallel()
	whole := `"txnidx","date","description","account","amount","commodity","comment"
"1","2024-01-01","rent","a","5.00","EUR",""
"1","2024-01-01","rent","b","-5.00","EUR",""
"2","2024-01-02","food, and
a receipt","a","7.00","EUR",""
"2","2024-01-02","food, and
a receipt","b","-7.00","EUR",""
"2","2024-01-02","food, and
a receipt","a","1.00","EUR",""
"2","2024-01-02","food, and
a receipt","b","-1.00","EUR",""
`
	for name, c := range map[string]struct {
		cut     string // where the part ends
		problem string // what is told; "" if the part looks whole
		done    int    // messages of the part that were applied
		added   int    // by the whole
	}{
		"within a number":          {`"a","7.`, `line 4: malformed: the line has no end: the input was cut`, 1, 1},
		"within a field's text":    {`"food, and`, `line 4: malformed: the line has no end: the input was cut`, 1, 1},
		"within a text's lines":    {"\"food, and\n", `line 4: malformed: the line has no end: the input was cut`, 1, 1},
		"between two fields":       {`"a","7.00",`, `line 4: malformed: the line has no end: the input was cut`, 1, 1},
		"before the last quote":    {`"b","-7.00","EUR","`, `line 4: malformed: line 6 of the same transaction: the line has no end: the input was cut`, 1, 1},
		"between two postings":     {`"a","7.00","EUR",""` + "\n", `line 4: malformed: the transaction does not balance, 7.00 EUR is left: was the input cut`, 1, 1},
		"where it balances":        {`"b","-7.00","EUR",""` + "\n", "", 2, 1},
		"behind a transaction":     {`"b","-5.00","EUR",""` + "\n", "", 1, 1},
		"before the last line end": {`"b","-1.00","EUR",""`, "", 2, 0},
		"within the first one":     {`"b","-5.`, `line 2: malformed: line 3 of the same transaction: the line has no end: the input was cut`, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			part, file, db, out := filepath.Join(folder, "part.csv"), filepath.Join(folder, "books.csv"), filepath.Join(folder, "ledger.db"), filepath.Join(folder, "out.csv")
			at := strings.Index(whole, c.cut)
			require.Positive(t, at)
			require.NoError(t, os.WriteFile(part, []byte(whole[:at+len(c.cut)]), 0o600))
			for range 2 {
				r := ledger(t, "", "-in", part, "-db", db)
				assert.Equal(t, c.problem == "", r.code == exitGood, r.stdout)
				if c.problem != "" {
					assert.Contains(t, r.stderr, part+": "+c.problem)
				}
				assert.Len(t, journalOf(t, db), c.done)
			}
			require.NoError(t, os.WriteFile(file, []byte(whole), 0o600))
			for range 2 {
				r := ledger(t, "", "-in", file, "-db", db, "-out", out)
				require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
				assert.Len(t, journalOf(t, db), c.done+c.added)
			}
			assert.Equal(t, "account,commodity,own_balance,subtree_balance\na,EUR,13.00,13.00\nb,EUR,-13.00,-13.00\n", readFile(t, out))
		})
	}
}

// A CSV that does not tell what its numbers mean is not applied at all, so that it can
// be once that is given.
func TestOpenAmounts(t *testing.T) {
	t.Parallel()
	db, out := filepath.Join(t.TempDir(), "ledger.db"), filepath.Join(t.TempDir(), "out.csv")
	in := write(t, "books.csv", "txnidx,account,amount,commodity\n1,a,5,EUR\n1,b,-5,EUR\n2,a,\"1,000\",EUR\n2,b,\"-1,000\",EUR\n3,a,2,EUR\n3,b,-2,EUR\n")
	r := ledger(t, "", "-in", in, "-db", db)
	require.Equal(t, exitBad, r.code, r.stdout)
	assert.Contains(t, r.stdout, in+`: line 4: amount "1,000": the other numbers do not say`)
	assert.Contains(t, r.stdout, "say which with -decimal-mark")
	assert.Empty(t, journalOf(t, db))
	r = ledger(t, "", "-in", in, "-db", db, "-decimal-mark", ".", "-out", out)
	require.Equal(t, exitGood, r.code, r.stdout)
	assert.Len(t, journalOf(t, db), 3)
	r = ledger(t, "", "-in", in, "-db", db, "-decimal-mark", ",", "-out", out)
	require.Equal(t, exitBad, r.code, r.stdout)
	assert.Contains(t, r.stdout, in+": line 4: the input begins like "+in)
	assert.Contains(t, r.stdout, "its amount means something else: with another -decimal-mark")
	assert.Len(t, journalOf(t, db), 3)
	assert.Equal(t, "account,commodity,own_balance,subtree_balance\na,EUR,1007,1007\nb,EUR,-1007,-1007\n", readFile(t, out))
}

// However an NDJSON input is cut, what is added later is applied once.
func TestCutNDJSON(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, db := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db")
	whole := deposits("1", "2", "3")
	for n := 1; n <= len(whole); n += 7 {
		if raceDetector && n%3 != 0 {
			continue // the Makefile has the others
		}
		require.NoError(t, os.WriteFile(in, []byte(whole[:n]), 0o600))
		ledger(t, "", "-in", in, "-db", db)
	}
	require.NoError(t, os.WriteFile(in, []byte(strings.ReplaceAll(whole, "\n", "")), 0o600))
	r := ledger(t, "", "-in", in, "-db", db)
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Len(t, journalOf(t, db), 3)
}

// A database of an older program, which knew inputs by their bytes, goes on.
func TestInputsThatAreKnownByTheirBytes(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	in, path := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db")
	begun := deposits("1", "2")
	require.NoError(t, os.WriteFile(in, []byte(begun), 0o600))
	require.Equal(t, exitGood, ledger(t, "", "-in", in, "-db", path).code)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.Exec(`UPDATE inputs SET identity = $1`, fmt.Sprintf("bytes:%d:%x", len(begun), sha256.Sum256([]byte(begun))))
	require.NoError(t, err)
	_, err = db.Exec(`DELETE FROM digests`)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	require.NoError(t, os.WriteFile(in, []byte(deposits("1", "2", "3")), 0o600))
	for _, want := range []string{"3: 2 done before, 1 applied", "3: 3 done before, 0 applied"} {
		r := ledger(t, "", "-in", in, "-db", path)
		require.Equal(t, exitGood, r.code, r.stdout)
		assert.Contains(t, r.stdout, want)
	}
}

// What was rejected stays told, and the rejects file has it once, whoever was
// killed before or while it was written.
func TestRejectionsStayTold(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"", `{"line":1,"event":"inp`, "something else\n"} {
		folder := t.TempDir()
		in, db, rejects := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db"), filepath.Join(folder, "rejects.ndjson")
		require.NoError(t, os.WriteFile(in, []byte(`{"op":"open","account":"a"}
{"op":"withdraw","account":"a","amount":"5"}
nonsense
{"op":"post","expect":[{"account":"a","balance":"7"}]}
{"op":"withdraw","account":"a","amount":"6","sequence":"x=1"}
{"op":"withdraw","account":"a","amount":"7","reject":true}
`), 0o600))
		require.NoError(t, os.WriteFile(rejects, []byte(left), 0o600))
		args := []string{"-in", in, "-db", db, "-rejects", rejects}
		first := ledger(t, "", args...)
		require.Equal(t, exitBad, first.code)
		kept := readFile(t, rejects)
		require.NoError(t, os.WriteFile(rejects, []byte(kept[:len(kept)-30]), 0o600))

		again := ledger(t, "", args...)
		require.Equal(t, exitBad, again.code)
		assert.Equal(t, kept, readFile(t, rejects))
		assert.Equal(t, strings.Contains(left, "\n"), strings.Contains(kept, "something"))
		assert.Contains(t, again.stdout, "5: 5 done before, 0 applied, 0 rejected, 1 malformed")
		for _, want := range []string{"✗ expectations: 0 held; not met in 1 message", "✗ rejected: 1 as expected, 2 otherwise", "not applied in an earlier run", rejects} {
			assert.Contains(t, again.stdout, want)
		}
		for _, want := range []string{"line 2: rejected: no cover: a has 0", "line 3: malformed", "line 4: expectation not met", "line 5: rejected"} {
			assert.Contains(t, first.stderr, want)
			assert.Contains(t, again.stderr, want)
		}
	}
}

// A rejection is told once, by the run that rejects and then as one of an earlier run,
// however many copies of the message there are.
func TestCopiesOfARejection(t *testing.T) {
	t.Parallel()
	const withdrawal = `{"op":"withdraw","account":"a","amount":"6","sequence":"x=1"}` + "\n"
	in, db := write(t, "in.ndjson", strings.Repeat(withdrawal, 3)), filepath.Join(t.TempDir(), "ledger.db")
	for _, earlier := range []bool{false, true} {
		r := ledger(t, "", "-in", in, "-db", db)
		require.Equal(t, exitBad, r.code)
		assert.Contains(t, r.stdout, "✗ rejected: 0 as expected, 1 otherwise")
		assert.Equal(t, earlier, strings.Contains(r.stdout, "not applied in an earlier run"), r.stdout)
		assert.Equal(t, 1, strings.Count(r.stderr, "rejected: no such account"), r.stderr)
		assert.NotContains(t, r.stderr, "going on after")
	}
}

// A message that is held behind the end of its stream is refused, once, and so
// are messages that each wait for the other; the database goes on.
func TestHeldForEver(t *testing.T) {
	t.Parallel()
	post := func(sequence string) string {
		return `{"op":"post","sequence":"` + sequence + `","postings":[{"account":"A:B","amount":"1"}]}` + "\n"
	}
	for name, c := range map[string]struct {
		held, rest string
		applied    int
	}{
		"behind the end": {post("A=3") + post("A=5"), post("A=1") + post("A=2;end"), 2},
		"in a circle":    {post("A=2,B=1") + post("A=3"), post("A=1,B=2") + post("B=3"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "ledger.db")
			run := func(lines string) result { return ledger(t, lines, "-in", "-", "-db", db, "-gap", "10ms") }
			require.Equal(t, exitBad, run(c.held).code)
			r := run(c.rest)
			require.Equal(t, exitBad, r.code)
			assert.Contains(t, r.stdout, "✗ numbers that contradict each other")
			assert.Contains(t, r.stderr, "contradiction")
			assert.Len(t, journalOf(t, db), c.applied)
			r = run(post("C=1"))
			require.Equal(t, exitGood, r.code, r.stdout)
			require.Equal(t, exitBad, run(c.held+c.rest).code, "it stays told")
			assert.Len(t, journalOf(t, db), c.applied+1)
		})
	}
}
