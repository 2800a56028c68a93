package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An input is sent once, however often the producer is started; what is added
// to it is sent as well, and another one is refused.
func TestProduceAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	folder := t.TempDir()
	in, db := filepath.Join(folder, "today.ndjson"), filepath.Join(folder, "outbox.db")
	for _, step := range []struct {
		what, input, want string
		queued            int
	}{
		{"begin", deposits("1", "2"), "2 messages are in the queue " + d.name + ": 0 kept from before, 2 added, 0 malformed", 2},
		{"again", deposits("1", "2"), ": 2 kept from before, 0 added", 2},
		{"more", deposits("1", "2", "3"), ": 2 kept from before, 1 added", 3},
		{"less", deposits("1"), "1 messages are in the queue " + d.name + ": 1 kept from before, 0 added", 3},
	} {
		require.NoError(t, os.WriteFile(in, []byte(step.input), 0o600))
		r := ledger(t, "", d.args("-produce", "-in", in, "-db", db)...)
		require.Equal(t, exitGood, r.code, r.stderr)
		assert.Contains(t, r.stdout, step.want, step.what)
		assert.Equal(t, step.what == "less", strings.Contains(r.stderr, "the input ends before what was read of it once"), r.stderr)
		d.requireCounts(t, step.queued, 0)
	}
	require.NoError(t, os.WriteFile(in, []byte(deposits("7")), 0o600))
	r := ledger(t, "", d.args("-produce", "-in", in, "-db", db)...)
	assert.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stderr, "give this one a database of its own")

	w := begin(t, d.args("-db", filepath.Join(folder, "ledger.db"))...)
	requireJournal(t, filepath.Join(folder, "ledger.db"), 3)
	code, summary := w.end(t)
	assert.Equal(t, exitGood, code, summary)
}

// What is no message to be sent is reported and kept, and the rest is sent.
func TestProduceRejects(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	in := write(t, "in.ndjson", "nonsense\n"+deposits("1")+`{"op":"open","account":"a","sequence":"A=1"}`)
	rejects := filepath.Join(t.TempDir(), "rejects")
	r := ledger(t, "", d.args("-produce", "-in", in, "-db", filepath.Join(t.TempDir(), "outbox.db"), "-rejects", rejects)...)
	assert.Equal(t, exitBad, r.code)
	assert.Contains(t, r.stdout, "1 added, 2 malformed")
	assert.Contains(t, r.stderr, "line 1: malformed: not JSON")
	assert.Contains(t, r.stderr, `line 3: malformed: "sequence" is given`)
	assert.Equal(t, 2, strings.Count(readFile(t, rejects), "\n"))
	d.requireCounts(t, 1, 0)
}
