package sqlstore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

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

// dataByNumbers is what the second version has beside that, of streams e and f: of
// e, 1 has a hash, 2 was given up with f 1, 3 to 9 were skipped, and 12 is done as
// well. Its tokens are larger than those of SQLite have been.
const dataByNumbers = `
	INSERT INTO ordering_streams (stream, last, spans, fence, pruned) VALUES ('e', 9, 1, 70, 0), ('f', 1, 0, 80, 0);
	INSERT INTO ordering_done (stream, first, last) VALUES ('e', 12, 12);
	INSERT INTO ordering_jobs (stream, number, event, hash, positions, status, attempts, error, started, ended) VALUES
		('e', 1, 'e1', %s, '', 1, 1, '', 1000000, 9000000),
		('e', 2, 'both', '', '[{"stream":"f","number":1},{"stream":"e","number":2}]', 3, 2, 'no money', 1000000, 9000000),
		('e', 12, 'e12', '', '', 1, 1, '', 1000000, 9000000);
	INSERT INTO ordering_skips (stream, first, last, reason, ended) VALUES ('e', 3, 9, 'never sent', 9000000)`

// TestADatabaseOfAnOlderVersion keeps all that it has, for the consumer "default",
// whose events are known by their numbers.
func TestADatabaseOfAnOlderVersion(t *testing.T) {
	test := func(t *testing.T, version int, d sqldb.Dialect, driver, source string, open func() (*sqlstore.Store, error)) {
		db, err := sql.Open(driver, source)
		require.NoError(t, err)
		require.NoError(t, sqldb.Migrate(t.Context(), db, d, "ordering", sqlstore.Steps(d)[:1]))
		_, err = db.Exec(dataByID)
		require.NoError(t, err)
		if version == 2 {
			require.NoError(t, sqldb.Migrate(t.Context(), db, d, "ordering", sqlstore.Steps(d)[:2]))
			hash := `x'000102030405060708090a0b0c0d0e0f'`
			if d == sqldb.PostgreSQL {
				hash = `'\x000102030405060708090a0b0c0d0e0f'`
			}
			_, err = db.Exec(fmt.Sprintf(dataByNumbers, hash))
			require.NoError(t, err)
		}
		require.NoError(t, db.Close())
		store, err := open()
		require.NoError(t, err)
		if version == 2 {
			checkDataOfConsumer(t, store)
		} else {
			checkDataByNumbers(t, store)
		}
		require.NoError(t, store.Close())
		store, err = open() // not again
		require.NoError(t, err)
		require.NoError(t, store.Close())
	}
	for version := 1; version <= 2; version++ {
		t.Run(fmt.Sprint("SQLite ", version), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "positions.db")
			test(t, version, sqldb.SQLite, "sqlite", path, func() (*sqlstore.Store, error) { return sqlite.Open(t.Context(), path) })
		})
		t.Run(fmt.Sprint("PostgreSQL ", version), func(t *testing.T) {
			url := database(t)
			test(t, version, sqldb.PostgreSQL, "pgx", url, func() (*sqlstore.Store, error) { return postgres.Open(t.Context(), url) })
		})
	}
}

// checkDataOfConsumer checks what the second version had more.
func checkDataOfConsumer(t *testing.T, store *sqlstore.Store) {
	ctx := t.Context()
	e, f := lockkeys.Must("e"), lockkeys.Must("f")
	other, err := store.Begin(ctx, ordering.Consumer{Name: "another"})
	require.NoError(t, err)
	states, err := other.Acquire(ctx, []lockkeys.Key{e})
	require.NoError(t, err)
	assert.Equal(t, ordering.StreamState{Fence: states[0].Fence}, states[0], "it is nobody else's")
	parked, err := other.Parked(ctx)
	require.NoError(t, err)
	assert.Empty(t, parked)

	checkDataByNumbers(t, store) // which begins the first term of "default"
	term, err := store.Begin(ctx, ordering.Consumer{})
	require.NoError(t, err)
	assert.EqualValues(t, 2, term.Info().Number)
	states, err = term.Acquire(ctx, []lockkeys.Key{e, f})
	require.NoError(t, err)
	assert.Greater(t, min(states[0].Fence, states[1].Fence), int64(80))
	assert.EqualValues(t, 9, states[0].Last)
	assert.Equal(t, ordering.Spans{{From: 12, To: 12}}, states[0].Done)
	known, err := term.Look(ctx, []ordering.Position{{Stream: e, Number: 1}, {Stream: e, Number: 2}, {Stream: e, Number: 5}, {Stream: e, Number: 12}, {Stream: e, Number: 11}})
	require.NoError(t, err)
	assert.Equal(t, ordering.Hash{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, known[0].Job.Hash)
	assert.Equal(t, ordering.StatusDeadLettered, known[1].Job.Status)
	assert.Len(t, known[1].Job.Positions, 2)
	assert.Equal(t, "never sent", known[2].Job.Reason)
	assert.Equal(t, "e12", known[3].Job.Event)
	assert.False(t, known[4].Done)
	record := ordering.NewJob(term, &ordering.Event{Positions: []ordering.Position{{Stream: e, Number: 10}}}, []int64{states[0].Fence}).Record()
	record.Known = []uint64{9}
	require.NoError(t, term.Commit(ctx, record))
}

func checkDataByNumbers(t *testing.T, store *sqlstore.Store) {
	ctx := t.Context()
	term, err := store.Begin(ctx, ordering.Consumer{})
	require.NoError(t, err)
	require.Nil(t, term.Info().Previous)
	streams := []lockkeys.Key{lockkeys.Must("a"), lockkeys.Must("b"), lockkeys.Must("c"), lockkeys.Must("d")}
	at := func(text string) []ordering.Position {
		positions, err := ordering.ParseSequenceID(text, lockkeys.Root())
		require.NoError(t, err)
		return positions
	}
	states, err := term.Acquire(ctx, streams)
	require.NoError(t, err)
	fences := ordering.Fences{}
	for i, key := range streams {
		fences[key] = states[i].Fence
	}
	assert.EqualValues(t, []uint64{5, 3, 0, 1}, []uint64{states[0].Last, states[1].Last, states[2].Last, states[3].Last})
	assert.EqualValues(t, []uint64{6, 4, 1, 0}, []uint64{states[0].HeldAt, states[1].HeldAt, states[2].HeldAt, states[3].HeldAt})
	assert.Equal(t, []string{"p", "p", ""}, []string{states[0].Parked, states[1].Parked, states[2].Parked})

	known, err := term.Look(ctx, at("a=2, b=1"))
	require.NoError(t, err)
	assert.Nil(t, known[1].Job, "it is kept under the first number")
	for _, p := range []string{"a=5", "b=1", "b=7", "d=1"} { // what was pruned before is not known
		known, err := term.Look(ctx, at(p))
		require.NoError(t, err)
		assert.True(t, known[0].Pruned, p)
	}
	all := map[string]string{}
	for _, p := range []string{"a=1", "a=2", "a=3", "a=4", "a=5", "a=6", "b=1", "b=2", "b=4", "b=7", "c=1", "d=1"} {
		known, err := term.Look(ctx, at(p))
		require.NoError(t, err)
		if all[p] = "-"; known[0].Job != nil {
			all[p] = known[0].Job.Event + ", " + known[0].Job.Status.String()
			assert.Equal(t, ordering.Hash{}, known[0].Job.Hash)
		}
	}
	assert.Equal(t, map[string]string{
		"a=1": "a=1, applied", "a=2": "both, applied", "a=3": "a=3-4, skipped", "a=4": "a=3-4, skipped", "a=5": "given, dead-lettered",
		"a=6": "x, parked", "b=1": "-", "b=2": "-", "b=4": "-", "b=7": "é, applied", "c=1": "-", "d=1": "d1 too, applied",
	}, all)
	assert.True(t, known[0].Job.IsOf(&ordering.Event{ID: "both", Positions: at("a=2, b=1"), Payload: []byte("whatever it was")}))
	assert.Equal(t, 2, known[0].Job.Attempts)

	parked, err := term.Parked(ctx)
	require.NoError(t, err)
	require.Len(t, parked, 1)
	assert.Equal(t, "x", parked[0].Events[0].ID)
	assert.Equal(t, []ordering.ParkedStream{{Stream: streams[0], Number: 6, Waiting: 2}, {Stream: streams[1], Number: 4, Waiting: 1}}, parked[0].Streams)
	backlog, err := term.Backlog(ctx)
	require.NoError(t, err)
	assert.Equal(t, streams[2:3], backlog)
	held, err := term.Held(ctx, streams[0], 1, 9, 1<<20)
	require.NoError(t, err)
	require.Len(t, held, 2)
	assert.Equal(t, "x", held[0].ID)
	assert.Equal(t, []byte{1, 2}, held[0].Payload)
	assert.Equal(t, 3, held[0].Attempts)
	assert.Equal(t, "behind", held[1].ID)

	n, err := term.Prune(ctx, parked[0].Since.Add(1), time.Time{})
	require.NoError(t, err)
	assert.EqualValues(t, 6, n) // all but the failure, and one that was lost above
	x := held[0].Event
	require.NoError(t, term.Park(ctx, parked[:1], fences))
	record := ordering.NewJob(term, x, []int64{fences[streams[1]], fences[streams[0]]}).Record()
	record.Held = true
	require.NoError(t, term.Commit(ctx, record))
	more := &ordering.Event{ID: "x", Positions: at("a=8")}
	require.NoError(t, term.Hold(ctx, []*ordering.Event{more}, fences))
	held, err = term.Held(ctx, streams[0], 1, 9, 1<<20)
	require.NoError(t, err)
	require.Len(t, held, 2)
	assert.Equal(t, more, held[1].Event)
}
