package eventlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// model is a read model: a row for each entry, in the order of the effects.
func (b bed) model(t testing.TB, table string) ordering.Handler[eventlog.Entry] {
	t.Helper()
	serial := "INTEGER PRIMARY KEY AUTOINCREMENT"
	if b.place.dialect == eventlog.PostgreSQL {
		serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
	}
	require.NoError(t, b.store.Migrate(t.Context(), table, []string{
		`CREATE TABLE ` + table + ` (n ` + serial + `, place BIGINT NOT NULL, stream TEXT NOT NULL)`}))
	return sqlstore.InTx(b.store, func(ctx context.Context, tx *sql.Tx, job ordering.Job[eventlog.Entry]) error {
		e := job.Value
		_, err := tx.ExecContext(ctx, `INSERT INTO `+table+` (place, stream) VALUES ($1, $2)`,
			int64(e.At.Place()), e.Event.Positions[0].Stream.String())
		return err
	})
}

// rows returns the places in a read model by stream, in the order of the effects.
func (b bed) rows(t testing.TB, table string) map[string][]int {
	t.Helper()
	found, err := b.store.DB().Query(`SELECT place, stream FROM ` + table + ` ORDER BY n`)
	require.NoError(t, err)
	defer found.Close()
	byStream := map[string][]int{}
	for found.Next() {
		var place int
		var stream string
		require.NoError(t, found.Scan(&place, &stream))
		byStream[stream] = append(byStream[stream], place)
	}
	require.NoError(t, found.Err())
	return byStream
}

// requireModel requires that the read model has each entry once, those of a stream in
// their order.
func (b bed) requireModel(t testing.TB, table string) {
	t.Helper()
	want := map[string][]int{}
	for _, e := range b.read(t, eventlog.Query{}) {
		stream := e.Event.Positions[0].Stream.String()
		want[stream] = append(want[stream], int(e.At.Place()))
	}
	require.Equal(t, want, b.rows(t, table))
}

// subscribe starts a subscription that ends with the test.
func (b bed) subscribe(t testing.TB, config eventlog.SubscriptionConfig) *eventlog.Subscription {
	t.Helper()
	if config.Name == "" {
		config.Name = "model"
	}
	if config.Store == nil {
		config.Store = b.store
	}
	config.Dispatcher.Backoff = dispatcher.Backoff{Initial: time.Millisecond, Max: 10 * time.Millisecond}
	s, err := eventlog.Subscribe(t.Context(), b.Log, config)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), waitAtMost)
	t.Cleanup(cancel)
	return ctx
}

// A subscription catches up with what was there, follows what comes, and goes on where
// it was when it is made anew.
func TestASubscriptionCatchesUpAndFollows(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		handle := b.model(t, "model")
		for i := range 300 {
			b.put(t, "x", fmt.Sprint("s/", i%7))
		}
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Window: 16})
		require.NoError(t, s.CatchUp(within(t)))
		b.requireModel(t, "model")
		for i := range 20 {
			e := b.put(t, "x", fmt.Sprint("s/", i%7))
			require.NoError(t, s.Wait(within(t), e.At), "a caller reads its own write")
			b.requireModel(t, "model")
		}
		progress, err := s.Progress(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []eventlog.Progress{{Done: at("log/0", 320), Head: at("log/0", 320)}}, progress)
		require.ErrorIs(t, s.Wait(t.Context(), at("log/1", 1)), eventlog.ErrPartition)
		late, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		require.ErrorIs(t, s.Wait(late, at("log/0", 999)), context.DeadlineExceeded)

		require.NoError(t, s.Err())
		require.NoError(t, s.Shutdown(within(t)))
		require.ErrorIs(t, s.Wait(t.Context(), at("log/0", 999)), eventlog.ErrClosed)
		b.put(t, "x", "s/0")
		s = b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle})
		require.NoError(t, s.CatchUp(within(t)))
		b.requireModel(t, "model")
		require.NoError(t, s.Drain(within(t)))
	})
}

// Many entries in one transaction, each with its effect once, in the order of the log.
func TestASubscriptionInCommonTransactions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for i := range 200 {
			b.put(t, "x", fmt.Sprint("s/", i%7))
		}
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: b.model(t, "model"), Together: b.store.Together})
		before := b.store.Commits()
		require.NoError(t, s.CatchUp(within(t)))
		b.requireModel(t, "model")
		assert.Less(t, b.store.Commits()-before, int64(100))
		var inOrder int
		require.NoError(t, b.store.DB().QueryRow(`SELECT count(*) FROM model a JOIN model b ON b.n < a.n AND b.place > a.place`).Scan(&inOrder))
		assert.Zero(t, inOrder)
	})
}

// Without notices, what comes is found by polling.
func TestASubscriptionPolls(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: b.model(t, "model"), Poll: 5 * time.Millisecond})
		require.NoError(t, s.CatchUp(within(t)))
		var appended eventlog.Appended
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
			appended, err = b.Append(ctx, tx, []*ordering.Event{on("", "x", "a")})
			return err
		}))
		require.NoError(t, s.Wait(within(t), appended.Entries[0].At))
		b.requireModel(t, "model")
	})
}

// Entries of different streams are handled side by side, those of one in turn.
func TestASubscriptionIsParallelByStreams(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		var mu sync.Mutex
		running, together := map[string]bool{}, 0
		both := make(chan struct{})
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: func(ctx context.Context, job ordering.Job[eventlog.Entry]) error {
			stream := job.Value.Event.Positions[0].Stream.String()
			mu.Lock()
			assert.False(t, running[stream], "two of a stream at once")
			running[stream] = true
			if together++; together == 2 {
				close(both)
			}
			mu.Unlock()
			select {
			case <-both: // only if both streams are handled at once
			case <-ctx.Done():
				return ctx.Err()
			}
			mu.Lock()
			defer mu.Unlock()
			running[stream] = false
			return nil
		}})
		for i := range 10 {
			b.put(t, "x", fmt.Sprint("s/", i%2))
		}
		require.NoError(t, s.CatchUp(within(t)))
	})
}

// An entry that cannot be read stops its partition until an operator decides, also
// after a restart. All before it is handled, nothing behind it, and then all the rest.
func TestAnEntryThatCannotBeReadParksTheSubscription(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		handle := b.model(t, "model")
		for i := range 40 {
			b.put(t, "x", fmt.Sprint("s/", i%3))
		}
		body := func(set string) {
			require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, `UPDATE outbox_events SET body = `+set+` WHERE id = (SELECT event FROM eventlog_entries WHERE place = 10)`)
				return err
			}))
		}
		body(`'broken' || body`)
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Window: 8, Poll: 5 * time.Millisecond})
		require.NoError(t, s.Wait(within(t), at("log/0", 9)))
		require.ErrorIs(t, s.Wait(within(t), at("log/0", 10)), eventlog.ErrParked)
		require.ErrorIs(t, s.CatchUp(within(t)), eventlog.ErrParked)
		parked, err := s.Sequencer().Parked(t.Context())
		require.NoError(t, err)
		require.Len(t, parked, 1)
		assert.Contains(t, parked[0].Error, "entry log/0=10")
		progress, err := s.Progress(t.Context())
		require.NoError(t, err)
		assert.True(t, progress[0].Parked)
		assert.Equal(t, at("log/0", 9), progress[0].Done)

		seen, err := s.View(t.Context(), view.Query{})
		require.NoError(t, err)
		assert.Equal(t, "subscription", seen.Kind)
		assert.Contains(t, seen.Problems, "1 parkings: an operator must decide")
		assert.EqualValues(t, 31, seen.Waits)
		assert.Equal(t, []string{"log/0", "log/0=9", "log/0=40", "31", "parked: an operator must decide"}, seen.Tables[0].Rows[0].Cells)

		metrics, err := s.Metrics(t.Context())
		require.NoError(t, err)
		lag := metrics[len(metrics)-1]
		assert.Equal(t, "interlock.projection.lag", lag.Name)
		assert.Equal(t, []view.Point{{Of: "0", Value: 31}}, lag.Points)

		t.Log("also after a restart")
		require.NoError(t, s.Shutdown(within(t)))
		s = b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Window: 8, Poll: 5 * time.Millisecond})
		require.ErrorIs(t, s.CatchUp(within(t)), eventlog.ErrParked)
		for _, places := range b.rows(t, "model") {
			assert.Less(t, slices.Max(places), 18, "what was beside it in the window may have run, no more")
		}

		t.Log("it is given up, and all goes on")
		seen, err = s.View(t.Context(), view.Query{})
		require.NoError(t, err)
		rows := seen.Tables[slices.IndexFunc(seen.Tables, func(t view.Table) bool { return t.Name == "Parked streams" })].Rows
		require.Len(t, rows, 1)
		require.NoError(t, s.Act(dispatcher.WithOperator(t.Context(), "ann", "a broken disk"), view.Action{Name: view.Skip, Target: rows[0].Target}))
		require.Eventually(t, func() bool { return s.CatchUp(within(t)) == nil }, waitAtMost, time.Millisecond)
		got := b.rows(t, "model")
		total := 0
		for _, places := range got {
			total += len(places)
			assert.True(t, slices.IsSorted(places), places)
		}
		assert.Equal(t, 39, total)
	})
}

// A dead letter is the entry as its handler would have had it, if it can be read.
func TestEntriesThatAreGivenUp(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for range 3 {
			b.put(t, "paid", "a")
		}
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE outbox_events SET body = 'broken' || body WHERE id = (SELECT event FROM eventlog_entries WHERE place = 2)`)
			return err
		}))
		type letter struct {
			entry eventlog.Entry
			err   error
		}
		letters := make(chan letter, 4)
		refused := errors.New("refused")
		s := b.subscribe(t, eventlog.SubscriptionConfig{
			Failure:    dispatcher.DeadLetter,
			Handler:    func(context.Context, ordering.Job[eventlog.Entry]) error { return dispatcher.Permanent(refused) },
			DeadLetter: func(_ context.Context, e eventlog.Entry, err error) error { letters <- letter{e, err}; return nil },
		})
		require.NoError(t, s.CatchUp(within(t)))
		got := map[uint64]letter{}
		for range 3 {
			l := <-letters
			got[l.entry.At.Number] = l
		}
		var unread *eventlog.EntryError
		for want, err := range b.Read(t.Context(), eventlog.Query{}) {
			l := got[want.At.Number]
			assert.Equal(t, want, l.entry)
			if err == nil {
				assert.ErrorIs(t, l.err, refused)
			} else if assert.ErrorAs(t, l.err, &unread) {
				assert.Equal(t, err, unread)
			}
		}
		assert.Empty(t, letters)
		assert.NotNil(t, unread, "one cannot be read")
	})
}

// A handler that fails for good parks, and is run again when it is resumed.
func TestASubscriptionIsResumed(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		handle := b.model(t, "model")
		var mu sync.Mutex
		fails := true
		s := b.subscribe(t, eventlog.SubscriptionConfig{Poll: 5 * time.Millisecond, Handler: func(ctx context.Context, job ordering.Job[eventlog.Entry]) error {
			mu.Lock()
			defer mu.Unlock()
			if fails && job.Value.At.Number == 5 {
				return dispatcher.Permanent(errors.New("not today"))
			}
			return handle(ctx, job)
		}})
		for i := range 20 {
			b.put(t, "x", fmt.Sprint("s/", i%2))
		}
		require.Eventually(t, func() bool { return errors.Is(s.CatchUp(within(t)), eventlog.ErrParked) }, waitAtMost, time.Millisecond)
		mu.Lock()
		fails = false
		mu.Unlock()
		require.NoError(t, s.Sequencer().Resume(dispatcher.WithOperator(t.Context(), "ann", "mended"), eventlog.Partition(0)))
		require.Eventually(t, func() bool { return s.CatchUp(within(t)) == nil }, waitAtMost, time.Millisecond)
		b.requireModel(t, "model")
	})
}

// A read model is built anew beside the one in use, and taken into use.
func TestARebuild(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		views, err := eventlog.NewViews(t.Context(), b.store.DB(), p.dialect)
		require.NoError(t, err)
		old := b.subscribe(t, eventlog.SubscriptionConfig{Name: "model/1", Handler: b.model(t, "model_1")})
		for i := range 50 {
			b.put(t, "x", fmt.Sprint("s/", i%3))
		}
		require.NoError(t, old.CatchUp(within(t)))
		next := b.subscribe(t, eventlog.SubscriptionConfig{Name: "model/2", Handler: b.model(t, "model_2")})
		require.NoError(t, next.CatchUp(within(t)))
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			return views.Switch(ctx, tx, "model", "2")
		}))
		require.NoError(t, old.Close())
		e := b.put(t, "x", "s/0")
		require.NoError(t, next.Wait(within(t), e.At))
		b.requireModel(t, "model_2")
		current, err := views.Current(t.Context(), "model")
		require.NoError(t, err)
		assert.Equal(t, "2", current)
	})
}

// Two subscriptions share the partitions of a log, under one name.
func TestSubscriptionsShareThePartitions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{Partitions: 2, PartitionOf: func(stream lockkeys.Key) int { return int(stream.String()[0] - 'a') }})
		handle := b.model(t, "model")
		s0 := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Partitions: []int{0}})
		s1 := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Partitions: []int{1}})
		for i := range 20 {
			b.put(t, "x", []string{"a", "b"}[i%2])
		}
		require.NoError(t, s0.CatchUp(within(t)))
		require.NoError(t, s1.CatchUp(within(t)))
		rows := b.rows(t, "model")
		assert.Len(t, rows["a"], 10)
		assert.Len(t, rows["b"], 10)
		require.ErrorIs(t, s0.Wait(t.Context(), at("log/1", 1)), eventlog.ErrPartition)
	})
}

// lose takes the log back to a place, as the restore of an old backup does.
func (b bed) lose(t testing.TB, behind uint64) {
	t.Helper()
	require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error { return loseIn(ctx, tx, behind) }))
}

func loseIn(ctx context.Context, tx *sql.Tx, behind uint64) error {
	for _, statement := range []string{
		`DELETE FROM outbox_positions WHERE event IN (SELECT event FROM eventlog_entries WHERE place > $1)`,
		`DELETE FROM outbox_events WHERE id IN (SELECT event FROM eventlog_entries WHERE place > $1)`,
		`DELETE FROM eventlog_entries WHERE place > $1`,
		`UPDATE eventlog_heads SET last = $1`,
	} {
		if _, err := tx.ExecContext(ctx, statement, int64(behind)); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `UPDATE outbox_streams SET last = (SELECT count(*) FROM outbox_positions p WHERE p.stream = outbox_streams.id)`)
	return err
}

// A database that is away while a subscription runs, and comes back without entries that it
// has handled, is noticed as well.
func TestALogThatComesBackWithoutEntries(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for name, again := range map[string]int{"shorter": 2, "as long": 5, "longer": 9} {
			t.Run(name, func(t *testing.T) {
				b := place{p.dialect, p.path}.fresh(t).open(t, eventlog.Config{})
				for range 10 {
					b.put(t, "x", "a")
				}
				s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: b.model(t, "model"), Poll: 5 * time.Millisecond})
				require.NoError(t, s.CatchUp(within(t)))
				rename := func(ctx context.Context, tx *sql.Tx, from, to string) error {
					_, err := tx.ExecContext(ctx, `ALTER TABLE `+from+` RENAME TO `+to)
					return err
				}
				require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					return rename(ctx, tx, "eventlog_entries", "eventlog_away")
				}))
				require.Eventually(t, func() bool {
					progress, err := s.Progress(t.Context())
					return err == nil && progress[0].Err != nil
				}, waitAtMost, time.Millisecond)
				require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					err := rename(ctx, tx, "eventlog_away", "eventlog_entries")
					if err == nil {
						err = loseIn(ctx, tx, 5)
					}
					for range again {
						if err == nil {
							_, err = b.Append(ctx, tx, []*ordering.Event{on("", "x", "a")})
						}
					}
					return err
				}))
				b.Notify()
				require.Eventually(t, func() bool { return errors.Is(s.Err(), eventlog.ErrAhead) }, waitAtMost, time.Millisecond)
				assert.Len(t, b.rows(t, "model")["a"], 10)
			})
		}
	})
}

// A log that has lost entries is noticed by a subscription that has handled them: when
// it has not come so far again, when it has, and while the subscription runs. In a new
// epoch all goes on.
func TestALogThatHasLostEntries(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		for name, again := range map[string]int{"shorter": 2, "as long": 5, "longer": 9} {
			t.Run(name, func(t *testing.T) {
				b := place{p.dialect, p.path}.fresh(t).open(t, eventlog.Config{})
				handle := b.model(t, "model")
				for range 10 {
					b.put(t, "x", "a")
				}
				s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle})
				require.NoError(t, s.CatchUp(within(t)))
				require.NoError(t, s.Shutdown(within(t)))
				b.lose(t, 5)
				for range again {
					b.put(t, "x", "a")
				}
				s = b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle})
				require.ErrorIs(t, s.Wait(within(t), at("log/0", 99)), eventlog.ErrAhead)
				require.ErrorIs(t, s.Wait(within(t), at("log/0", 6)), eventlog.ErrAhead, "it has handled another entry in that place")
				progress, err := s.Progress(t.Context())
				require.NoError(t, err)
				require.ErrorIs(t, progress[0].Err, eventlog.ErrAhead)
				require.ErrorIs(t, s.Err(), eventlog.ErrAhead)
				require.NoError(t, s.Close())

				t.Log("in a new epoch")
				next, err := eventlog.New(t.Context(), b.store.DB(), p.dialect, eventlog.Config{Epoch: 1})
				require.NoError(t, err)
				b.Log = next
				e := b.put(t, "x", "a")
				s = b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle})
				require.NoError(t, s.Wait(within(t), e.At))
				rows := b.rows(t, "model")["a"]
				assert.Equal(t, int(e.At.Place()), rows[len(rows)-1])
			})
		}
	})
}

// fresh is another database of the same kind.
func (p place) fresh(t testing.TB) place {
	if p.dialect == eventlog.PostgreSQL {
		return place{p.dialect, server.Database(t)}
	}
	return place{p.dialect, t.TempDir() + "/log.db"}
}

// Who subscribes under a name that is in use takes over. The one before stops, and says
// so; a sequencer of the caller's with the same name is not touched.
func TestASubscriptionIsTakenOver(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		other, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
			Store: b.store, Consumer: ordering.Consumer{Name: "model"},
			Handler: func(context.Context, ordering.Job[*ordering.Event]) error { return nil },
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, other.Close()) }()
		handle := b.model(t, "model")
		first := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Poll: 5 * time.Millisecond})
		b.put(t, "x", "a")
		require.NoError(t, first.CatchUp(within(t)))
		require.NoError(t, first.Err())
		second := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Poll: 5 * time.Millisecond})
		e := b.put(t, "x", "a")
		require.NoError(t, second.Wait(within(t), e.At))
		require.ErrorIs(t, first.Wait(within(t), at("log/0", 99)), eventlog.ErrClosed)
		require.ErrorIs(t, first.Err(), ordering.ErrFenced)
		require.NoError(t, second.Err())
		require.NoError(t, other.Err())
		b.requireModel(t, "model")
		require.NoError(t, second.Close())
		require.ErrorIs(t, second.Err(), ordering.ErrClosed)
	})
}

// Who has a full window when it is taken over says so, too.
func TestASubscriptionWithAFullWindowIsTakenOver(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for range 3 {
			b.put(t, "x", "a")
		}
		began, goOn := make(chan struct{}), make(chan struct{})
		first := b.subscribe(t, eventlog.SubscriptionConfig{Window: 1, Handler: func(context.Context, ordering.Job[eventlog.Entry]) error {
			close(began)
			<-goOn
			return nil
		}})
		<-began
		waited := make(chan error, 1)
		go func() { waited <- first.Wait(within(t), at("log/0", 3)) }()
		second := b.subscribe(t, eventlog.SubscriptionConfig{Handler: b.model(t, "model")})
		require.NoError(t, second.CatchUp(within(t)))
		close(goOn)
		require.ErrorIs(t, <-waited, eventlog.ErrClosed)
		require.ErrorIs(t, first.Err(), ordering.ErrFenced)
	})
}

// What became of the last entry is not known any more: that is told.
func TestASubscriptionThatWasIdleForLong(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		handle := b.model(t, "model")
		b.put(t, "x", "a")
		s := b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle})
		require.NoError(t, s.CatchUp(within(t)))
		require.NoError(t, s.Close())
		term, err := b.store.Begin(t.Context(), ordering.Consumer{Name: "eventlog/model"})
		require.NoError(t, err)
		_, err = term.Prune(t.Context(), time.Now().Add(time.Hour), time.Time{})
		require.NoError(t, err)
		require.NoError(t, term.End(t.Context()))
		var logged logs
		s = b.subscribe(t, eventlog.SubscriptionConfig{Handler: handle, Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		e := b.put(t, "x", "a")
		require.NoError(t, s.Wait(within(t), e.At))
		b.requireModel(t, "model")
		assert.Contains(t, logged.String(), "cannot be told any more")
	})
}

// logs is a text that several may write.
type logs struct {
	mu   sync.Mutex
	text []byte
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	return len(p), nil
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func TestSubscribeRefuses(t *testing.T) {
	_, err := eventlog.Subscribe(t.Context(), nil, eventlog.SubscriptionConfig{Window: -1, Poll: -1})
	require.ErrorIs(t, err, eventlog.ErrConfig)
	for _, part := range []string{"log is nil", "Name is empty", "Store is nil", "Handler is nil", "Window is -1", "Poll is -1"} {
		assert.ErrorContains(t, err, part)
	}
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		handler := func(context.Context, ordering.Job[eventlog.Entry]) error { return nil }
		for _, partitions := range [][]int{{1}, {-1}, {0, 0}} {
			_, err := eventlog.Subscribe(t.Context(), b.Log, eventlog.SubscriptionConfig{Name: "x", Store: b.store, Handler: handler, Partitions: partitions})
			require.ErrorIs(t, err, eventlog.ErrConfig)
			require.ErrorContains(t, err, "Partitions has")
		}
	})
}
