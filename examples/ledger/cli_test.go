package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// write makes a file with the given text and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

func TestMadeUpRun(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"-db", "memory"},
		{"-db", "memory", "-policy", "head-only", "-workers", "3", "-compare", "50"},
		{"-seed", "9", "-compare", "100"},
		{"-db", filepath.Join(t.TempDir(), "kept.db"), "-compare", "0", "-latency", "1us"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			r := ledger(t, "", append(args, "-messages", "500")...)
			require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
			assert.Empty(t, r.stderr)
			assert.Contains(t, r.stdout, "500 read, 500 ended")
			assert.NotContains(t, r.stdout, "✗")
		})
	}
}

func TestGeneratedInputRuns(t *testing.T) {
	t.Parallel()
	generated := ledger(t, "", "-generate", "ndjson", "-messages", "500", "-seed", "3")
	require.Equal(t, exitGood, generated.code)
	assert.Equal(t, 500, strings.Count(generated.stdout, "\n"))
	piped := ledger(t, generated.stdout, "-in", "-", "-db", "memory")
	require.Equal(t, exitGood, piped.code, piped.stdout+piped.stderr)
	journal := ledger(t, "", "-generate", "journal", "-messages", "500", "-seed", "3")
	require.Equal(t, exitGood, journal.code)
	assert.Contains(t, journal.stdout, "2024-01-01 deposit")
}

func TestSchemaFlag(t *testing.T) {
	r := ledger(t, "", "-schema")
	require.Equal(t, exitGood, r.code)
	assert.True(t, json.Valid([]byte(r.stdout)))
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	const fine = `{"op":"post","postings":[{"account":"A","amount":"1","commodity":"EUR"}],"expect":[{"account":"A","balance":"1","commodity":"EUR"}]}` + "\n"
	for name, c := range map[string]struct {
		input string
		code  int
		want  string // in the summary
	}{
		"all well":           {fine, exitGood, "✓ expectations: 1 held"},
		"nothing":            {"", exitBad, "✗ the input is empty"},
		"expected rejection": {`{"op":"withdraw","account":"x","amount":"1","reject":true}`, exitGood, "✓ rejected: 1 as expected, 0 otherwise"},
		"rejection":          {`{"op":"withdraw","account":"x","amount":"1"}`, exitBad, "✗ rejected: 0 as expected, 1 otherwise"},
		"missing rejection":  {`{"op":"open","account":"x","reject":true}`, exitBad, "✗ rejected: 0 as expected, 1 otherwise"},
		"unmet expectation":  {fine + fine, exitBad, "✗ expectations: 1 held; not met in 1 message"},
		"malformed line":     {"{\n" + fine, exitBad, "✗ malformed: 1 part of the input"},
	} {
		t.Run(name, func(t *testing.T) {
			rejects := filepath.Join(t.TempDir(), "rejects")
			r := ledger(t, c.input, "-in", "-", "-db", "memory", "-rejects", rejects)
			assert.Equal(t, c.code, r.code, r.stdout+r.stderr)
			assert.Contains(t, r.stdout, c.want)
		})
	}
}

// What is wrong is reported with its line and kept; the rest goes on.
func TestRejects(t *testing.T) {
	input := `{"op":"open","account":"a"}
{"op":"open","account":"a",}
{"op":"withdraw","account":"a","amount":"5","commodity":"<EUR>"}
{"op":"withdraw","account":"a","amount":"5","reject":true}
{"op":"deposit","account":"a","amount":"5","commodity":"EUR","expect":[{"account":"a","balance":"5","commodity":"EUR"}]}
`
	path := filepath.Join(t.TempDir(), "rejects.ndjson")
	r := ledger(t, input, "-in", "-", "-db", "memory", "-rejects", path)
	require.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stderr, "line 2: malformed: not JSON")
	assert.Contains(t, r.stderr, "line 3: rejected: no cover: a has 0 <EUR>")
	assert.NotContains(t, r.stderr, "line 4")
	assert.Contains(t, r.stdout, path)
	assert.Contains(t, r.stdout, "4: 2 applied, 2 rejected, 1 malformed")
	lines := strings.Split(strings.TrimSpace(readFile(t, path)), "\n")
	require.Len(t, lines, 3)
	kept := strings.Join(lines, "\n")
	assert.Contains(t, kept, `{"line":2,"verdict":"malformed","reason":"not JSON: `)
	assert.Contains(t, kept, `"raw":"{\"op\":\"open\",\"account\":\"a\",}"`)
	assert.Contains(t, kept, `"message":{"op":"withdraw","account":"a","amount":"5","commodity":"<EUR>"}`)
	assert.Contains(t, kept, `{"line":4,"event":"input/1/3","verdict":"rejected as expected"`)
}

// Text that is none is kept byte by byte.
func TestRejectsOfOtherBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rejects.ndjson")
	line := "{\"op\":\"open\",\"account\":\"Caf\xe9\"}"
	r := ledger(t, line+"\n", "-in", "-", "-db", "memory", "-rejects", path)
	require.Equal(t, exitBad, r.code)
	var kept struct{ Bytes []byte }
	require.NoError(t, json.Unmarshal([]byte(readFile(t, path)), &kept))
	assert.Equal(t, line, string(kept.Bytes))
}

// Without -rejects what should not have happened is still kept, and what was
// expected is not.
func TestRejectsByDefault(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	many := strings.Repeat("nonsense\n", 25)
	r := ledger(t, many, "-in", "-", "-db", "memory")
	require.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stderr, "... and 15 more, see the rejects file")
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	require.Len(t, left, 1, "only the rejects are left")
	assert.Equal(t, 25, strings.Count(readFile(t, left[0]), `"raw":"nonsense"`))

	require.NoError(t, os.Remove(left[0]))
	require.Equal(t, exitGood, ledger(t, `{"op":"withdraw","account":"x","amount":"1","reject":true}`, "-in", "-", "-compare", "9").code)
	left, err = filepath.Glob(filepath.Join(os.TempDir(), "*"))
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestOutAndTimeline(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	out, timeline := filepath.Join(folder, "balances.csv"), filepath.Join(folder, "timeline.svg")
	input := write(t, "books.csv", "txnidx,account,amount,commodity\n1,Assets:Bank,-5.00,$\n1,Expenses:Food,5.00,$\n")
	r := ledger(t, "", "-in", input, "-out", out, "-timeline", timeline)
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	assert.Equal(t, `account,commodity,own_balance,subtree_balance
Assets,$,0,-5.00
Assets:Bank,$,-5.00,-5.00
Expenses,$,0,5.00
Expenses:Food,$,5.00,5.00
`, readFile(t, out))
	assert.Contains(t, readFile(t, timeline), "look-ahead(4096), up to 64 at once")
}

// A second run goes on where the first one ended.
func TestKeptDatabase(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "ledger.db")
	step := func(balance string) result {
		return ledger(t, `{"op":"post","postings":[{"account":"A","amount":"1"}],"expect":[{"account":"A","balance":"`+balance+`"}]}`, "-in", "-", "-db", db, "-compare", "9")
	}
	require.Equal(t, exitGood, step("1").code)
	second := step("2")
	require.Equal(t, exitGood, second.code, second.stdout)
	assert.Contains(t, second.stdout, "not measured: the database was not empty")
	assert.Equal(t, exitBad, step("4").code)
}

func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"-nonsense":                                "flag provided but not defined",
		"-workers x":                               "invalid value",
		"file.ndjson":                              "the input is given with -in",
		"-policy both":                             `-policy "both" is not known`,
		"-workers 0":                               "-workers is 0",
		"-window -1":                               "-window is -1",
		"-messages -1":                             "-messages is -1",
		"-latency -1s":                             "-latency is -1s",
		"-gap 0s":                                  "-gap is 0s",
		"-compare -1":                              "-compare is -1",
		"-generate xml":                            `-generate "xml" is not known`,
		"-in books.journal":                        "cannot tell the format",
		"-in x.csv -format xml":                    `-format "xml" is not known`,
		"-format ndjson":                           "give that with -in",
		"-in x.csv -listen localhost:0":            "exclude each other",
		"-amqp amqp://a -db x -in x.csv":           "-in and -amqp exclude each other",
		"-amqp amqp://a":                           "-amqp needs -db",
		"-amqp http://a -db x":                     "-amqp is not the URL of a broker",
		"-amqp amqp://u:secret@a:port -db x":       "invalid port",
		"-amqp amqp://a -db x -queue=":             "-queue is empty",
		"-queue a -db x":                           "-queue needs -amqp",
		"-produce -db x":                           "-produce needs -amqp",
		"-produce -amqp amqp://a":                  "-produce needs -db",
		"-produce -amqp amqp://a -db memory":       "-produce needs -db",
		"-produce -amqp amqp://a -db postgres://x": "-produce needs -db",
		"-produce -amqp amqp://a -db x -in -":      "standard input cannot",
		"-produce -amqp amqp://a -db x -listen y":  "-produce and -listen exclude each other",
		"-generate ndjson -in x.csv":               "-in has no use beside -generate",
		"-generate ndjson -out x":                  "-out has no use beside -generate",
		"-in x.csv -messages 5":                    "-messages has no use beside -in",
		"-listen localhost:0 -as x":                "-as has no use beside -listen",
		"-amqp amqp://a -db x -seed 1":             "-seed has no use beside -amqp",
		"-produce -amqp amqp://a -db x -out y":     "-out has no use beside -produce",
		"-in x.csv -out ./x.csv":                   "-in and -out are the same file, ./x.csv",
		"-db x -rejects x":                         "-db and -rejects are the same file, x",
		"-out x -timeline y/../x":                  "-out and -timeline are the same file",
	} {
		r := ledger(t, "", strings.Fields(args)...)
		assert.Equal(t, exitUsage, r.code, args)
		assert.Contains(t, r.stderr, want, args)
		assert.Empty(t, r.stdout, args)
		assert.NotContains(t, r.stderr, ":secret@a", args)
	}
	help := ledger(t, "", "-help")
	assert.Equal(t, exitGood, help.code)
	assert.Contains(t, help.stderr, "-timeline file")
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing", "file")
	for _, args := range [][]string{
		{"-in", missing + ".csv"},
		{"-db", missing},
		{"-messages", "10", "-db", "memory", "-out", missing},
		{"-messages", "10", "-db", "memory", "-timeline", missing},
		{"-messages", "3000", "-db", "memory", "-rejects", missing},
		{"-listen", "nowhere:at:all"},
		{"-listen", "127.0.0.1:0", "-db", missing},
	} {
		r := ledger(t, "", args...)
		assert.Equal(t, exitBad, r.code, args)
		assert.NotEmpty(t, r.stderr, args)
	}
	notCSV := ledger(t, "", "-in", write(t, "x.csv", "a,b\n1,2\n"), "-db", "memory")
	assert.Equal(t, exitBad, notCSV.code)
	assert.Contains(t, notCSV.stdout, `the CSV has no column "txnidx"`)
}

// What cannot be written in the end is told before anything is done, and what
// fails while it is written costs nothing else.
func TestOutputs(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	db := filepath.Join(folder, "ledger.db")
	for _, flag := range []string{"-out", "-timeline", "-rejects"} {
		for _, path := range []string{filepath.Join(folder, "missing", "file"), folder} {
			r := ledger(t, "", "-messages", "10", "-db", db, flag, path)
			assert.Equal(t, exitBad, r.code, flag)
			assert.NotEmpty(t, r.stderr)
			assert.NoFileExists(t, db)
		}
		r := ledger(t, `{"op":"withdraw","account":"a","amount":"1"}`, "-in", "-", "-db", "memory", flag, "/dev/full")
		assert.Equal(t, exitBad, r.code, flag)
		assert.Contains(t, r.stderr, "no space left on device", flag)
		assert.Contains(t, r.stdout, "✗ rejected: 0 as expected, 1 otherwise")
	}
	out := filepath.Join(folder, "out.csv")
	require.NoError(t, os.WriteFile(out, []byte("old"), 0o640))
	require.Equal(t, exitGood, ledger(t, deposits("1"), "-in", "-", "-db", "memory", "-out", out).code)
	assert.Contains(t, readFile(t, out), "A,,1,1")
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	assert.Equal(t, []string{out}, left)
	assert.Equal(t, exitGood, ledger(t, deposits("1"), "-in", "-", "-db", "memory", "-out", os.DevNull).code)
}

// What is overwritten or cut must be what the program has written: a name that was
// mistaken costs nobody a file.
func TestOtherFilesAreKept(t *testing.T) {
	t.Parallel()
	const withdrawal = `{"op":"withdraw","account":"a","amount":"1"}`
	db := filepath.Join(t.TempDir(), "bank.db")
	require.Equal(t, exitGood, ledger(t, deposits("1"), "-in", "-", "-db", db).code)
	for name, path := range map[string]string{
		"messages":     write(t, "x.ndjson", deposits("1")+withdrawal),
		"one message":  write(t, "x.ndjson", withdrawal),
		"a number":     write(t, "x.ndjson", "1\n2"),
		"a text":       write(t, "notes.txt", "do not\nlose this"),
		"a half quote": write(t, "notes.txt", `{"`+"lines"),
		"a database":   db,
	} {
		before := readFile(t, path)
		r := ledger(t, withdrawal, "-in", "-", "-db", "memory", "-rejects", path)
		assert.Equal(t, exitBad, r.code, name)
		assert.Contains(t, r.stderr, "is something else than a reject: name another file", name)
		assert.Equal(t, before, readFile(t, path), name)
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(db, link))
	r := ledger(t, withdrawal, "-in", "-", "-db", db, "-out", link)
	assert.Equal(t, exitUsage, r.code)
	assert.Contains(t, r.stderr, "-db and -out are the same file")
	for _, cut := range []string{`{`, `{"line":5,"ver`, `{"verdict":"malformed","reason":"x","raw":"{\"o`} { // it was killed there
		path := write(t, "rejects.ndjson", `{"verdict":"malformed","reason":"x"}`+"\n"+cut)
		r := ledger(t, withdrawal, "-in", "-", "-db", "memory", "-rejects", path)
		assert.Contains(t, r.stdout, "✗ rejected: 0 as expected, 1 otherwise", r.stderr)
		assert.Regexp(t, `^{"verdict":"malformed","reason":"x"}\n{"line":1,.*}\n$`, readFile(t, path))
	}
}

// However a server is named, and wherever, its password is not told again.
func TestPasswordsAreNotTold(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range []string{
		"postgres://u:s3cret@h/db",
		"-in postgres://u:s3cret@h/db",
		"-db mysql://u:s3cret@h/db",
		"-db host=h,password=s3cret",
		"-db postgres://u:s3%ZZcret@h/db",
		"-db postgres://u:s3cret@127.0.0.1:bad/db",
		"-db postgres://u:s3cret@127.0.0.1:1/db?connect_timeout=1",
		"-db postgres://127.0.0.1:1/db?password=s3cret&user=u",
		"-db POSTGRES://u:s3cret@127.0.0.1:1/db",
		"-workers amqp://u:s3cret@h/",
		"-nosuch=amqp://u:s3cret@h/",
		"-amqp amqp://u:s3cret@h:port/ -db x",
		"-messages 1 -out postgres://u:s3cret@h/x",
	} {
		r := ledger(t, "", strings.Split(args, " ")...)
		assert.NotZero(t, r.code, args)
		assert.NotContains(t, r.stderr+r.stdout, "s3", args)
	}
	left, err := filepath.Glob("*")
	require.NoError(t, err)
	assert.Empty(t, left, "no file has such a name")
}

// endless is an input without an end that is interrupted on the way.
type endless struct {
	lines  int
	cancel context.CancelFunc
}

func (e *endless) Read(p []byte) (int, error) {
	e.lines++
	if e.lines == 1000 {
		e.cancel()
	}
	return copy(p, `{"op":"post","postings":[{"account":"A","amount":"1"}]}`+"\n"), nil
}

// An interrupted run ends what it has read, and says how far it came.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var stdout, stderr strings.Builder
	code := run(ctx, []string{"-in", "-", "-db", "memory"}, &endless{cancel: cancel}, &stdout, &stderr)
	assert.Equal(t, exitBad, code)
	assert.Regexp(t, `✗ run to its end\n +interrupted after [0-9]+ messages; those were run to their end`, stdout.String())
	assert.Contains(t, stdout.String(), "✓ nothing lost or doubled")
}

// One that has more left than can run in time ends soon all the same, and its
// summary says what is left and nothing else.
func TestInterruptedWithMuchLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		time.AfterFunc(150*time.Minute, cancel) // when two times two have ended
		begun := time.Now()
		var input, stdout, stderr strings.Builder
		for i := range 20 {
			fmt.Fprintf(&input, `{"op":"post","postings":[{"account":"A:%d","amount":"1"}]}`+"\n", i)
		}
		code := run(ctx, []string{"-in", "-", "-db", "memory", "-workers", "2", "-latency", "1h"}, strings.NewReader(input.String()), &stdout, &stderr)
		assert.Equal(t, exitBad, code)
		assert.Less(t, time.Since(begun), 4*time.Hour)
		for _, want := range []string{"✓ money conserved", "✓ nothing lost or doubled", "interrupted after 20 messages", "not run"} {
			assert.Contains(t, stdout.String(), want)
		}
	})
}
