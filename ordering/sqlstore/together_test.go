package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// bank is a sequencer whose handlers move money in the tables of its store, with
// one worker, so that what is offered while that is busy gathers.
type bank struct {
	t     *testing.T
	store *sqlstore.Store
	seq   *ordering.Sequencer[*ordering.Event]
	busy  chan struct{} // closed when the gathered events may run

	offered  uint64
	mu       sync.Mutex
	special  map[string]func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error
	calls    map[string]int
	outcomes map[string]ordering.Outcome
}

var bankTables = []string{
	`CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL)`,
	`CREATE TABLE journal (event TEXT NOT NULL, account TEXT NOT NULL, balance INTEGER NOT NULL)`,
}

func newBank(t *testing.T, store *sqlstore.Store, change func(cfg *ordering.Config[*ordering.Event])) *bank {
	t.Helper()
	b := &bank{
		t: t, store: store, busy: make(chan struct{}), calls: map[string]int{}, outcomes: map[string]ordering.Outcome{},
		special: map[string]func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error{},
	}
	require.NoError(t, store.Migrate(t.Context(), "bank", bankTables))
	cfg := ordering.Config[*ordering.Event]{
		Store: store, Handler: sqlstore.InTx(store, b.handle), Together: store.Together,
		Keys: func(job ordering.Job[*ordering.Event], claim *lockkeys.Claim) error {
			for _, p := range job.Event.Positions {
				claim.Exclusive(p.Stream)
			}
			if job.Event.IsCommand() {
				claim.Exclusive(lockkeys.MustParse(job.Event.Type))
			}
			return nil
		},
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{
			Workers: 1, ChainTime: time.Hour, MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: time.Millisecond},
		},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	b.seq, err = ordering.New(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.seq.Close() })
	b.special["busy-1"] = func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error { <-b.busy; return nil }
	b.offer(&ordering.Event{ID: "busy-1", Positions: at("busy", 1)})
	require.Eventually(t, func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.calls["busy-1"] > 0 }, waitAtMost, tick)
	return b
}

// handle adds 1 to each account of the event, as single-threaded code does it.
func (b *bank) handle(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error {
	e := job.Event
	b.mu.Lock()
	b.calls[e.Name()]++
	special := b.special[e.Name()]
	b.mu.Unlock()
	if e.ID == "busy-1" {
		return special(ctx, tx, job)
	}
	accounts := []string{e.Type}
	if !e.IsCommand() {
		accounts = nil
		for _, p := range e.Positions {
			accounts = append(accounts, p.Stream.String())
		}
	}
	for _, account := range accounts {
		var balance int
		err := tx.QueryRowContext(ctx, `SELECT balance FROM accounts WHERE name = $1`, account).Scan(&balance)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		balance++
		if _, err := tx.ExecContext(ctx, `INSERT INTO accounts (name, balance) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET balance = excluded.balance`, account, balance); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO journal (event, account, balance) VALUES ($1, $2, $3)`, e.Name(), account, balance); err != nil {
			return err
		}
		job.Reply([]byte(fmt.Sprint(balance)))
	}
	if special != nil {
		return special(ctx, tx, job)
	}
	return nil
}

func (b *bank) offer(events ...*ordering.Event) {
	b.t.Helper()
	b.offered += uint64(len(events))
	for _, e := range events {
		require.NoError(b.t, b.seq.Offer(b.t.Context(), e, func(e *ordering.Event, o ordering.Outcome) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.outcomes[e.Name()] = o
		}))
	}
}

// gathered waits until the dispatcher has all events but copies of others.
func (b *bank) gathered(copies uint64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.seq.Stats().Dispatcher.Accepted == b.offered-copies }, waitAtMost, tick)
}

// run lets the gathered events run, and waits for them.
func (b *bank) run() {
	b.t.Helper()
	close(b.busy)
	ctx, cancel := context.WithTimeout(b.t.Context(), waitAtMost)
	defer cancel()
	require.NoError(b.t, b.seq.Drain(ctx))
}

// journal returns the events that have written to an account, in the order of the
// balances that they left, which must be 1, 2, and so on.
func (b *bank) journal(account string) (events []string) {
	b.t.Helper()
	rows, err := b.store.DB().Query(`SELECT event, balance FROM journal WHERE account = $1 ORDER BY balance`, account)
	require.NoError(b.t, err)
	defer rows.Close()
	for rows.Next() {
		var event string
		var balance int
		require.NoError(b.t, rows.Scan(&event, &balance))
		events = append(events, event)
		require.Len(b.t, events, balance)
	}
	require.NoError(b.t, rows.Err())
	return events
}

func (b *bank) outcome(event string) ordering.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.outcomes[event]
}

func deposits(account string, numbers ...uint64) (events []*ordering.Event) {
	for _, n := range numbers {
		events = append(events, &ordering.Event{ID: fmt.Sprintf("%s-%d", account, n), Positions: at(account, n)})
	}
	return events
}

// TestTogether: deposits to one account share a transaction, each with its own
// outcome and job state, and so do transfers through it.
func TestTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		b := newBank(t, store, nil)
		b.offer(deposits("hot", 1, 2, 3, 4, 5)...)
		b.offer(&ordering.Event{ID: "transfer", Positions: []ordering.Position{at("hot", 6)[0], at("other", 1)[0]}})
		b.offer(deposits("other", 2)...)
		b.gathered(0)
		before := store.Commits()
		b.run()
		assert.EqualValues(t, 2, store.Commits()-before, "busy-1, and all others")
		assert.Equal(t, []string{"hot-1", "hot-2", "hot-3", "hot-4", "hot-5", "transfer"}, b.journal("hot"))
		assert.Equal(t, []string{"transfer", "other-2"}, b.journal("other"))
		for n := range uint64(5) {
			o := b.outcome(fmt.Sprintf("hot-%d", n+1))
			assert.Equal(t, ordering.Applied, o.Result)
			assert.Equal(t, fmt.Sprint(n+1), string(o.Reply))
			var attempts int
			require.NoError(t, store.DB().QueryRow(`SELECT attempts FROM ordering_jobs WHERE stream = 'hot' AND number = $1`, n+1).Scan(&attempts))
			assert.Equal(t, 1, attempts)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for event, n := range b.calls {
			assert.Equal(t, 1, n, event)
		}
	})
}

// TestTogetherUndone: when an event of a chain fails, each runs by itself, in
// order, and only its own attempts count.
func TestTogetherUndone(t *testing.T) {
	for name, fails := range map[string]func(ctx context.Context, tx *sql.Tx, job ordering.Job[*ordering.Event]) error{
		"error":  func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error { return errors.New("broken") },
		"panic":  func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error { panic("broken") },
		"Goexit": func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error { runtime.Goexit(); return nil },
		"COMMIT": func(ctx context.Context, tx *sql.Tx, _ ordering.Job[*ordering.Event]) error {
			_ = tx.Commit()
			return nil
		},
		"a query": func(ctx context.Context, tx *sql.Tx, _ ordering.Job[*ordering.Event]) error {
			_, err := tx.ExecContext(ctx, `INSERT INTO nowhere VALUES (1)`)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
				b := newBank(t, open(), nil)
				b.special["hot-3"] = fails
				b.offer(deposits("hot", 1, 2, 3, 4, 5)...)
				b.gathered(0)
				b.run()
				assert.Equal(t, []string{"hot-1", "hot-2"}, b.journal("hot"))
				parked, err := b.seq.Parked(t.Context())
				require.NoError(t, err)
				require.Len(t, parked, 1)
				require.Len(t, parked[0].Events, 1)
				assert.Equal(t, 2, parked[0].Events[0].Attempts)
				assert.Equal(t, ordering.Applied, b.outcome("hot-2").Result)
				assert.Equal(t, ordering.Held, b.outcome("hot-3").Result)

				t.Log("mended, it goes on with what is held behind it")
				b.mu.Lock()
				delete(b.special, "hot-3")
				b.mu.Unlock()
				require.NoError(t, b.seq.Resume(t.Context(), lockkeys.MustParse("hot")))
				require.Eventually(t, func() bool { return len(b.journal("hot")) == 5 }, waitAtMost, tick)
				assert.Equal(t, []string{"hot-1", "hot-2", "hot-3", "hot-4", "hot-5"}, b.journal("hot"))
			})
		})
	}
}

// TestTogetherNotCommitted: what the database refuses at the commit is told to the
// event that is at fault, once it runs by itself.
func TestTogetherNotCommitted(t *testing.T) {
	test := func(t *testing.T, store *sqlstore.Store, violate string) {
		b := newBank(t, store, nil)
		b.special["hot-2"] = func(ctx context.Context, tx *sql.Tx, _ ordering.Job[*ordering.Event]) error {
			_, err := tx.ExecContext(ctx, violate)
			return err
		}
		b.offer(deposits("hot", 1, 2, 3)...)
		b.gathered(0)
		b.run()
		assert.Equal(t, []string{"hot-1"}, b.journal("hot"))
		assert.Equal(t, ordering.Held, b.outcome("hot-2").Result)
		assert.Equal(t, 2*2+1, b.calls["hot-2"]+b.calls["hot-1"], "each in the chain, hot-1 once more, hot-2 twice")
	}
	t.Run("SQLite", func(t *testing.T) { test(t, checked(t), `INSERT INTO child VALUES (7)`) })
	t.Run("PostgreSQL", func(t *testing.T) {
		store := closed(t)(postgres.Open(t.Context(), database(t)))
		require.NoError(t, store.Migrate(t.Context(), "twins", []string{`CREATE TABLE twins (n INT UNIQUE DEFERRABLE INITIALLY DEFERRED)`}))
		test(t, store, `INSERT INTO twins VALUES (1), (1)`)
	})
}

// TestTogetherWithoutEffects: handlers that do not write share a transaction for
// their numbers.
func TestTogetherWithoutEffects(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		b := newBank(t, store, func(cfg *ordering.Config[*ordering.Event]) {
			inTx := cfg.Handler
			cfg.Handler = func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
				if job.Event.ID == "busy-1" {
					return inTx(ctx, job)
				}
				return nil
			}
		})
		b.offer(deposits("hot", 1, 2, 3)...)
		b.gathered(0)
		before := store.Commits()
		b.run()
		assert.EqualValues(t, 2, store.Commits()-before)
		assert.Equal(t, ordering.Applied, b.outcome("hot-3").Result)
		assert.EqualValues(t, 3, last(t, store, "hot"))
	})
}

// TestTogetherAlone: a handler that leaves the chain before it has written anything
// undoes nothing; one that does so in its effect, when its number is written already,
// or ignores that its effect has failed, undoes the chain, also if Together hides that
// its function has failed. Each runs once in the end.
func TestTogetherAlone(t *testing.T) {
	for name, c := range map[string]struct{ before, inside, ignored, hidden bool }{
		"before": {before: true}, "in the effect": {inside: true}, "ignored": {inside: true, ignored: true},
		"ignored and hidden": {inside: true, ignored: true, hidden: true},
	} {
		t.Run(name, func(t *testing.T) {
			everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
				store := open()
				b := newBank(t, store, func(cfg *ordering.Config[*ordering.Event]) {
					inTx, together := cfg.Handler, cfg.Together
					cfg.Together = func(ctx context.Context, run func(context.Context) error) error {
						err := together(ctx, run)
						if c.hidden {
							return nil
						}
						return err
					}
					cfg.Handler = func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
						if c.before && job.Event.ID == "hot-3" && store.TogetherTx(ctx) != nil {
							return dispatcher.ErrAlone
						}
						err := inTx(ctx, job)
						if c.ignored && store.TogetherTx(ctx) != nil {
							return nil
						}
						return err
					}
				})
				if c.inside {
					b.special["hot-3"] = func(context.Context, *sql.Tx, ordering.Job[*ordering.Event]) error {
						b.mu.Lock()
						defer b.mu.Unlock()
						if b.calls["hot-3"] == 1 {
							return dispatcher.ErrAlone
						}
						return nil
					}
				}
				b.offer(deposits("hot", 1, 2, 3, 4, 5)...)
				b.gathered(0)
				b.run()
				assert.Equal(t, []string{"hot-1", "hot-2", "hot-3", "hot-4", "hot-5"}, b.journal("hot"))
				assert.Equal(t, ordering.Applied, b.outcome("hot-3").Result)
				assert.Equal(t, "3", string(b.outcome("hot-3").Reply))
				var attempts int
				require.NoError(t, store.DB().QueryRow(`SELECT attempts FROM ordering_jobs WHERE stream = 'hot' AND number = 3`).Scan(&attempts))
				assert.Equal(t, 1, attempts)
			})
		})
	}
}

// TestCommandsTogether: commands on one account share a transaction; each has its
// reply, also for a repeat, in the same chain or later.
func TestCommandsTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		b := newBank(t, store, nil)
		command := func(id string) *ordering.Event { return &ordering.Event{ID: id, Type: "hot"} }
		b.offer(command("a"), command("b"), command("a"), command("c"))
		b.gathered(1)
		before := store.Commits()
		b.run()
		assert.EqualValues(t, 2, store.Commits()-before)
		assert.Equal(t, []string{"a", "b", "c"}, b.journal("hot"))
		assert.Equal(t, "3", string(b.outcome("c").Reply))

		o, err := b.seq.Do(t.Context(), command("b"))
		require.NoError(t, err)
		assert.Equal(t, ordering.Duplicate, o.Result)
		assert.Equal(t, "2", string(o.Reply))
		assert.Len(t, b.journal("hot"), 3)
	})
}

// TestOnlyDoWritesTogether: other writes of the store are refused in a chain, where
// they would wait for it; a handler that returns that runs by itself.
func TestOnlyDoWritesTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		var refused []error
		b := newBank(t, store, func(cfg *ordering.Config[*ordering.Event]) {
			inTx := cfg.Handler
			cfg.Handler = func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
				if job.Event.ID == "hot-2" {
					err := store.Write(ctx, effect("beside"))
					if err != nil {
						refused = append(refused, err)
						return err
					}
				}
				return inTx(ctx, job)
			}
		})
		b.offer(deposits("hot", 1, 2, 3)...)
		b.gathered(0)
		b.run()
		require.Len(t, refused, 1)
		require.ErrorIs(t, refused[0], sqlstore.ErrTogether)
		assert.Equal(t, []string{"hot-1", "hot-2", "hot-3"}, b.journal("hot"))
		assert.Equal(t, 1, effects(t, store))
	})
}

// TestNumbersOfAChain may be in any order, with gaps, of several streams; one that is
// done, or twice in it, undoes all of it.
func TestNumbersOfAChain(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		store := open()
		term := in(t, store)
		a, b := lockkeys.Must("a"), lockkeys.Must("b")
		states, err := term.Acquire(t.Context(), []lockkeys.Key{a, b})
		require.NoError(t, err)
		chain := func(events ...string) error {
			return store.Together(t.Context(), func(ctx context.Context) error {
				for _, text := range events {
					e := &ordering.Event{}
					if e.Positions, err = ordering.ParseSequenceID(text, lockkeys.Root()); err != nil {
						return err
					}
					fences := []int64{}
					for _, p := range e.Positions {
						fences = append(fences, map[lockkeys.Key]int64{a: states[0].Fence, b: states[1].Fence}[p.Stream])
					}
					if err := store.Do(ctx, ordering.NewJob(term, e, fences), effect(text)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, chain("a=2, b=1", "a=3", "a=7, b=2", "b=4"))
		require.NoError(t, chain("a=4", "a=1, b=3", "a=9"))
		for _, wrong := range [][]string{{"a=5", "b=4"}, {"a=5", "a=6", "a=5"}, {"b=5", "a=8", "a=7"}} {
			require.Error(t, chain(wrong...))
		}
		require.ErrorIs(t, chain("a=5", "b=4"), ordering.ErrDuplicate)
		now, err := term.Acquire(t.Context(), []lockkeys.Key{a, b})
		require.NoError(t, err)
		assert.EqualValues(t, 4, now[0].Last)
		assert.Equal(t, ordering.Spans{{From: 7, To: 7}, {From: 9, To: 9}}, now[0].Done)
		assert.EqualValues(t, 4, now[1].Last)
		assert.Empty(t, now[1].Done)
		assert.Equal(t, 7, effects(t, store))
	})
}
