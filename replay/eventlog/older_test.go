package eventlog_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// Tables of a version that had streams and types in full wherever they are used are brought
// up to date, with what is in them.
func TestOlderTables(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		config := eventlog.Config{Partitions: 2, PartitionOf: func(stream lockkeys.Key) int {
			if lockkeys.Must("other").Contains(stream) {
				return 1
			}
			return 0
		}}
		b := p.open(t, config)
		both := on("2", "y", "a", "b")
		both.CorrelationID, both.CausationID = "order", "1"
		events := []*ordering.Event{on("1", "x", "a"), both, on("3", "", "b"), on("4", "y", "other/a")}
		appended, err := b.append(t.Context(), events)
		require.NoError(t, err)
		b.toVersion8(t, appended.Entries)

		b = p.open(t, config)
		again, err := b.append(t.Context(), events)
		require.NoError(t, err)
		assert.True(t, again.Repeated)
		s := b.subscribe(t, eventlog.SubscriptionConfig{Name: "y", Handler: b.model(t, "y"), Types: []string{"y"}})
		after := b.put(t, "y", "a", "b")
		assert.Equal(t, "a=3, b=3", ordering.FormatSequenceID(after.Event.Positions))
		for name, c := range map[string]struct {
			query eventlog.Query
			want  []string
		}{
			"all":          {eventlog.Query{}, []string{"1", "2", "3", after.Event.ID}},
			"other":        {eventlog.Query{Partition: 1}, []string{"4"}},
			"stream":       {eventlog.Query{Stream: lockkeys.Must("b")}, []string{"2", "3", after.Event.ID}},
			"type":         {eventlog.Query{Types: []string{"y"}}, []string{"2", after.Event.ID}},
			"types":        {eventlog.Query{Types: []string{"x", ""}, Backwards: true}, []string{"3", "1"}},
			"of stream":    {eventlog.Query{Stream: lockkeys.Must("a"), Types: []string{"x", "none"}}, []string{"1"}},
			"correlation":  {eventlog.Query{Correlation: "order"}, []string{"2"}},
			"no such type": {eventlog.Query{Types: []string{"none"}}, nil},
			"as of a time": {eventlog.Query{Until: appended.Entries[0].Time}, []string{"1", "2", "3"}},
		} {
			assert.Equal(t, c.want, b.ids(t, c.query), name)
		}
		for i, e := range b.read(t, eventlog.Query{})[:3] {
			assert.Equal(t, appended.Entries[i].Event.Hash(), e.Event.Hash())
			assert.Equal(t, appended.Entries[i].Event.CausationID, e.Event.CausationID)
			assert.Equal(t, text(appended.Entries[i]), text(e))
			assert.Equal(t, appended.Entries[i].Time, e.Time)
		}
		require.NoError(t, s.CatchUp(within(t)))
		assert.Equal(t, map[string][]int{"a": {2, 4}, "other/a": {1}}, b.rows(t, "y"))
	})
}

// toVersion8 makes the tables of the log and of its outbox what they were in an older
// version, with these entries.
func (b bed) toVersion8(t testing.TB, entries []eventlog.Entry) {
	text, version := "TEXT", 20
	if b.place.dialect == eventlog.PostgreSQL {
		text, version = `TEXT COLLATE "C"`, 15
	}
	require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		for _, e := range entries {
			body, err := json.Marshal(e.Event)
			require.NoError(t, err)
			if _, err := tx.ExecContext(ctx, `UPDATE outbox_events SET body = $1 WHERE name = $2`, body, e.Event.ID); err != nil {
				return err
			}
		}
		for _, statement := range []string{
			`CREATE TABLE older_entries (log BIGINT NOT NULL, place BIGINT NOT NULL, event BIGINT NOT NULL, at BIGINT NOT NULL,
				type ` + text + ` NOT NULL, correlation ` + text + ` NOT NULL, PRIMARY KEY (log, place))`,
			`INSERT INTO older_entries SELECT x.log, x.place, x.event, x.at, t.name, x.correlation
				FROM eventlog_entries x JOIN outbox_types t ON t.id = x.type`,
			`DROP TABLE eventlog_entries`,
			`ALTER TABLE older_entries RENAME TO eventlog_entries`,
			`CREATE UNIQUE INDEX eventlog_entries_event ON eventlog_entries (event)`,
			`CREATE INDEX eventlog_entries_type ON eventlog_entries (log, type, place)`,
			`CREATE INDEX eventlog_entries_correlation ON eventlog_entries (correlation, log, place) WHERE correlation <> ''`,
			`ALTER TABLE outbox_events DROP COLUMN type`,
			`DROP TABLE outbox_types`,
			`CREATE TABLE older_positions (stream ` + text + ` NOT NULL, number BIGINT NOT NULL, event BIGINT NOT NULL,
				sent BOOLEAN NOT NULL DEFAULT FALSE, PRIMARY KEY (stream, number))`,
			`INSERT INTO older_positions SELECT s.stream, p.number, p.event, p.sent FROM outbox_positions p JOIN outbox_streams s ON s.id = p.stream`,
			`DROP TABLE outbox_positions`,
			`ALTER TABLE older_positions RENAME TO outbox_positions`,
			`CREATE INDEX outbox_positions_event ON outbox_positions (event)`,
			`CREATE INDEX outbox_positions_unsent ON outbox_positions (stream, number) WHERE NOT sent`,
			`CREATE TABLE older_streams (stream ` + text + ` PRIMARY KEY, last BIGINT NOT NULL, ended BIGINT NOT NULL)`,
			`INSERT INTO older_streams SELECT stream, last, ended FROM outbox_streams`,
			`DROP TABLE outbox_streams`,
			`ALTER TABLE older_streams RENAME TO outbox_streams`,
			`UPDATE schema_versions SET version = 8 WHERE component = 'eventlog'`,
			fmt.Sprintf(`UPDATE schema_versions SET version = %d WHERE component = 'outbox'`, version),
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	}))
}
