package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// childEnv makes a process of this test a relay for the database in the
// folder that it names.
const childEnv = "OUTBOX_TEST_CHILD"

// child relays until it is killed: each event is a line of a file, but for huge
// ones, which are refused.
func child(dir string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		os.Exit(1)
	}()
	file, err := os.OpenFile(filepath.Join(dir, "received"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	fail(err)
	p := sqliteAt(filepath.Join(dir, "outbox.db"))
	db, err := sql.Open(p.driver, p.url)
	fail(err)
	box, err := outbox.New(context.Background(), db, p.dialect, outbox.Config{})
	fail(err)
	relay, err := outbox.NewRelay(box, outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error {
		if e.Type == huge {
			return dispatcher.Permanent(errHuge)
		}
		_, err := file.WriteString(e.ID + " " + ordering.FormatSequenceID(e.Positions) + "\n")
		return err
	}), outbox.RelayConfig{Window: 4, Poll: time.Millisecond})
	fail(err)
	fail(relay.Run(context.Background()))
}

// startChild starts a relay in a process of its own.
func startChild(t *testing.T, dir string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+dir)
	c.Stderr = os.Stderr
	_, err := c.StdinPipe() // it ends with this process at the latest
	require.NoError(t, err)
	require.NoError(t, c.Start())
	t.Cleanup(func() { _ = c.Process.Kill() })
	return c
}

func kill(t *testing.T, c *exec.Cmd) {
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()
}

// received is what children have received, line by line.
func received(dir string) [][]byte {
	text, _ := os.ReadFile(filepath.Join(dir, "received"))
	return slices.Collect(bytes.Lines(text))
}

// checkReceived checks that the first deliveries of a stream were in order and
// left out nothing but what was given up. It returns the events by ID.
func checkReceived(t *testing.T, dir string, skipped map[string][]uint64) map[string]string {
	last, got := map[string]uint64{}, map[string]string{}
	for _, line := range received(dir) {
		id, positions, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		got[id] = positions
		list, err := ordering.ParseSequenceID(positions, keys("x")[0])
		require.NoError(t, err)
		for _, p := range list {
			stream := p.Stream.String()
			for n := last[stream] + 1; n < p.Number; n++ {
				require.Contains(t, skipped[stream], n, "%s: a first delivery out of order", p)
			}
			last[stream] = max(last[stream], p.Number)
		}
	}
	return got
}

// A relay is killed with kill -9, again and again, while events are enqueued.
// Every event arrives, and for the first time in order.
func TestRelayIsKilled(t *testing.T) {
	dir := t.TempDir()
	box, db := sqliteAt(filepath.Join(dir, "outbox.db")).box(t, outbox.Config{})
	sent := map[string]string{}
	enqueue := func() {
		e := put(t, box, db, streamSets[rand.IntN(len(streamSets))]...)
		sent[e.ID] = ordering.FormatSequenceID(e.Positions)
	}
	for range 8 {
		before := len(received(dir))
		c := startChild(t, dir)
		until := before + 1 + rand.IntN(20) // the instant of the kill
		for range 30 {
			enqueue()
		}
		require.Eventually(t, func() bool { return len(received(dir)) >= until }, waitAtMost, 100*time.Microsecond)
		kill(t, c)
	}
	c := startChild(t, dir)
	allSent(t, box)
	kill(t, c)
	assert.Equal(t, sent, checkReceived(t, dir, nil))
}

// A relay that parks events is killed, again and again; the operator resumes
// and skips them from this process, whether a relay is there or not. The other
// events arrive, and for the first time in order.
func TestRelayThatParksIsKilled(t *testing.T) {
	dir := t.TempDir()
	box, db := sqliteAt(filepath.Join(dir, "outbox.db")).box(t, outbox.Config{})
	sent, skipped := map[string]string{}, map[string][]uint64{}
	operate := func() {
		list, err := box.Parked(t.Context())
		require.NoError(t, err)
		for _, e := range list {
			if rand.IntN(3) == 0 {
				require.NoError(t, box.Resume(t.Context(), e.Event))
				continue
			}
			require.NoError(t, box.Skip(t.Context(), e.Event))
			for _, p := range e.Positions {
				skipped[p.Stream.String()] = append(skipped[p.Stream.String()], p.Number)
			}
		}
	}
	for round := range 8 {
		before := len(received(dir))
		c := startChild(t, dir)
		for i := range 30 {
			streams := streamSets[rand.IntN(len(streamSets))]
			if i%10 == 5 {
				putHuge(t, box, db, fmt.Sprintf("huge-%d-%d", round, i), streams...)
				continue
			}
			e := put(t, box, db, streams...)
			sent[e.ID] = ordering.FormatSequenceID(e.Positions)
		}
		until := before + rand.IntN(20) // the instant of the kill
		require.Eventually(t, func() bool { operate(); return len(received(dir)) >= until }, waitAtMost, time.Millisecond)
		kill(t, c)
		operate()
	}
	c := startChild(t, dir)
	require.Eventually(t, func() bool {
		operate()
		s, err := box.Stats(t.Context())
		return err == nil && s.Unsent == 0
	}, waitAtMost, time.Millisecond)
	kill(t, c)
	assert.Equal(t, sent, checkReceived(t, dir, skipped))
	huge := 0
	require.NoError(t, db.QueryRow(`SELECT count(DISTINCT event) FROM outbox_skipped`).Scan(&huge))
	assert.Equal(t, 24, huge)
}

// The server is killed while producers and a relay work; they go on when it is
// back. What was committed arrives, in order, and the numbers have no holes.
func TestServerIsKilled(t *testing.T) {
	server := pgtest.Start(t)
	box, db := postgresAt(t, server.Database(t)).box(t, outbox.Config{})
	r := newReceiver()
	start(t, box, r, outbox.RelayConfig{})
	ctx := t.Context()
	var mu sync.Mutex
	committed := map[string]int{} // at least: an error at commit tells nothing
	commits := func() int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, c := range committed {
			n += c
		}
		return n
	}
	enough := make(chan struct{})
	var producers sync.WaitGroup
	var down sync.RWMutex // locked while the server is
	var folder string
	require.NoError(t, db.QueryRow(`SHOW data_directory`).Scan(&folder))
	back := func() {
		down.RLock()
		defer down.RUnlock()
	}
	for producer := range 3 {
		producers.Go(func() {
			for i := producer; ; i++ {
				select {
				case <-enough:
					return
				default:
				}
				streams := streamSets[i%len(streamSets)]
				if enqueue(ctx, box, db, streams) != nil {
					back()
					continue
				}
				mu.Lock()
				for _, s := range streams {
					committed[s]++
				}
				mu.Unlock()
			}
		})
	}
	for range 2 {
		n := commits()
		require.Eventually(t, func() bool { return commits() > n+50 }, waitAtMost, time.Millisecond)
		down.Lock()
		server.Kill()
		gone(t, folder)
		err := server.Restart()
		down.Unlock()
		require.NoError(t, err)
	}
	n := commits()
	require.Eventually(t, func() bool { return commits() > n+50 }, waitAtMost, time.Millisecond)
	close(enough)
	producers.Wait()
	allSent(t, box)
	r.check(t)
	for stream, n := range committed {
		assert.GreaterOrEqual(t, len(r.numbers(stream)), n, stream)
	}
}

// gone waits until no process of a server is left: one that was being started
// at the kill ends a little later, and keeps a new server from starting.
func gone(t *testing.T, folder string) {
	t.Helper()
	require.Eventually(t, func() bool {
		processes, _ := filepath.Glob("/proc/[0-9]*/cwd")
		return !slices.ContainsFunc(processes, func(link string) bool {
			target, _ := os.Readlink(link)
			return target == folder
		})
	}, waitAtMost, time.Millisecond)
}

// enqueue is put, where anything may fail.
func enqueue(ctx context.Context, box *outbox.Outbox, db *sql.DB, streams []string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := box.Enqueue(ctx, tx, &ordering.Event{}, keys(streams...)...); err != nil {
		return err
	}
	return tx.Commit()
}
