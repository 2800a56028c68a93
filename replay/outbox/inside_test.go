package outbox

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Receivers that answer all at once may confirm more events than a statement may have
// arguments, 32,766 on SQLite. All are marked.
func TestMarksOfVeryManyEvents(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "outbox.db"))
	require.NoError(t, err)
	defer func() { assert.NoError(t, db.Close()) }()
	box, err := New(t.Context(), db, SQLite, Config{})
	require.NoError(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = box.Enqueue(t.Context(), tx, &ordering.Event{}, lockkeys.Must("a"))
	require.NoError(t, err)
	require.NoError(t, tx.Commit())
	relay, err := NewRelay(box, PublisherFunc(nil), RelayConfig{})
	require.NoError(t, err)

	const many = 33_000
	l := newLeader(relay, db)
	for id := range many {
		l.confirmed = append(l.confirmed, int64(many-id)) // the event, whose id is 1, is the last one
	}
	require.NoError(t, l.markSent(t.Context(), db)) // without the time limit of mark
	stats, err := box.Stats(t.Context())
	require.NoError(t, err)
	assert.Zero(t, stats.Unsent)
}
