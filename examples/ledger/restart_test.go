package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	db := filepath.Join(t.TempDir(), "ledger.db")
	stdin, feed := io.Pipe()
	var stdout strings.Builder
	first := make(chan int, 1)
	go func() {
		first <- run(t.Context(), []string{"-in", "-", "-db", db}, stdin, &stdout, io.Discard)
	}()
	_, err := io.WriteString(feed, deposits("1"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(journalOf(t, db)) == 1 }, time.Minute, time.Millisecond)

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
	assert.Len(t, journalOf(t, db), 2)
}
