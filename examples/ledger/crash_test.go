package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/numbering"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// roundsOf is how often something is done: as many times as the variable of
// the environment says, if it is set.
func roundsOf(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	rounds, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return rounds
}

// crashRounds is how often the program is killed.
func crashRounds(t *testing.T, usual int) int { return roundsOf(t, "LEDGER_CRASH_ROUNDS", usual) }

// Lengths of inputs: for a few dozen kills, and for one event in the middle.
const (
	forKills = 6000
	forOne   = 1500
)

// The program is killed at any instant, over and over, and started again on
// the same database and input. In the end every message was applied exactly
// once, in the order of the numbers, and the balances are right.
func TestKilled(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		folder := t.TempDir()
		books := 0
		killRounds(t, crashRounds(t, 60), forKills, func() string {
			books++
			return filepath.Join(folder, fmt.Sprintf("ledger-%d.db", books))
		})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		killRounds(t, crashRounds(t, 20), forKills/2, func() string { return server(t).Database(t) })
	})
}

// killRounds kills the program so many times. Whenever it has come to the end
// of its input, what it left is checked and it goes on with another database,
// which fresh names. Each input has so many messages.
func killRounds(t *testing.T, rounds, messages int, fresh func() string) {
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	c := &casualties{}
	for seed := uint64(1); c.kills < rounds; seed++ {
		b := newCrashBook(t, fresh(), seed, messages)
		for c.kills < rounds && !b.runAndKill(t, r, c) {
		}
		b.run(t) // to its end, if it was not there yet
		b.verify(t)
	}
	slices.Sort(c.restarts)
	require.NotEmpty(t, c.restarts)
	at := func(share float64) time.Duration { return c.restarts[int(share*float64(len(c.restarts)-1))] }
	t.Logf("%d kills; from the start of the program to the end of its first new message: median %v, 95 %% within %v, at most %v (%d measured)",
		c.kills, at(0.5), at(0.95), at(1), len(c.restarts))
}

// casualties is what killing the program showed.
type casualties struct {
	kills    int
	restarts []time.Duration // until the first message ended that was not done before
}

// crashBook is a database and the input that it is to hold.
type crashBook struct {
	db, input string
	messages  []*book.Message
	streams   lockkeys.Key // below which they are numbered
	most      int          // streams
	queued    bool         // they come from a queue, where they are known by their numbers
	killed    bool         // a run before has been killed, so that the next one usually says that it goes on
}

func newCrashBook(t *testing.T, db string, seed uint64, messages int) *crashBook {
	t.Helper()
	made := ledger(t, "", "-generate", "ndjson", "-messages", strconv.Itoa(messages), "-seed", strconv.FormatUint(seed, 10))
	b := &crashBook{db: db, input: write(t, "input.ndjson", made.stdout), streams: lockkeys.Must("input", "1"), most: ordering.MaxPositions}
	source := feed.NewNDJSON(strings.NewReader(made.stdout))
	for range messages {
		item, err := source.Next()
		require.NoError(t, err)
		b.messages = append(b.messages, item.Message)
	}
	return b
}

// goingOn is what the program says when the first message has ended that was
// not done before.
const goingOn = "going on after"

// runAndKill starts the program and kills it: at any time after its start,
// when it may still open the database or skip what is done; or soon after the
// first new message, when there is one in every place between its arrival and
// its acknowledgement. It reports whether the program had come to its end before.
func (b *crashBook) runAndKill(t *testing.T, r *rand.Rand, c *casualties) (finished bool) {
	t.Helper()
	command := b.command(t,
		"-workers", []string{"1", "8", "64"}[r.IntN(3)],
		"-latency", []string{"0s", "1ms", "4ms"}[r.IntN(3)],
		"-checkpoint", []string{"0", "1", "100", "4096"}[r.IntN(4)],
		"-policy", []string{policyLookAhead, policyHeadOnly}[r.IntN(2)])
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	started := time.Now()
	require.NoError(t, command.Start())
	news, end := listen(stderr)

	soon := func(d time.Duration) <-chan time.Time { return time.After(time.Duration(r.Int64N(int64(d)))) }
	kill := soon(200 * time.Millisecond)
	switch {
	case r.IntN(2) == 0:
	case b.killed:
		select {
		case <-news:
			c.restarts = append(c.restarts, time.Since(started))
			kill = soon(30 * time.Millisecond)
		case text := <-end: // nothing was done before
			end <- text
		}
	default:
		b.waitForWork(t, end)
		kill = soon(300 * time.Millisecond)
	}
	select {
	case <-kill:
	case text := <-end:
		end <- text
	}
	_ = command.Process.Kill() // it may have ended
	text := <-end
	err = command.Wait()
	if command.ProcessState.Exited() {
		require.NoError(t, err, text)
		return true
	}
	c.kills++
	b.killed = true
	if !b.queued {
		b.requireCheckpoint(t)
	}
	return false
}

// waitForWork waits until the program has applied a message, or has ended.
func (b *crashBook) waitForWork(t *testing.T, end chan string) {
	t.Helper()
	opened, err := sql.Open(driverOf(b.db))
	require.NoError(t, err)
	defer opened.Close()
	requireSoon(t, func() error {
		if len(end) > 0 {
			return nil
		}
		applied := false
		err := opened.QueryRow(`SELECT EXISTS (SELECT 1 FROM journal)`).Scan(&applied)
		if err == nil && !applied {
			err = errors.New("nothing is applied")
		}
		return err
	})
}

// listen reads what the program reports: news has something once it goes on,
// and end has all of it at its end.
func listen(stderr io.Reader) (news chan struct{}, end chan string) {
	news, end = make(chan struct{}, 1), make(chan string, 1)
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			if strings.HasPrefix(lines.Text(), goingOn) {
				news <- struct{}{}
			}
		}
		end <- text.String()
	}()
	return news, end
}

func (b *crashBook) command(t *testing.T, args ...string) *exec.Cmd {
	command := exec.Command(binary(t), append(args, "-in", b.input, "-db", b.db, "-compare", "0")...)
	command.Env = append(command.Environ(), "TMPDIR="+filepath.Dir(b.input))
	return command
}

// run lets the program come to its end.
func (b *crashBook) run(t *testing.T) {
	t.Helper()
	out, err := b.command(t).CombinedOutput()
	require.NoError(t, err, string(out))
}

// verify checks that the database is what the messages leave, each applied
// once, one after the other.
func (b *crashBook) verify(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	kept, err := store.Open(ctx, b.db)
	require.NoError(t, err)
	defer func() { require.NoError(t, kept.Close()) }()

	entries := journalOf(t, b.db)
	refused := map[string][]book.Reason{}
	for input := range int64(2) {
		require.NoError(t, kept.Refusals(ctx, input, func(r store.Refusal) error {
			refused[r.Event] = append(refused[r.Event], r.Reason)
			return nil
		}))
	}
	tables := store.NewTables()
	streams := numbering.NewBounded(b.streams, b.most)
	last := map[lockkeys.Key]uint64{}
	var order audit.Order
	for i, m := range b.messages {
		id := uint64(i + 1)
		var claim lockkeys.Claim
		require.NoError(t, m.Claim(&claim))
		positions := streams.Next(claim.Requests())
		for _, p := range positions {
			last[p.Stream] = p.Number
		}
		event := fmt.Sprintf("%s/%d", b.streams, id)
		if b.queued {
			event = (&ordering.Event{Positions: positions}).Name()
		}
		tx := book.Begin(ctx, tables)
		if _, err := book.Apply(tx, m); err != nil {
			require.Empty(t, entries[event], "%s must be rejected: %v", event, err)
			refusal, _ := book.Refused(err)
			require.Equal(t, []book.Reason{refusal.Reason}, refused[event], event)
			delete(refused, event)
			continue
		}
		tables.Apply(tx.Changes())
		require.Len(t, entries[event], 1, "%s is to be in the journal once", event)
		at := entries[event][0]
		order.Add(audit.Interval{ID: id, Begin: 2 * at, End: 2*at + 1}, claim.Requests())
		delete(entries, event)
	}
	require.Empty(t, refused, "something else was rejected")
	require.Empty(t, entries, "the journal has what was never sent")
	require.Zero(t, order.Violations, order.First)
	require.Greater(t, order.Pairs, uint64(len(b.messages)))
	require.Equal(t, holdingsOf(t, tables), holdingsOf(t, kept))

	parked, err := kept.Numbers().Reader("").Parked(ctx)
	require.NoError(t, err)
	require.Empty(t, parked)
	term, err := kept.Numbers().Begin(ctx, ordering.Consumer{})
	require.NoError(t, err)
	for stream, n := range last {
		states, err := term.Acquire(ctx, []lockkeys.Key{stream})
		require.NoError(t, err)
		require.Equal(t, n, states[0].Last, stream.String())
		require.Empty(t, states[0].Done)
	}
}

// requireApplied waits until so many messages have been applied at least.
func requireApplied(t *testing.T, db string, messages int) {
	t.Helper()
	opened, err := sql.Open(driverOf(db))
	require.NoError(t, err)
	defer opened.Close()
	requireSoon(t, func() error {
		applied := 0
		err := opened.QueryRow(`SELECT count(DISTINCT event) FROM journal`).Scan(&applied)
		if err == nil && applied < messages {
			err = fmt.Errorf("%d messages are applied, not %d", applied, messages)
		}
		return err
	})
}

// requireJournal waits until so many messages have been applied, and no more.
func requireJournal(t *testing.T, db string, messages int) {
	t.Helper()
	requireApplied(t, db, messages)
	assert.Len(t, journalOf(t, db), messages)
}

// journalOf returns the entries of each event in the journal.
func journalOf(t *testing.T, db string) map[string][]uint64 {
	t.Helper()
	opened, err := sql.Open(driverOf(db))
	require.NoError(t, err)
	defer opened.Close()
	rows, err := opened.Query(`SELECT entry, event FROM journal ORDER BY entry`)
	require.NoError(t, err)
	defer rows.Close()
	entries := map[string][]uint64{}
	for rows.Next() {
		var entry uint64
		var event string
		require.NoError(t, rows.Scan(&entry, &event))
		entries[event] = append(entries[event], entry)
	}
	require.NoError(t, rows.Err())
	return entries
}

// driverOf returns what opens a database beside a program that works on it.
func driverOf(db string) (driver, source string) {
	if store.IsURL(db) {
		return "pgx", db
	}
	return "sqlite", "file:" + db + "?mode=rw&_pragma=busy_timeout(10000)"
}

func holdingsOf(t *testing.T, s book.Reader) holdings {
	t.Helper()
	balances, err := s.Balances(context.Background(), book.Root)
	require.NoError(t, err)
	h := holdings{}
	for _, b := range balances {
		h.set(string(b.Account), b.Commodity, b.Amount.Decimal)
	}
	return h
}
