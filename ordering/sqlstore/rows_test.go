package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

var (
	logRows  = sqlstore.NewRows(`INSERT INTO log (event, part)`, 2, "")
	lastRows = sqlstore.NewRows(`INSERT INTO latest (name, value)`, 2, `ON CONFLICT (name) DO UPDATE SET value = excluded.value`)
)

// rowBook is a store with tables for rows, and events for it.
type rowBook struct {
	t     *testing.T
	store *sqlstore.Store
	term  ordering.Term
	fence map[string]int64
	mu    sync.Mutex
}

func newRowBook(t *testing.T, store *sqlstore.Store) *rowBook {
	t.Helper()
	require.NoError(t, store.Migrate(t.Context(), "rows", []string{
		`CREATE TABLE log (event TEXT NOT NULL, part INTEGER NOT NULL, UNIQUE (event, part)); CREATE TABLE latest (name TEXT PRIMARY KEY, value INTEGER NOT NULL)`,
	}))
	return &rowBook{t: t, store: store, term: in(t, store), fence: map[string]int64{}}
}

// job is the event with a number on a stream.
func (b *rowBook) job(stream string, number uint64) ordering.Job[*ordering.Event] {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := lockkeys.Must(stream)
	if _, ok := b.fence[stream]; !ok {
		states, err := b.term.Acquire(b.t.Context(), []lockkeys.Key{key})
		require.NoError(b.t, err)
		b.fence[stream] = states[0].Fence
	}
	e := &ordering.Event{ID: fmt.Sprint(stream, number), Positions: []ordering.Position{{Stream: key, Number: number}}}
	return ordering.NewJob(b.term, e, []int64{b.fence[stream]})
}

// do commits an event with so many rows in the log, and its number as the latest.
func (b *rowBook) do(ctx context.Context, stream string, number uint64, rows int) error {
	job := b.job(stream, number)
	var batch sqlstore.Batch
	for i := range rows {
		batch.Add(logRows, job.Event.ID, i)
	}
	batch.Add(lastRows, stream, int64(number))
	return b.store.DoRows(ctx, job, &batch)
}

// count counts rows, by a connection for reads.
func (b *rowBook) count(query string, args ...any) (n int) {
	b.t.Helper()
	require.NoError(b.t, b.store.DB().QueryRowContext(b.t.Context(), query, args...).Scan(&n))
	return n
}

func (b *rowBook) last(stream string) uint64 {
	b.t.Helper()
	states, err := b.term.Look(b.t.Context(), []ordering.Position{{Stream: lockkeys.Must(stream), Number: 1}})
	require.NoError(b.t, err)
	return states[0].Last
}

// Whatever the number of rows, all are there once DoRows has returned, with the numbers.
func TestRows(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		b := newRowBook(t, open())
		all := 0
		for i, rows := range []int{0, 1, 2, 31, 32, 33, 100} {
			all += rows
			number := uint64(i + 1)
			require.NoError(t, b.do(t.Context(), "a", number, rows))
			assert.Equal(t, all, b.count(`SELECT count(*) FROM log`))
			assert.EqualValues(t, number, b.count(`SELECT value FROM latest WHERE name = 'a'`))
			assert.Equal(t, number, b.last("a"))
		}
		require.ErrorIs(t, b.do(t.Context(), "a", 3, 0), ordering.ErrDuplicate)
		assert.Equal(t, all, b.count(`SELECT count(*) FROM log`))
	})
}

// A row with too few or too many values would shift those behind it.
func TestRowsOfAnotherWidth(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		b := newRowBook(t, open())
		for want, add := range map[string]func(*sqlstore.Batch){
			"1 values for a row of 2 columns: \"INSERT INTO log": func(batch *sqlstore.Batch) { batch.Add(logRows, "a1") },
			"3 values for a row of 2 columns":                    func(batch *sqlstore.Batch) { batch.Add(logRows, "a1", 1, 2) },
			"0 values for a row of 2 columns":                    func(batch *sqlstore.Batch) { batch.Add(logRows) },
			"the statement is nil":                               func(batch *sqlstore.Batch) { batch.Add(nil, 1) },
		} {
			var batch sqlstore.Batch
			batch.Add(logRows, "a1", 0)
			add(&batch)
			batch.Add(logRows, "a1", 9)
			require.ErrorContains(t, b.store.DoRows(t.Context(), b.job("a", 1), &batch), want)
			require.ErrorContains(t, b.store.TogetherRows(t.Context(), func(ctx context.Context) error {
				return b.store.DoRows(ctx, b.job("a", 1), &batch)
			}), want)
		}
		assert.Zero(t, b.count(`SELECT count(*) FROM log`))
		assert.Zero(t, b.last("a"))
		require.NoError(t, b.store.DoRows(t.Context(), b.job("a", 1), nil), "no rows")
		assert.EqualValues(t, 1, b.last("a"))
	})
	assert.PanicsWithValue(t, `sqlstore: NewRows: 0 columns: there must be at least one ("INSERT INTO log")`,
		func() { sqlstore.NewRows("INSERT INTO log", 0, "") })
}

// Rows of many events, with effects in transactions and other writes in between, of
// which some fail: each event is written whole or not at all, and the others do not
// suffer.
func TestRowsBesideOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		b := newRowBook(t, open())
		const streams, numbers = 8, 20
		var all sync.WaitGroup
		for s := range streams {
			stream := fmt.Sprint("s", s)
			all.Go(func() {
				for n := uint64(1); n <= numbers; n++ {
					job := b.job(stream, n)
					switch (uint64(s) + n) % 5 {
					case 0: // a row that is there already
						var twice sqlstore.Batch
						twice.Add(logRows, job.Event.ID, 0)
						twice.Add(logRows, job.Event.ID, 0)
						assert.Error(t, b.store.DoRows(t.Context(), job, &twice))
						assert.NotErrorIs(t, b.store.DoRows(t.Context(), job, &twice), ordering.ErrDuplicate)
						assert.NoError(t, b.do(t.Context(), stream, n, 3))
					case 1:
						assert.NoError(t, b.store.Do(t.Context(), job, func(ctx context.Context, tx *sql.Tx) error {
							_, err := tx.ExecContext(ctx, `INSERT INTO latest (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`, stream, int64(n))
							return err
						}))
					case 2: // it sees what was staged before it
						assert.NoError(t, b.do(t.Context(), stream, n, 3))
						assert.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
							found := uint64(0)
							err := tx.QueryRowContext(ctx, `SELECT value FROM latest WHERE name = $1`, stream).Scan(&found)
							if err == nil && found != n {
								err = fmt.Errorf("%d instead of %d", found, n)
							}
							return err
						}))
					default:
						assert.NoError(t, b.do(t.Context(), stream, n, 3))
					}
				}
			})
		}
		all.Wait()
		for s := range streams {
			stream := fmt.Sprint("s", s)
			assert.EqualValues(t, numbers, b.last(stream))
			assert.Equal(t, numbers, b.count(`SELECT value FROM latest WHERE name = $1`, stream))
			assert.Equal(t, numbers/5*4*3, b.count(`SELECT count(*) FROM log WHERE event LIKE $1`, stream+"%"))
		}
	})
}

// Within TogetherRows all are written, or none.
func TestRowsTogether(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		b := newRowBook(t, open())
		chain := func(from, to uint64, end error) error {
			return b.store.TogetherRows(t.Context(), func(ctx context.Context) error {
				for n := from; n <= to; n++ {
					if err := b.do(ctx, "a", n, 2); err != nil {
						return err
					}
					assert.EqualValues(t, from-1, b.last("a"), "nothing is written yet")
				}
				return end
			})
		}
		require.NoError(t, chain(1, 3, nil))
		assert.EqualValues(t, 3, b.last("a"))
		assert.Equal(t, 6, b.count(`SELECT count(*) FROM log`))
		assert.Equal(t, 3, b.count(`SELECT value FROM latest`))

		require.ErrorIs(t, chain(4, 6, assert.AnError), assert.AnError)
		require.NoError(t, b.store.TogetherRows(t.Context(), func(context.Context) error { return nil }))
		assert.EqualValues(t, 3, b.last("a"))
		require.NoError(t, b.do(t.Context(), "a", 5, 1)) // without 4
		require.ErrorIs(t, b.store.TogetherRows(t.Context(), func(ctx context.Context) error {
			require.NoError(t, b.do(ctx, "a", 4, 1))
			require.NoError(t, b.do(ctx, "a", 5, 0))
			return nil
		}), ordering.ErrDuplicate)
		assert.EqualValues(t, 3, b.last("a"))
		assert.Equal(t, 7, b.count(`SELECT count(*) FROM log`))

		nothing := func(context.Context, *sql.Tx) error { return nil }
		_ = b.store.TogetherRows(t.Context(), func(ctx context.Context) error {
			require.ErrorIs(t, b.store.Do(ctx, b.job("b", 1), nothing), sqlstore.ErrTogether)
			require.ErrorIs(t, b.store.Commit(ctx, b.job("b", 1).Record()), sqlstore.ErrTogether)
			require.ErrorIs(t, b.store.Write(ctx, nothing), sqlstore.ErrTogether)
			assert.Nil(t, b.store.TogetherTx(ctx))
			return assert.AnError
		})
		_ = b.store.Together(t.Context(), func(ctx context.Context) error {
			require.ErrorIs(t, b.do(ctx, "b", 1, 1), sqlstore.ErrTogether)
			return assert.AnError
		})
		assert.Zero(t, b.last("b"))
	})
}

// What a store knows of its streams counts for nothing once another one has the
// database.
func TestRowsOfAPreviousOwner(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		before := newRowBook(t, open())
		require.NoError(t, before.do(t.Context(), "a", 1, 1))
		after := newRowBook(t, open())
		require.NoError(t, after.do(t.Context(), "a", 2, 1))
		require.ErrorIs(t, before.do(t.Context(), "a", 2, 0), ordering.ErrFenced)
		require.ErrorIs(t, before.do(t.Context(), "a", 3, 0), ordering.ErrFenced)
		require.NoError(t, after.do(t.Context(), "a", 3, 1))
		assert.Equal(t, 3, after.count(`SELECT count(*) FROM log`))
	})
}

// TestAnOlderCopyIsRestored: what a store knows of a stream does not hide that the
// database has been set back, while it is open.
func TestAnOlderCopyIsRestored(t *testing.T) {
	path := empty(t)
	store := closed(t)(sqlite.Open(t.Context(), path))
	term := in(t, store)
	key := lockkeys.Must("a")
	states, err := term.Acquire(t.Context(), []lockkeys.Key{key})
	require.NoError(t, err)
	record := func(number uint64) ordering.Record {
		e := &ordering.Event{ID: fmt.Sprint("e", number), Positions: []ordering.Position{{Stream: key, Number: number}}}
		r := ordering.NewJob(term, e, []int64{states[0].Fence}).Record()
		r.Known = []uint64{number - 1}
		return r
	}
	for number := range uint64(3) {
		require.NoError(t, store.Commit(t.Context(), record(number+1)))
	}
	other, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer other.Close()
	_, err = other.ExecContext(t.Context(), `UPDATE ordering_streams SET last = 1; DELETE FROM ordering_jobs WHERE number > 1`)
	require.NoError(t, err)
	var lost *ordering.LostError
	require.ErrorAs(t, store.Commit(t.Context(), record(4)), &lost)
	require.EqualValues(t, 3, lost.Known)
	require.EqualValues(t, 1, lost.Has)
	require.NoError(t, store.Commit(t.Context(), record(2)))
	require.NoError(t, store.Commit(t.Context(), record(3)))
	require.NoError(t, store.Commit(t.Context(), record(4)))
}
