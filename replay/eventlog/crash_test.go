package eventlog_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// childEnv has the database of a process that is killed: its path, or its URL.
const childEnv = "INTERLOCK_EVENTLOG_CHILD"

const insertRow = `INSERT INTO model (place, stream) VALUES ($1, $2)`

// child appends and follows until it is killed. Each append is confirmed by a line with
// its IDs once it is committed.
func child(path string) {
	ctx := context.Background()
	p := place{eventlog.SQLite, path}
	if strings.HasPrefix(path, "postgres") {
		p.dialect = eventlog.PostgreSQL
	}
	store, err := p.store(ctx)
	if err != nil {
		log.Fatal(err)
	}
	l, err := eventlog.New(ctx, store.DB(), p.dialect, eventlog.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = eventlog.Subscribe(ctx, l, eventlog.SubscriptionConfig{
		Name: "model", Store: store,
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
			_, err := tx.ExecContext(ctx, insertRow, int64(job.Value.At.Place()), job.Value.Event.Positions[0].Stream.String())
			return err
		}),
	})
	if err != nil {
		log.Fatal(err)
	}
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				var ids []string
				events := make([]*ordering.Event, 1+rand.IntN(3))
				for j := range events {
					events[j] = on(fmt.Sprintf("%d-%d-%d-%d", os.Getpid(), w, i, j), "x", fmt.Sprint("s/", rand.IntN(5)))
					ids = append(ids, events[j].ID)
				}
				err := store.Write(ctx, func(ctx context.Context, tx *sql.Tx) error {
					_, err := l.Append(ctx, tx, events)
					return err
				})
				if err != nil {
					log.Fatal(err)
				}
				l.Notify()
				fmt.Println(strings.Join(ids, " "))
			}
		}()
	}
	select {}
}

// While a process appends and follows, it is killed again and again. What was committed
// is in the log, without holes, and the read model has each entry once, in order.
func TestKills(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		b.model(t, "model")
		require.NoError(t, b.store.Close())
		committed := map[string]bool{}
		for range 8 {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), childEnv+"="+p.path)
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, c.Start())
			lines := bufio.NewReader(out)
			for left := 5 + rand.IntN(40); left > 0; left-- { // it is in the middle of something
				line, err := lines.ReadString('\n')
				require.NoError(t, err)
				for _, id := range strings.Fields(line) {
					committed[id] = true
				}
			}
			time.AfterFunc(time.Duration(rand.IntN(20))*time.Millisecond, func() { _ = c.Process.Kill() })
			rest, _ := io.ReadAll(lines)
			for line := range strings.Lines(string(rest)) {
				if whole, is := strings.CutSuffix(line, "\n"); is {
					for _, id := range strings.Fields(whole) {
						committed[id] = true
					}
				}
			}
			require.Error(t, c.Wait())
		}
		b = p.open(t, eventlog.Config{})
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: b.model(t, "model")})
		require.NoError(t, s.CatchUp(within(t)))
		b.requireModel(t, "model")
		versions := map[string]uint64{}
		n := uint64(0)
		for _, e := range b.read(t, eventlog.Query{}) {
			n++
			require.Equal(t, n, e.At.Number)
			at := e.Event.Positions[0]
			versions[at.Stream.String()]++
			require.Equal(t, versions[at.Stream.String()], at.Number)
			delete(committed, e.Event.ID)
		}
		require.Empty(t, committed, "these were committed")
	})
}
