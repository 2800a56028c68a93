package sqlstore_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/internal/sqldb"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// dataByID is what a database has in which events are known by their IDs: done
// are a 1 to 5 and b 1 to 3 and 7. Of a, 1 is that of "x", 2 that of "both" with
// b 1, 3 and 4 were skipped, and 5 was given up; what became of b 2 and 3 was
// pruned, 7 is that of "é". "x", an ID that was used twice, has failed with a 6
// and b 4, and is parked, and "behind" is held behind it; "waits" is held on c,
// which is not parked. What was done of d is contradictory: two job states have
// the same number.
const dataByID = `
	INSERT INTO ordering_streams (stream, last, spans, fence, parking, closed_at) VALUES
		('a', 5, 0, 3, 'p', 6), ('b', 3, 1, 4, 'p', 4), ('c', 0, 0, 5, '', 0), ('d', 1, 0, 6, '', 0);
	INSERT INTO ordering_done (stream, first, last) VALUES ('b', 7, 7);
	INSERT INTO ordering_jobs (event, positions, status, attempts, error, started, ended) VALUES
		('a=1', '[{"stream":"a","number":1}]', 1, 1, '', 1000000, 2000000),
		('both', '[{"stream":"b","number":1},{"stream":"a","number":2}]', 1, 2, 'first', 1000000, 2000000),
		('a=3-4', '[{"stream":"a","number":3},{"stream":"a","number":4}]', 4, 0, 'never sent', 3000000, 3000000),
		('given', '[{"stream":"a","number":5,"end":true}]', 3, 5, 'no money', 1000000, 2000000),
		('é', '[{"stream":"b","number":7}]', 1, 1, '', 1000000, 2000000),
		('x', '[{"stream":"b","number":4},{"stream":"a","number":6}]', 2, 3, 'failed', 1000000, 4000000),
		('d1', '[{"stream":"d","number":1}]', 3, 1, 'contradicts', 1000000, 2000000),
		('d1 too', '[{"stream":"d","number":1}]', 1, 1, '', 1000000, 2000000);
	INSERT INTO ordering_held (event, body, attempts, started) VALUES
		('x', '{"id":"x","positions":[{"stream":"b","number":4},{"stream":"a","number":6}],"payload":"AQI="}', 3, 1000000),
		('behind', '{"id":"behind","positions":[{"stream":"a","number":7}]}', 0, 0),
		('waits', '{"id":"waits","positions":[{"stream":"c","number":1}]}', 0, 0);
	INSERT INTO ordering_held_positions (stream, number, event) VALUES ('b', 4, 'x'), ('a', 6, 'x'), ('a', 7, 'behind'), ('c', 1, 'waits');
	INSERT INTO ordering_parkings (id, since, body) VALUES
		('p', 4000000, '{"ID":"p","Reason":1,"Streams":null,"Events":[{"id":"x","positions":[{"stream":"b","number":4},{"stream":"a","number":6}],"payload":"AQI=","Attempts":3,"Started":"1970-01-01T00:00:01Z"}],"Gap":{"stream":"/","from":0,"to":0},"Error":"failed","Since":"1970-01-01T00:00:04Z"}');
	INSERT INTO ordering_parked_events (parking, event) VALUES ('p', 'x')`

// TestEventsThatWereKnownByTheirIDs are known by their numbers once a database of
// the first version was opened, and nothing of it is lost.
func TestEventsThatWereKnownByTheirIDs(t *testing.T) {
	test := func(t *testing.T, d sqldb.Dialect, driver, source string, open func() (*sqlstore.Store, error)) {
		db, err := sql.Open(driver, source)
		require.NoError(t, err)
		require.NoError(t, sqldb.Migrate(t.Context(), db, d, "ordering", sqlstore.Steps(d)[:1]))
		_, err = db.Exec(dataByID)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		store, err := open()
		require.NoError(t, err)
		checkDataByNumbers(t, store)
		require.NoError(t, store.Close())
		store, err = open() // not again
		require.NoError(t, err)
		require.NoError(t, store.Close())
	}
	t.Run("SQLite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "positions.db")
		test(t, sqldb.SQLite, "sqlite", path, func() (*sqlstore.Store, error) { return sqlite.Open(t.Context(), path) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := database(t)
		test(t, sqldb.PostgreSQL, "pgx", url, func() (*sqlstore.Store, error) { return postgres.Open(t.Context(), url) })
	})
}

func checkDataByNumbers(t *testing.T, store *sqlstore.Store) {
	ctx := t.Context()
	streams := []lockkeys.Key{lockkeys.Must("a"), lockkeys.Must("b"), lockkeys.Must("c"), lockkeys.Must("d")}
	at := func(text string) []ordering.Position {
		positions, err := ordering.ParseSequenceID(text, lockkeys.Root())
		require.NoError(t, err)
		return positions
	}
	states, err := store.Acquire(ctx, streams)
	require.NoError(t, err)
	fences := ordering.Fences{}
	for i, key := range streams {
		fences[key] = states[i].Fence
	}
	assert.EqualValues(t, []uint64{5, 3, 0, 1}, []uint64{states[0].Last, states[1].Last, states[2].Last, states[3].Last})
	assert.EqualValues(t, []uint64{6, 4, 1, 0}, []uint64{states[0].HeldAt, states[1].HeldAt, states[2].HeldAt, states[3].HeldAt})
	assert.Equal(t, []string{"p", "p", ""}, []string{states[0].Parked, states[1].Parked, states[2].Parked})

	known, err := store.Look(ctx, at("a=2, b=1"))
	require.NoError(t, err)
	assert.Nil(t, known[1].Job, "it is kept under the first number")
	for _, p := range []string{"a=5", "b=1", "b=7", "d=1"} { // what was pruned before is not known
		known, err := store.Look(ctx, at(p))
		require.NoError(t, err)
		assert.True(t, known[0].Pruned, p)
	}
	all := map[string]string{}
	for _, p := range []string{"a=1", "a=2", "a=3", "a=4", "a=5", "a=6", "b=1", "b=2", "b=4", "b=7", "c=1", "d=1"} {
		known, err := store.Look(ctx, at(p))
		require.NoError(t, err)
		if all[p] = "-"; known[0].Job != nil {
			all[p] = known[0].Job.Event + ", " + known[0].Job.Status.String()
			assert.Equal(t, ordering.Hash{}, known[0].Job.Hash)
		}
	}
	assert.Equal(t, map[string]string{
		"a=1": "a=1, processed", "a=2": "both, processed", "a=3": "a=3-4, never came", "a=4": "a=3-4, never came", "a=5": "given, given up",
		"a=6": "x, failed", "b=1": "-", "b=2": "-", "b=4": "-", "b=7": "é, processed", "c=1": "-", "d=1": "d1 too, processed",
	}, all)
	assert.True(t, known[0].Job.IsOf(&ordering.Event{ID: "both", Positions: at("a=2, b=1"), Payload: []byte("whatever it was")}))
	assert.Equal(t, 2, known[0].Job.Attempts)

	parked, err := store.Parked(ctx)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	assert.Equal(t, "x", parked[0].Events[0].ID)
	backlog, err := store.Backlog(ctx)
	require.NoError(t, err)
	assert.Equal(t, streams[2:3], backlog)
	held, err := store.Held(ctx, streams[0], 1, 9, 1<<20)
	require.NoError(t, err)
	require.Len(t, held, 2)
	assert.Equal(t, "x", held[0].ID)
	assert.Equal(t, []byte{1, 2}, held[0].Payload)
	assert.Equal(t, 3, held[0].Attempts)
	assert.Equal(t, "behind", held[1].ID)

	n, err := store.Prune(ctx, parked[0].Since.Add(1))
	require.NoError(t, err)
	assert.EqualValues(t, 6, n) // all but the failure, and one that was lost above
	x := held[0].Event
	require.NoError(t, store.Park(ctx, parked[0], fences))
	record := ordering.NewJob(x, []int64{fences[streams[1]], fences[streams[0]]}).Record()
	record.Held = true
	require.NoError(t, store.Commit(ctx, record))
	more := &ordering.Event{ID: "x", Positions: at("a=8")}
	require.NoError(t, store.Hold(ctx, []*ordering.Event{more}, fences))
	held, err = store.Held(ctx, streams[0], 1, 9, 1<<20)
	require.NoError(t, err)
	require.Len(t, held, 2)
	assert.Equal(t, more, held[1].Event)
}
