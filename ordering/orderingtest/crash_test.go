package orderingtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type (
	event = ordering.Event
	job   = ordering.Job[*event]
)

// events returns events of two accounts, of which every third is on both.
func events(n int) (all []*event) {
	next := map[string]uint64{}
	at := func(account string) ordering.Position {
		next[account]++
		return ordering.Position{Stream: lockkeys.Must("account", account), Number: next[account]}
	}
	for i := range n {
		e := &event{ID: fmt.Sprint(i)}
		if i%3 != 1 {
			e.Positions = append(e.Positions, at("a"))
		}
		if i%3 != 0 {
			e.Positions = append(e.Positions, at("b"))
		}
		all = append(all, e)
	}
	return all
}

// effects counts what handlers did, by event.
type effects struct {
	mu sync.Mutex
	of map[string]int
}

func (e *effects) add(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[string]int{}
	}
	e.of[id]++
}

// once fails the test unless each of the events has had its effect once.
func (e *effects) once(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		require.Equal(t, 1, e.of[fmt.Sprint(i)], "event %d", i)
	}
	require.Len(t, e.of, n)
}

// TestEveryMoment: the crash comes before, during and after each commit, of each kind
// of handler and store, and each effect that is part of the commit is there once.
func TestEveryMoment(t *testing.T) {
	const n = 5
	lite, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"))
	require.NoError(t, err)
	database := newDatabase(t, lite)
	for name, setUp := range map[string]func(t *testing.T) (cfg ordering.Config[*event], done func() *effects){
		"memory, an effect that may be repeated": func(t *testing.T) (ordering.Config[*event], func() *effects) {
			all := effects{of: map[string]int{}}
			return ordering.Config[*event]{Store: ordering.NewMemory(), Handler: func(_ context.Context, job job) error {
				all.mu.Lock()
				defer all.mu.Unlock()
				all.of[job.Event.ID] = 1
				return nil
			}}, func() *effects { return &all }
		},
		"memory, an effect of the commit": func(t *testing.T) (ordering.Config[*event], func() *effects) {
			store, all := ordering.NewMemory(), &effects{}
			return ordering.Config[*event]{Store: store, Handler: func(ctx context.Context, job job) error {
				if err := store.Commit(ctx, job.Record()); err != nil {
					return err
				}
				job.Committed()
				all.add(job.Event.ID)
				return nil
			}}, func() *effects { return all }
		},
		"sqlite": database.inTx,
		"sqlite, in chains": func(t *testing.T) (ordering.Config[*event], func() *effects) {
			cfg, done := database.inTx(t)
			cfg.Together = lite.Together
			cfg.Dispatcher.Workers = 1
			return cfg, done
		},
	} {
		t.Run(name, func(t *testing.T) {
			crashes, chains := map[Point]int{}, false
			EachCrash(t, func(t *testing.T, crash *Crash) {
				cfg, done := setUp(t)
				for i, o := range Deliver(t, crash, cfg, events(n)...) {
					require.True(t, o.Ack(), "event %d: %+v", i, o)
				}
				done().once(t, n)
				chains = cfg.Together != nil
				if crash.Point != 0 && crash.commits >= crash.Commit {
					crashes[crash.Point]++
				}
			})
			least := n
			if chains { // how long they are is chance
				least = 1
			}
			for _, point := range []Point{Before, During, After} {
				require.GreaterOrEqual(t, crashes[point], least)
			}
		})
	}
}

// TestPostgres is TestEveryMoment with a server, for one commit.
func TestPostgres(t *testing.T) {
	server := pgtest.Start(t, "fsync=off")
	store, err := postgres.Open(t.Context(), server.Database(t))
	require.NoError(t, err)
	database := newDatabase(t, store)
	for _, point := range []Point{Before, During, After} {
		cfg, done := database.inTx(t)
		crash := &Crash{Point: point, Commit: 3}
		Deliver(t, crash, cfg, events(5)...)
		done().once(t, 5)
		require.GreaterOrEqual(t, crash.commits, 3)
	}
}

// database has the effects in a table of a store.
type database struct {
	*sqlstore.Store
	consumers int // so far, each of which begins anew
}

func newDatabase(t *testing.T, store *sqlstore.Store) *database {
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Migrate(t.Context(), "test", []string{`CREATE TABLE effects (consumer TEXT NOT NULL, event TEXT NOT NULL)`}))
	return &database{Store: store}
}

func (d *database) inTx(t *testing.T) (ordering.Config[*event], func() *effects) {
	d.consumers++
	consumer := fmt.Sprint("test ", d.consumers)
	handler := sqlstore.InTx(d.Store, func(ctx context.Context, tx *sql.Tx, job job) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO effects VALUES ($1, $2)`, consumer, job.Event.ID)
		return err
	})
	return ordering.Config[*event]{Store: d.Store, Handler: handler, Consumer: ordering.Consumer{Name: consumer}}, func() *effects {
		rows, err := d.DB().Query(`SELECT event FROM effects WHERE consumer = $1`, consumer)
		require.NoError(t, err)
		defer rows.Close()
		all := &effects{}
		for rows.Next() {
			var id string
			require.NoError(t, rows.Scan(&id))
			all.add(id)
		}
		require.NoError(t, rows.Err())
		return all
	}
}

// TestTwice: an effect outside the commit is found to be there twice, where the commit
// came too late; and only there.
func TestTwice(t *testing.T) {
	at := func(n uint64) []ordering.Position {
		return []ordering.Position{{Stream: lockkeys.Must("a"), Number: n}}
	}
	for point, want := range map[Point]int{0: 1, Before: 2, During: 1, After: 1} {
		synctest.Test(t, func(t *testing.T) {
			var all effects
			outcomes := Deliver(t, &Crash{Point: point, Commit: 2}, ordering.Config[*event]{
				Store: ordering.NewMemory(),
				Handler: func(_ context.Context, job job) error {
					all.add(job.Event.ID)
					return nil
				},
			}, &event{ID: "1", Positions: at(1)}, &event{ID: "2", Positions: at(2)})
			require.Equal(t, map[string]int{"1": 1, "2": want}, all.of, "%v", point)
			require.Equal(t, ordering.Applied, outcomes[0].Result)
			if point == During || point == After {
				require.Equal(t, ordering.Duplicate, outcomes[1].Result, "it was redelivered")
			} else {
				require.Equal(t, ordering.Applied, outcomes[1].Result)
			}
		})
	}
}

// TestFailing: crashes come at the commits of what fails, too, and at its parking.
func TestFailing(t *testing.T) {
	boom := errors.New("boom")
	for _, policy := range []dispatcher.FailurePolicy{dispatcher.Park, dispatcher.DeadLetter} {
		crashes := 0
		EachCrash(t, func(t *testing.T, crash *Crash) {
			var all effects
			store := ordering.NewMemory()
			outcomes := Deliver(t, crash, ordering.Config[*event]{
				Store: store, Failure: policy, Dispatcher: dispatcher.Config[job]{MaxAttempts: 1},
				Keys: func(_ job, claim *lockkeys.Claim) error { claim.Exclusive(lockkeys.Root()); return nil },
				Handler: func(_ context.Context, job job) error {
					if job.Event.ID == "0" {
						return boom
					}
					all.add(job.Event.ID)
					return nil
				},
			}, events(3)...)
			for i, o := range outcomes {
				require.True(t, o.Ack(), "event %d: %+v", i, o)
			}
			parked, err := store.Reader("").Parked(t.Context())
			require.NoError(t, err)
			if policy == dispatcher.Park {
				require.Len(t, parked, 1)
				require.Empty(t, all.of["2"])
			} else {
				require.Empty(t, parked)
				require.NotEmpty(t, all.of["2"])
			}
			if crash.Point != 0 && crash.commits >= crash.Commit {
				crashes++
			}
		})
		require.GreaterOrEqual(t, crashes, 3*3, "two handlers or three, and one failure")
	}
}

// TestStops: a sequencer that stops by itself fails the test.
func TestStops(t *testing.T) {
	boom := errors.New("boom")
	_, err := deliver(t.Context(), &Crash{}, ordering.Config[*event]{
		Store: ordering.NewMemory(), Failure: dispatcher.Stop, Dispatcher: dispatcher.Config[job]{MaxAttempts: 1},
		Handler: func(context.Context, job) error { return boom },
	}, events(2))
	require.ErrorIs(t, err, boom)
	_, err = deliver(t.Context(), &Crash{}, ordering.Config[*event]{Store: ordering.NewMemory()}, nil)
	require.ErrorIs(t, err, ordering.ErrConfig)
	require.Equal(t, "before during after Point(0)", fmt.Sprint(Before, During, After, Point(0)))
}

// lax is a store that commits in terms that are over.
type lax struct{ ordering.Store }

type laxTerm struct{ ordering.Term }

func (l lax) Begin(ctx context.Context, c ordering.Consumer) (ordering.Term, error) {
	t, err := l.Store.Begin(ctx, c)
	return laxTerm{t}, err
}

func (l laxTerm) Commit(ctx context.Context, r ordering.Record) error {
	if err := l.Term.Commit(ctx, r); !errors.Is(err, ordering.ErrFenced) {
		return err
	}
	return nil
}

// TestLaxStore: a store that does not refuse what comes too late fails the test.
func TestLaxStore(t *testing.T) {
	_, err := deliver(t.Context(), &Crash{Point: Before, Commit: 1}, ordering.Config[*event]{
		Store: lax{ordering.NewMemory()}, Handler: func(context.Context, job) error { return nil },
	}, events(1))
	require.ErrorContains(t, err, "the store has committed event 0 in a term that was over")
	_, err = deliver(t.Context(), &Crash{Point: Before, Commit: 1}, ordering.Config[*event]{
		Store: ordering.NewMemory(), Handler: func(_ context.Context, job job) error { job.Committed(); return nil },
	}, events(1))
	require.ErrorContains(t, err, "in a term that was over", "it only says so")
}

// TestEachCrashFails: in a process of its own, after the crash that finds it.
func TestEachCrashFails(t *testing.T) {
	if os.Getenv("ORDERINGTEST_FAILING") == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestEachCrashFails$", "-test.v")
		cmd.Env = append(os.Environ(), "ORDERINGTEST_FAILING=1")
		out, err := cmd.CombinedOutput()
		require.Error(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: TestEachCrashFails/no_crash")
		require.Contains(t, string(out), "--- FAIL: TestEachCrashFails/before_commit_1")
		require.Equal(t, 1, strings.Count(string(out), "--- FAIL: TestEachCrashFails/"))
		return
	}
	EachCrash(t, func(t *testing.T, crash *Crash) {
		var all effects
		Deliver(t, crash, ordering.Config[*event]{
			Store:   ordering.NewMemory(),
			Handler: func(_ context.Context, job job) error { all.add(job.Event.ID); return nil },
		}, events(3)...)
		all.once(t, 3)
	})
}
