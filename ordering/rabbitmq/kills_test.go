package rabbitmq_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// What a process of TestOneMessageKillsTheProcess is told.
const (
	killedStore = "RABBITMQ_TEST_KILLED_STORE" // a path, or a URL of PostgreSQL
	killedURL   = "RABBITMQ_TEST_KILLED_URL"
	killedQueue = "RABBITMQ_TEST_KILLED_QUEUE"
	killedFails = "RABBITMQ_TEST_KILLED_FAILURE"
)

const unrelated = 200

func openFor(ctx context.Context, place string) (*sqlstore.Store, error) {
	if strings.HasPrefix(place, "postgres") {
		return postgres.Open(ctx, place)
	}
	return sqlite.Open(ctx, place)
}

// maxCrashes is how many runs of the killer are counted: one beside others, and
// one alone.
const maxCrashes = 2

// killed is a process that applies events of a queue. One of them has it kill
// itself, as the kernel does when there is no memory left. It ends by itself when
// all that can be done is.
func killed() {
	fatal := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), waitAtMost)
	defer cancel()
	store, err := openFor(ctx, os.Getenv(killedStore))
	fatal(err)
	policy := dispatcher.Park
	if os.Getenv(killedFails) == dispatcher.DeadLetter.String() {
		policy = dispatcher.DeadLetter
	}
	sequencer, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, Failure: policy, MaxCrashes: maxCrashes, Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: 8}, Logger: quiet(),
		Handler: sqlstore.InTx(store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
			if string(job.Event.Payload) == "kill" {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO effects (event) VALUES ($1)`, job.Event.ID)
			return err
		}),
	})
	fatal(err)
	consumer, err := rabbitmq.NewConsumer(rabbitmq.ConsumerConfig{
		Endpoint: rabbitmq.Endpoint{URL: os.Getenv(killedURL), Logger: quiet()}, Queue: os.Getenv(killedQueue), Receiver: rabbitmq.Events(sequencer),
	})
	fatal(err)
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(running) }()
	for {
		s := sequencer.Stats()
		parked, err := sequencer.Parked(ctx)
		fatal(err)
		var done int
		fatal(store.DB().QueryRowContext(ctx, `SELECT count(*) FROM effects`).Scan(&done))
		if done >= unrelated && s.Open == 0 && s.Held+s.DeadLettered > 0 && (len(parked) > 0 || policy == dispatcher.DeadLetter) {
			break
		}
		time.Sleep(tick)
	}
	stop()
	fatal(<-ended)
	fatal(sequencer.Close())
	fatal(store.Close())
	os.Exit(0)
}

// TestOneMessageKillsTheProcess: among 200 messages of a quorum queue is one that
// kills the process each time that it runs. Started again and again, all others are
// applied, each once, and that one is given up by its policy: real processes, a real
// broker, and a database of each kind.
func TestOneMessageKillsTheProcess(t *testing.T) {
	kinds := map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "positions.db") },
		"PostgreSQL": func(t *testing.T) string { return pgtest.Start(t).Database(t) },
	}
	for name, place := range kinds {
		for _, policy := range []dispatcher.FailurePolicy{dispatcher.Park, dispatcher.DeadLetter} {
			if name == "PostgreSQL" && policy == dispatcher.DeadLetter {
				continue
			}
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				d := newDesk(t, rabbitmq.Queue{})
				store := place(t)
				apply := func(use func(s *sqlstore.Store)) {
					s, err := openFor(t.Context(), store)
					require.NoError(t, err)
					use(s)
					require.NoError(t, s.Close())
				}
				apply(func(s *sqlstore.Store) {
					require.NoError(t, s.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, `CREATE TABLE effects (event TEXT NOT NULL)`)
						return err
					}))
				})
				d.send("killer", "killer=1", "kill")
				for n := range unrelated {
					d.send(fmt.Sprint("e", n), fmt.Sprintf("s%d=%d", n%40, 1+n/40), "")
				}
				const most = 1 + maxCrashes + 1 // one that nobody could know of, and one for the rest
				for starts := 1; ; starts++ {
					require.LessOrEqual(t, starts, most)
					c := exec.Command(os.Args[0])
					c.Env = append(os.Environ(), killedStore+"="+store, killedURL+"="+d.node.URL(), killedQueue+"="+d.queue, killedFails+"="+policy.String())
					out, err := c.CombinedOutput()
					if err == nil {
						require.Equal(t, most, starts)
						break
					}
					require.Equal(t, "signal: killed", err.Error(), "%s", out)
				}
				apply(func(s *sqlstore.Store) {
					var all, distinct int
					require.NoError(t, s.DB().QueryRow(`SELECT count(*), count(DISTINCT event) FROM effects`).Scan(&all, &distinct))
					require.Equal(t, []int{unrelated, unrelated}, []int{all, distinct})
					term, err := s.Begin(t.Context(), ordering.Consumer{Partition: "of a test"})
					require.NoError(t, err)
					known, err := term.Look(t.Context(), []ordering.Position{{Stream: lockkeys.Must("killer"), Number: 1}})
					require.NoError(t, err)
					require.NotNil(t, known[0].Job)
					require.Contains(t, known[0].Job.Error, fmt.Sprintf("in each of its last %d runs", maxCrashes))
					require.Equal(t, policy == dispatcher.DeadLetter, known[0].Done)
					parked, err := term.Parked(t.Context())
					require.NoError(t, err)
					require.Len(t, parked, map[dispatcher.FailurePolicy]int{dispatcher.Park: 1}[policy])
				})
				d.requireEmpty()
			})
		}
	}
}
