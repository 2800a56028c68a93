package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/pgtest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
)

// linked opens a store through a link that counts, with one connection for handlers.
func linked(t *testing.T) (*sqlstore.Store, *pgtest.Link) {
	t.Helper()
	s, err := server()
	require.NoError(t, err)
	link, url := s.Link(t, s.Database(t))
	return closed(t)(postgres.Open(t.Context(), url+"&pool_max_conns=1")), link
}

// pgxEffects are the same effect, by statements of its own and by one that is queued.
var pgxEffects = map[string]func(ctx context.Context, tx *postgres.Tx) error{
	"Exec": func(ctx context.Context, tx *postgres.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO effects (event) VALUES ($1)`, "x")
		return err
	},
	"Query": func(ctx context.Context, tx *postgres.Tx) error {
		rows, err := tx.Query(ctx, `INSERT INTO effects (event) VALUES ($1) RETURNING event`, "x")
		if err != nil {
			return err
		}
		_, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[string])
		return err
	},
	"QueryRow": func(ctx context.Context, tx *postgres.Tx) error {
		var event string
		return tx.QueryRow(ctx, `INSERT INTO effects (event) VALUES ($1) RETURNING event`, "x").Scan(&event)
	},
	"SendBatch": func(ctx context.Context, tx *postgres.Tx) error {
		var batch pgx.Batch
		batch.Queue(`INSERT INTO effects (event) VALUES ($1)`, "x")
		batch.Queue(`SELECT 1`)
		return tx.SendBatch(ctx, &batch).Close()
	},
	"Queue": func(_ context.Context, tx *postgres.Tx) error {
		tx.Queue(`INSERT INTO effects (event) VALUES ($1)`, "x")
		return nil
	},
}

// TestRoundTrips: an event costs those of its own statements and one more, none of
// which is queued.
func TestRoundTrips(t *testing.T) {
	store, link := linked(t)
	n := uint64(0)
	trips := func(do func(j ordering.Job[*ordering.Event]) error) (trips int64) {
		for range 3 { // the first times, statements are prepared, and the connection is tried
			n++
			j := job(t, store, "a", n)
			before := link.RoundTrips()
			require.NoError(t, do(j))
			trips = link.RoundTrips() - before
			assert.Equal(t, n, last(t, store, "a"))
		}
		return trips
	}
	for name, effect := range pgxEffects {
		want := int64(2)
		if name == "Queue" {
			want = 1
		}
		assert.Equal(t, want, trips(func(j ordering.Job[*ordering.Event]) error { return postgres.Do(t.Context(), store, j, effect) }), name)
	}
	assert.EqualValues(t, 4, trips(func(j ordering.Job[*ordering.Event]) error {
		return postgres.Do(t.Context(), store, j, func(ctx context.Context, tx *postgres.Tx) error {
			tx.Queue(`INSERT INTO effects (event) VALUES ($1)`, "y")
			for range 3 {
				if err := pgxEffects["Exec"](ctx, tx); err != nil {
					return err
				}
			}
			return nil
		})
	}), "three and one")
	assert.EqualValues(t, 2, trips(func(j ordering.Job[*ordering.Event]) error { return store.Do(t.Context(), j, effect("x")) }), "*sql.Tx")
	assert.EqualValues(t, 1, trips(func(j ordering.Job[*ordering.Event]) error { return store.Commit(t.Context(), j.Record()) }), "Commit")
	assert.EqualValues(t, 1, trips(func(j ordering.Job[*ordering.Event]) error {
		j.Reply([]byte("reply"))
		return postgres.Do(t.Context(), store, j, pgxEffects["Queue"])
	}), "with a reply")
}

// TestRoundTripsOfAChain: it costs those of its statements and one more, of all events
// together; none if they are queued.
func TestRoundTripsOfAChain(t *testing.T) {
	for name, want := range map[string]int64{"Exec": 5 + 1, "Queue": 1} {
		store, link := linked(t)
		var before, after int64
		run := func(from uint64) {
			var jobs []ordering.Job[*ordering.Event]
			for n := from; n < from+5; n++ {
				jobs = append(jobs, job(t, store, "a", n))
			}
			for i, j := range jobs { // with the latest token
				jobs[i] = ordering.NewJob(in(t, store), j.Event, jobs[len(jobs)-1].Record().Fences)
			}
			before = link.RoundTrips()
			require.NoError(t, store.Together(t.Context(), func(ctx context.Context) error {
				for _, j := range jobs {
					if err := postgres.Do(ctx, store, j, pgxEffects[name]); err != nil {
						return err
					}
				}
				return nil
			}))
			after = link.RoundTrips()
			assert.Equal(t, from+4, last(t, store, "a"))
		}
		for n := range uint64(3) {
			run(5*n + 1)
		}
		assert.Equal(t, want, after-before, name)
		assert.Equal(t, 15, effects(t, store))
	}
}

// TestRoundTripsOfACommand: it is looked up, and then it costs what an event costs.
func TestRoundTripsOfACommand(t *testing.T) {
	store, link := linked(t)
	seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: store, Together: store.Together,
		Keys: func(_ ordering.Job[*ordering.Event], claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("a"))
			return nil
		},
		Handler: postgres.InTx(store, func(ctx context.Context, tx *postgres.Tx, job ordering.Job[*ordering.Event]) error {
			job.Reply([]byte(job.Event.ID))
			return pgxEffects["Exec"](ctx, tx)
		}),
		Dispatcher: dispatcher.Config[ordering.Job[*ordering.Event]]{Workers: 1},
	})
	require.NoError(t, err)
	defer seq.Close()
	var trips int64
	for n := range 4 {
		before := link.RoundTrips()
		id := fmt.Sprint("command-", n)
		o, err := seq.Do(t.Context(), &ordering.Event{ID: id})
		require.NoError(t, err)
		assert.Equal(t, id, string(o.Reply))
		trips = link.RoundTrips() - before
	}
	assert.EqualValues(t, 1+2, trips)
}

// TestRoundTripsOfAcquiring: that of all streams of a new term is one, with what is done
// above their last numbers and what is held of them.
func TestRoundTripsOfAcquiring(t *testing.T) {
	s, err := server()
	require.NoError(t, err)
	url := s.Database(t)
	store := closed(t)(postgres.Open(t.Context(), url))
	keys := []lockkeys.Key{lockkeys.Must("a"), lockkeys.Must("b"), lockkeys.Must("c"), lockkeys.Must("d")}
	term := in(t, store)
	states, err := term.Acquire(t.Context(), keys)
	require.NoError(t, err)
	commit := func(stream, n int) {
		e := &ordering.Event{Positions: []ordering.Position{{Stream: keys[stream], Number: uint64(n)}}}
		require.NoError(t, store.Do(t.Context(), ordering.NewJob(term, e, []int64{states[stream].Fence}), func(context.Context, *sql.Tx) error { return nil }))
	}
	for _, n := range []int{1, 3, 4, 7} {
		commit(0, n)
		commit(1, n+1)
	}
	require.NoError(t, term.Hold(t.Context(), []*ordering.Event{{Positions: []ordering.Position{{Stream: keys[2], Number: 9}}}}, ordering.Fences{keys[2]: states[2].Fence}))

	link, through := s.Link(t, url)
	another, err := postgres.Open(t.Context(), through)
	require.NoError(t, err)
	defer another.Close()
	heir, err := another.Begin(t.Context(), ordering.Consumer{Partition: term.Info().Partition})
	require.NoError(t, err)
	before := link.RoundTrips()
	states, err = heir.Acquire(t.Context(), keys)
	require.NoError(t, err)
	assert.EqualValues(t, 1, link.RoundTrips()-before)
	assert.Equal(t, ordering.Spans{{From: 3, To: 4}, {From: 7, To: 7}}, states[0].Done)
	assert.Equal(t, ordering.Spans{{From: 2, To: 2}, {From: 4, To: 5}, {From: 8, To: 8}}, states[1].Done)
	assert.Equal(t, []uint64{1, 0, 0, 0}, []uint64{states[0].Last, states[1].Last, states[2].Last, states[3].Last})
	assert.EqualValues(t, 9, states[2].HeldAt)
}
