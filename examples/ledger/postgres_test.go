package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
)

// PostgreSQL is one more store, with the same books in the end.
func TestOnPostgres(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"made up", "hackclub", "beancount"} {
		t.Run(name, func(t *testing.T) {
			ms := dataSets[name](t)
			ms, _ = part(ms[:min(len(ms), 2000)], 500)
			memory := replayAll(t, setup{"memory", 1, dispatcher.HeadOnly()}, ms)
			postgres := replayAll(t, setup{server(t).Database(t), 16, dispatcher.LookAhead(4096)}, ms)
			requireGood(t, memory)
			requireGood(t, postgres)
			assert.Equal(t, ownOf(memory.Balances), ownOf(postgres.Balances))
			assert.Equal(t, memory.Audit.Outcomes.Count, postgres.Audit.Outcomes.Count)
		})
	}
}

// When the server is killed in the middle, the run goes on as soon as it is
// back, or stops and goes on when it is started again.
func TestPostgresServerIsKilled(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, noFsync)
	b := newCrashBook(t, server.Database(t), 1, forOne)
	args := []string{"-in", b.input, "-db", b.db, "-latency", "1ms"}
	first := make(chan result, 1)
	go func() { first <- ledger(t, "", args...) }()
	requireApplied(t, b.db, 200)
	server.Kill()
	require.NoError(t, server.Restart())
	r := <-first
	if r.code != exitGood {
		r = ledger(t, "", args...)
	}
	require.Equal(t, exitGood, r.code, r.stdout+r.stderr)
	b.verify(t)
}
