package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/replay/outbox"
)

// A relay does not wait for the disk with its marks. The producer, who has the same and
// only connection, does so as before.
func TestMarksLeaveTheConnectionAsItWas(t *testing.T) {
	for _, journal := range []string{"WAL", "DELETE"} {
		t.Run(journal, func(t *testing.T) {
			p := newSQLite(t)
			p.url = strings.Replace(strings.Replace(p.url, "NORMAL", "FULL", 1), "WAL", journal, 1)
			db := p.open(t)
			db.SetMaxOpenConns(1)
			box, err := outbox.New(t.Context(), db, p.dialect, outbox.Config{})
			require.NoError(t, err)
			_, stop := start(t, box, newReceiver(), outbox.RelayConfig{})
			for range 20 {
				put(t, box, db, "a")
			}
			require.Eventually(t, func() bool {
				s, err := box.Stats(t.Context())
				return err == nil && s.Unsent == 0
			}, waitAtMost, time.Millisecond)
			stop()
			var level int
			require.NoError(t, db.QueryRow(`PRAGMA synchronous`).Scan(&level))
			assert.Equal(t, 2, level)
		})
	}
}
