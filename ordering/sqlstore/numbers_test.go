package sqlstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// TestNumbersWrittenTogether: what chains leave in the tables is what the same events
// leave that are committed one by one, in whatever order their numbers become done.
func TestNumbersWrittenTogether(t *testing.T) {
	streams := []lockkeys.Key{lockkeys.Must("a"), lockkeys.Must("b"), lockkeys.Must("c")}
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		var events []*ordering.Event
		next := map[lockkeys.Key]uint64{}
		for i := range 30 {
			e := &ordering.Event{ID: fmt.Sprint("e", i)}
			for _, s := range r.Perm(len(streams))[:1+r.IntN(2)] {
				next[streams[s]]++
				e.Positions = append(e.Positions, ordering.Position{Stream: streams[s], Number: next[streams[s]]})
			}
			events = append(events, e)
		}
		for _, e := range events { // some streams end
			for i, p := range e.Positions {
				e.Positions[i].End = p.Stream == streams[seed%3] && p.Number == next[p.Stream]
			}
		}
		for i := range events { // late ones by a few places
			j := min(len(events)-1, i+r.IntN(4))
			events[i], events[j] = events[j], events[i]
		}
		tables := func(chain func() int) (text string) {
			store := closed(t)(sqlite.Open(t.Context(), empty(t)))
			states, err := in(t, store).Acquire(t.Context(), streams)
			require.NoError(t, err)
			do := func(ctx context.Context, e *ordering.Event) error {
				var fences []int64
				for _, p := range e.Positions {
					for i, s := range streams {
						if s == p.Stream {
							fences = append(fences, states[i].Fence)
						}
					}
				}
				return store.Do(ctx, ordering.NewJob(in(t, store), e, fences), effect(e.ID))
			}
			for rest := events; len(rest) > 0; {
				n := min(chain(), len(rest))
				if n == 0 {
					require.NoError(t, do(t.Context(), rest[0]))
					rest = rest[1:]
					continue
				}
				require.NoError(t, store.Together(t.Context(), func(ctx context.Context) error {
					for _, e := range rest[:n] {
						if err := do(ctx, e); err != nil {
							return err
						}
					}
					return nil
				}))
				rest = rest[n:]
			}
			return dump(t, store, `SELECT stream, last, spans, ended FROM ordering_streams ORDER BY stream`) +
				dump(t, store, `SELECT stream, first, last FROM ordering_done ORDER BY stream, first`) +
				dump(t, store, `SELECT stream, number, event, status FROM ordering_jobs ORDER BY stream, number`)
		}
		alone := tables(func() int { return 0 })
		require.Equal(t, alone, tables(func() int { return r.IntN(8) }), "seed %d", seed)
		require.Contains(t, alone, "e29")
	}
}

// dump returns the rows of a query as text.
func dump(t *testing.T, store *sqlstore.Store, query string) (text string) {
	rows, err := store.DB().QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	names, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		values, places := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			places[i] = &values[i]
		}
		require.NoError(t, rows.Scan(places...))
		text += fmt.Sprintln(values...)
	}
	require.NoError(t, rows.Err())
	return text
}
