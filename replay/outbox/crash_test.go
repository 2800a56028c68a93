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

	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

// childEnv makes a process of this test a relay for the database in the
// folder that it names.
const childEnv = "OUTBOX_TEST_CHILD"

// child relays until it is killed: each event is a line of a file.
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
		_, err := file.WriteString(e.ID + " " + ordering.FormatSequenceID(e.Positions) + "\n")
		return err
	}), outbox.RelayConfig{Window: 4, Poll: time.Millisecond})
	fail(err)
	fail(relay.Run(context.Background()))
}

// A relay is killed with kill -9, again and again, while events are enqueued.
// Every event arrives, and for the first time in order.
func TestRelayIsKilled(t *testing.T) {
	dir := t.TempDir()
	box, db := sqliteAt(filepath.Join(dir, "outbox.db")).box(t, outbox.Config{})
	start := func() *exec.Cmd {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), childEnv+"="+dir)
		c.Stderr = os.Stderr
		_, err := c.StdinPipe() // it ends with this process at the latest
		require.NoError(t, err)
		require.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill() })
		return c
	}
	received := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "received"))
		return bytes.Count(text, []byte("\n"))
	}
	sent := map[string]string{}
	enqueue := func() {
		e := put(t, box, db, streamSets[rand.IntN(len(streamSets))]...)
		sent[e.ID] = ordering.FormatSequenceID(e.Positions)
	}
	for range 8 {
		before := received()
		c := start()
		until := before + 1 + rand.IntN(20) // the instant of the kill
		for range 30 {
			enqueue()
		}
		require.Eventually(t, func() bool { return received() >= until }, 20*time.Second, 100*time.Microsecond)
		require.NoError(t, c.Process.Kill())
		_ = c.Wait()
	}
	c := start()
	allSent(t, box)
	require.NoError(t, c.Process.Kill())
	_ = c.Wait()

	last, got := map[string]uint64{}, map[string]string{}
	text, err := os.ReadFile(filepath.Join(dir, "received"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		id, positions, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[id] = positions
		list, err := ordering.ParseSequenceID(positions, keys("x")[0])
		require.NoError(t, err)
		for _, p := range list {
			require.LessOrEqual(t, p.Number, last[p.Stream.String()]+1, "%s: a first delivery out of order", p)
			last[p.Stream.String()] = max(last[p.Stream.String()], p.Number)
		}
	}
	assert.Equal(t, sent, got)
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
		require.Eventually(t, func() bool { return commits() > n+50 }, 20*time.Second, time.Millisecond)
		down.Lock()
		server.Kill()
		gone(t, folder)
		err := server.Restart()
		down.Unlock()
		require.NoError(t, err)
	}
	n := commits()
	require.Eventually(t, func() bool { return commits() > n+50 }, 20*time.Second, time.Millisecond)
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
	}, 20*time.Second, time.Millisecond)
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
