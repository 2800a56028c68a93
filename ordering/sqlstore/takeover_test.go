package sqlstore_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// TestWhatTheOneBeforeSees when another store has the database, on SQLite, or a
// stream of it, on PostgreSQL: it writes nothing there any more, by any method,
// and reads what the other writes.
func TestWhatTheOneBeforeSees(t *testing.T) {
	everywhere(t, func(t *testing.T, open func() *sqlstore.Store) {
		first := open()
		lost, kept := job(t, first, "lost", 1), job(t, first, "kept", 1)
		key := lockkeys.Must("lost")
		fences := ordering.Fences{key: lost.Record().Fences[0]}
		entered, leave, told := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		under := job(t, first, "under way", 1)
		go func() {
			told <- first.Do(t.Context(), under, func(ctx context.Context, tx *sql.Tx) error {
				close(entered)
				<-leave
				return effect("under way")(ctx, tx)
			})
		}()
		<-entered
		opened := make(chan *sqlstore.Store, 1)
		if first.MaxHandlers() > 0 { // PostgreSQL, where opening waits for nobody
			opened <- open()
			close(leave)
		} else {
			go func() { opened <- open() }()
			close(leave)
		}
		require.NoError(t, <-told, "what is under way counts")
		second := <-opened
		taken := job(t, second, "lost", 1)
		assert.EqualValues(t, 1, last(t, second, "under way"))

		refused := map[string]error{
			"Do":     first.Do(t.Context(), lost, effect("zombie")),
			"Commit": first.Commit(t.Context(), lost.Record()),
			"Skip":   in(t, first).Skip(t.Context(), ordering.Skipped{Stream: key, From: 1, To: 1, Fence: fences[key], Time: time.Now()}),
			"Hold":   in(t, first).Hold(t.Context(), []*ordering.Event{lost.Event}, fences),
			"Park":   in(t, first).Park(t.Context(), []ordering.Parking{{ID: "p", Reason: ordering.Gap, Streams: []ordering.ParkedStream{{Stream: key, Number: 1}}, Since: time.Now()}}, fences),
			"Unpark": in(t, first).Unpark(t.Context(), []string{"p"}, fences),
		}
		for name, err := range refused {
			require.ErrorIs(t, err, ordering.ErrFenced, name)
		}
		err := first.Do(t.Context(), kept, effect("kept"))
		if first.MaxHandlers() > 0 {
			require.NoError(t, err, "nobody has taken that one")
		} else {
			require.ErrorIs(t, err, ordering.ErrFenced, "all of them are gone")
		}
		require.NoError(t, second.Do(t.Context(), taken, effect("heir")))
		assert.Equal(t, 1, count(t, first, "heir"))
		assert.Zero(t, count(t, first, "zombie"))
	})
}
