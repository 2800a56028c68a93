package sqlstore_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
	"github.com/interlock-go/interlock/ordering/sqlstore/postgres"
	"github.com/interlock-go/interlock/ordering/sqlstore/sqlite"
)

// A tool looks at the store of a service that works: it sees what is parked, and who
// works, and the service does not notice.
func TestReadOnly(t *testing.T) {
	look := func(t *testing.T, store *sqlstore.Store, open func() (*sqlstore.ReadOnly, error)) {
		first, second := job(t, store, "a", 1), job(t, store, "b", 1)
		require.NoError(t, store.Do(t.Context(), first, effect("before")))
		key := lockkeys.Must("b")
		failed := ordering.HeldEvent{Event: second.Event, Attempts: 3, Started: time.Now()}
		fences := ordering.Fences{key: second.Record().Fences[0]}
		require.NoError(t, in(t, store).Hold(t.Context(), []*ordering.Event{second.Event}, fences))
		require.NoError(t, in(t, store).Park(t.Context(), []ordering.Parking{{ID: "p", Reason: ordering.Failure, Since: time.Now(), Error: "no money",
			Streams: []ordering.ParkedStream{{Stream: key, Number: 1}}, Events: []ordering.HeldEvent{failed}}}, fences))

		r, err := open()
		require.NoError(t, err)
		defer func() { assert.NoError(t, r.Close()) }()
		parked, err := r.Reader("").Parked(t.Context())
		require.NoError(t, err)
		require.Len(t, parked, 1)
		assert.Equal(t, "no money", parked[0].Error)
		assert.EqualValues(t, 1, parked[0].Streams[0].Waiting)
		held, err := r.Reader("").Held(t.Context(), key, 1, 10, 1<<20)
		require.NoError(t, err)
		assert.Len(t, held, 1)
		none, err := r.Reader("nobody").Parked(t.Context())
		require.NoError(t, err)
		assert.Empty(t, none)
		terms, err := r.Terms(t.Context())
		require.NoError(t, err)
		require.Len(t, terms, 1)
		assert.Equal(t, in(t, store).Info().Holder, terms[0].Holder)
		assert.Equal(t, in(t, store).Info().Number, terms[0].Number)
		_, err = r.DB().Exec(`INSERT INTO effects (event) VALUES ('by the tool')`)
		require.Error(t, err)

		t.Log("the service goes on, and what it does is seen")
		after := job(t, store, "a", 2)
		require.NoError(t, store.Do(t.Context(), after, effect("after")))
		var n int
		require.NoError(t, r.DB().QueryRow(`SELECT count(*) FROM effects`).Scan(&n))
		assert.Equal(t, 2, n)

		require.NoError(t, r.Close())
		_, err = r.Reader("").Parked(t.Context())
		require.ErrorIs(t, err, ordering.ErrStoreClosed)
	}
	t.Run("SQLite", func(t *testing.T) {
		path := empty(t)
		look(t, closed(t)(sqlite.Open(t.Context(), path)), func() (*sqlstore.ReadOnly, error) { return sqlite.OpenReadOnly(t.Context(), path) })
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		url := database(t)
		look(t, closed(t)(postgres.Open(t.Context(), url)), func() (*sqlstore.ReadOnly, error) { return postgres.OpenReadOnly(t.Context(), url) })
	})
}

// What is no store, or not one of this version, is refused and not changed.
func TestReadOnlyOfAnother(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing.db")
	_, err := sqlite.OpenReadOnly(t.Context(), missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	assert.NoFileExists(t, missing)

	_, err = postgres.OpenReadOnly(t.Context(), database(t))
	require.ErrorIs(t, err, ordering.ErrSchema)
	require.ErrorContains(t, err, "there are no tables of ordering")

	for name, change := range map[string]string{"version 99": `+ 90`, "let the service migrate it": `- 1`} {
		path := empty(t)
		store, err := sqlite.Open(t.Context(), path)
		require.NoError(t, err)
		require.NoError(t, store.Migrate(t.Context(), "spoil", []string{`UPDATE schema_versions SET version = version ` + change + ` WHERE component = 'ordering'`}))
		require.NoError(t, store.Close())
		_, err = sqlite.OpenReadOnly(t.Context(), path)
		require.ErrorIs(t, err, ordering.ErrSchema, name)
	}
}
