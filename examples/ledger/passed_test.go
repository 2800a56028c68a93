package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/report"
)

// asked counts what a source is asked for.
type asked struct {
	feed.Seeker
	times int
}

func (a *asked) Next() (feed.Item, error) {
	a.times++
	return a.Seeker.Next()
}

// runCounted runs an input and returns the summary, with how many messages were read.
func runCounted(t *testing.T, args ...string) (summary *report.Summary, text string, read int) {
	t.Helper()
	var stderr, stdout bytes.Buffer
	o, err := parseOptions(append(args, "-compare", "0"), &stderr)
	require.NoError(t, err)
	in, err := o.openInput(nil, &stderr)
	require.NoError(t, err)
	defer func() { require.NoError(t, in.close()) }()
	counted := &asked{Seeker: in.source.(feed.Seeker)}
	in.source = counted
	ctx := context.Background()
	term, err := o.begin(ctx, &stderr, in, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, term.close()) }()
	summary = &report.Summary{}
	summary.Failure = term.readAll(ctx, in.source, summary)
	_, err = term.conclude(ctx, &stdout, summary)
	require.NoError(t, err)
	return summary, stdout.String(), counted.times
}

// A run passes over what an earlier one has done, without reading it, and its summary
// is that of a run that has read all.
func TestPassingOver(t *testing.T) {
	t.Parallel()
	const done, more = 6000, 50
	folder := t.TempDir()
	made := strings.SplitAfter(ledger(t, "", "-generate", "ndjson", "-messages", fmt.Sprint(done+more)).stdout, "\n")
	in, db, out := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db"), filepath.Join(folder, "out.csv")
	put := func(lines ...string) { require.NoError(t, os.WriteFile(in, []byte(strings.Join(lines, "")), 0o600)) }
	args := []string{"-in", in, "-db", db, "-out", out}

	put(made[:done]...)
	first, _, read := runCounted(t, args...)
	requireGood(t, first)
	assert.Equal(t, done+1, read)

	again, text, read := runCounted(t, args...)
	requireGood(t, again)
	assert.Equal(t, 1024+1, read, "the first block, and the end")
	assert.Contains(t, text, "6,000 read, 6,000 done before, 0 ended, 0 applied, 0 in the journal")
	assert.Equal(t, first.Audit.Outcomes.Count[1:], again.Earlier.Count[1:], "what was not applied is told again")

	put(made...)
	grown, text, read := runCounted(t, args...)
	requireGood(t, grown)
	assert.Equal(t, 1024+more+1, read)
	assert.Contains(t, text, "6,050 read, 6,000 done before, 50 ended")
	balances := readFile(t, out)

	all, text, read := runCounted(t, append(args, "-checkpoint", "0")...)
	requireGood(t, all)
	assert.Equal(t, done+more+1, read)
	assert.Contains(t, text, "6,050 read, 6,050 done before, 0 ended")
	assert.Equal(t, balances, readFile(t, out))

	other := filepath.Join(folder, "other.csv")
	require.Equal(t, exitGood, ledger(t, "", "-in", in, "-db", filepath.Join(folder, "other.db"), "-out", other).code)
	assert.Equal(t, readFile(t, other), balances, "as in one run")
}

// So it is with made-up messages.
func TestPassingOverMadeUpMessages(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "ledger.db")
	args := []string{"-messages", "3000", "-db", db, "-checkpoint", "1000"}
	first, _, read := runCounted(t, args...)
	requireGood(t, first)
	assert.Equal(t, 3001, read)
	again, text, read := runCounted(t, args...)
	requireGood(t, again)
	assert.Equal(t, 1024+1, read)
	assert.Contains(t, text, "3,000 read, 3,000 done before, 0 ended")
}

// A change in what is passed over is noticed whatever it is: at once in its last
// 64 KiB, or if the number of bytes changes; and otherwise before the run ends, and the
// next one tells the line.
func TestChangedWhereItIsPassedOver(t *testing.T) {
	t.Parallel()
	made := strings.SplitAfter(ledger(t, "", "-generate", "ndjson", "-messages", "6050").stdout, "\n")
	whole := strings.Join(made[:6000], "")
	const line = 1500
	at := len(strings.Join(made[:line-1], "")) + strings.Index(made[line-1], `"op"`)
	other := strings.Replace(made[line-1], "client:", "patron:", 1)
	require.NotEqual(t, made[line-1], other)
	edited := strings.Replace(whole, made[line-1], other, 1)
	require.Len(t, edited, len(whole))
	require.Greater(t, len(whole)-at, 64<<10)
	told := fmt.Sprintf("line %d: the input begins like", line)
	for name, c := range map[string]struct{ input, want string }{
		"an edit":            {edited, "was changed somewhere in its first 6000 lines"},
		"an edit, and grown": {edited + strings.Join(made[6000:], ""), "was changed somewhere in its first 6000 lines"},
		"another length":     {strings.Replace(whole, made[line-1], other[:len(other)-2]+" }\n", 1), told},
		"a line less":        {strings.Replace(whole, made[line-1], "", 1), told},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			in, db := filepath.Join(folder, "in.ndjson"), filepath.Join(folder, "ledger.db")
			require.NoError(t, os.WriteFile(in, []byte(whole), 0o600))
			require.Equal(t, exitGood, ledger(t, "", "-in", in, "-db", db).code)
			before := len(journalOf(t, db))
			require.NoError(t, os.WriteFile(in, []byte(c.input), 0o600))
			r := ledger(t, "", "-in", in, "-db", db)
			require.Equal(t, exitBad, r.code)
			assert.Contains(t, r.stdout, c.want)
			r = ledger(t, "", "-in", in, "-db", db)
			require.Equal(t, exitBad, r.code)
			assert.Contains(t, r.stdout, told)
			assert.LessOrEqual(t, len(journalOf(t, db))-before, 50)
			require.NoError(t, os.WriteFile(in, []byte(whole), 0o600))
			require.Equal(t, exitGood, ledger(t, "", "-in", in, "-db", db).code)
		})
	}
}

// requireCheckpoint fails if a checkpoint is ahead of what was done.
func (b *crashBook) requireCheckpoint(t *testing.T) {
	t.Helper()
	opened, err := sql.Open(driverOf(b.db))
	require.NoError(t, err)
	defer opened.Close()
	done := 0
	var messages sql.NullInt64
	err = opened.QueryRow(`SELECT max(messages) FROM checkpoints`).Scan(&messages)
	if err != nil {
		return // killed before there were tables
	}
	err = opened.QueryRow(`SELECT count(*) FROM (SELECT event FROM journal UNION SELECT event FROM refusals) AS e
		WHERE CAST(substr(event, $1) AS integer) <= $2`, len(b.streams.String())+2, messages.Int64).Scan(&done)
	require.NoError(t, err)
	require.EqualValues(t, messages.Int64, done, "all before a checkpoint has ended")
}
