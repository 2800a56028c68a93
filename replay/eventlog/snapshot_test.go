package eventlog_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
)

// account is a state: the sum and the types of its events, in order.
type account struct {
	Events map[string]int
	Trace  string
}

func apply(a account, e *ordering.Event) (account, error) {
	switch e.Type {
	case "bad":
		return a, errors.New("no such booking")
	case "panic":
		panic("a bug")
	}
	events := map[string]int{e.Type: 1 + a.Events[e.Type]}
	for kind, n := range a.Events {
		if kind != e.Type {
			events[kind] = n
		}
	}
	a.Events = events
	a.Trace += e.Type
	return a, nil
}

func (b bed) accounts() eventlog.Aggregate[account] {
	return eventlog.Aggregate[account]{Log: b.Log, Name: "account", Apply: apply, Every: 10, Keep: 2}
}

// appendTo appends to a state in a transaction of its own.
func appendTo[S any](t testing.TB, b bed, a eventlog.Aggregate[S], state eventlog.State[S], events ...*ordering.Event) (after eventlog.State[S], err error) {
	t.Helper()
	err = b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) (err error) {
		after, err = a.Append(ctx, tx, state, events...)
		return err
	})
	return after, err
}

// snapshots lists the versions of the snapshots.
func (b bed) snapshots(t testing.TB) (versions []int) {
	rows, err := b.store.DB().Query(`SELECT version FROM eventlog_snapshots ORDER BY stream, version`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var v int
		require.NoError(t, rows.Scan(&v))
		versions = append(versions, v)
	}
	require.NoError(t, rows.Err())
	return versions
}

func TestSnapshots(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		a, stream := b.accounts(), lockkeys.MustParse("account/1")
		state, err := a.Load(t.Context(), stream)
		require.NoError(t, err)
		assert.Equal(t, eventlog.State[account]{Version: ordering.Position{Stream: stream}}, state)
		want := ""
		for i := range 12 {
			events := make([]*ordering.Event, 1+i%4)
			for j := range events {
				events[j] = on("", string(rune('a'+i)), "account/1", "other")
				want += events[j].Type
			}
			state, err = appendTo(t, b, a, state, events...)
			require.NoError(t, err)
			loaded, err := a.Load(t.Context(), stream)
			require.NoError(t, err)
			require.Equal(t, state, loaded)
			require.Equal(t, want, state.Value.Trace)
			require.EqualValues(t, len(want), state.Version.Number)
		}
		assert.Equal(t, []int{20, 30}, b.snapshots(t), "the last two that passed ten")

		t.Log("a snapshot is used: the events before it are not read")
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE outbox_events SET body = '-' WHERE id < 20`)
			return err
		}))
		loaded, err := a.Load(t.Context(), stream)
		require.NoError(t, err)
		assert.Equal(t, state, loaded)

		t.Log("one of another format is not")
		a.Format = 2
		_, err = a.Load(t.Context(), stream)
		var bad *eventlog.EntryError
		require.ErrorAs(t, err, &bad)
	})
}

// A snapshot that cannot be read is told and passed over.
func TestASnapshotThatCannotBeRead(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		var logged strings.Builder
		b := p.open(t, eventlog.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		a, stream := b.accounts(), lockkeys.MustParse("account/1")
		state := eventlog.State[account]{Version: ordering.Position{Stream: stream}}
		for range 25 {
			var err error
			state, err = appendTo(t, b, a, state, on("", "a", "account/1"))
			require.NoError(t, err)
		}
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE eventlog_snapshots SET body = $1 WHERE version = 20`, []byte("no snapshot"))
			return err
		}))
		loaded, err := a.Load(t.Context(), stream)
		require.NoError(t, err)
		assert.Equal(t, state, loaded)
		assert.Contains(t, logged.String(), "account/1=20")
	})
}

// An append on a state that is not the latest is refused; one that Apply refuses is
// rolled back.
func TestAppendToAState(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		a, stream := b.accounts(), lockkeys.MustParse("account/1")
		old := eventlog.State[account]{Version: ordering.Position{Stream: stream}}
		first := on("first", "a", "account/1")
		state, err := appendTo(t, b, a, old, first)
		require.NoError(t, err)
		_, err = appendTo(t, b, a, old, on("", "b", "account/1"))
		require.ErrorIs(t, err, eventlog.ErrVersion)
		again, err := appendTo(t, b, a, old, first)
		require.NoError(t, err)
		assert.Equal(t, state, again, "a repeat gives the state")
		_, err = appendTo(t, b, a, state, on("", "b", "account/1"), on("", "bad", "account/1"))
		require.ErrorContains(t, err, "no such booking")
		_, err = appendTo(t, b, a, state, on("", "panic", "account/1"))
		require.ErrorContains(t, err, "a bug")
		_, err = appendTo(t, b, a, state, on("", "b", "account/2"))
		require.ErrorContains(t, err, "not on account/1")
		_, err = appendTo(t, b, a, state, nil)
		require.Error(t, err)
		assert.Equal(t, []string{"first"}, b.ids(t, eventlog.Query{}))
	})
}

// In a transaction, what it has appended itself is seen, and by nobody else.
func TestLoadInATransaction(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		a, stream := b.accounts(), lockkeys.MustParse("account/1")
		b.put(t, "a", "account/1")
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for _, want := range []string{"a", "ab", "abb"} {
				state, err := a.LoadIn(ctx, tx, stream)
				if err != nil {
					return err
				}
				assert.Equal(t, want, state.Value.Trace)
				if _, err := a.Append(ctx, tx, state, on("", "b", "account/1")); err != nil {
					return err
				}
				n := 0
				for _, err := range b.ReadIn(ctx, tx, eventlog.Query{Stream: stream}) {
					if err != nil {
						return err
					}
					n++
				}
				assert.Equal(t, len(want)+1, n)
				assert.Len(t, b.ids(t, eventlog.Query{}), 1)
			}
			return nil
		}))
	})
}

// The state of the root would be one of all streams.
func TestTheRootHasNoState(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		b.put(t, "x", "a")
		_, err := b.accounts().Load(t.Context(), lockkeys.Key{})
		require.ErrorIs(t, err, eventlog.ErrQuery)
		require.ErrorContains(t, err, "account")
	})
}

func TestAnAggregateThatLacksAField(t *testing.T) {
	_, err := eventlog.Aggregate[account]{Every: -1, Keep: -1}.Load(t.Context(), lockkeys.MustParse("a"))
	require.ErrorIs(t, err, eventlog.ErrConfig)
	for _, part := range []string{"Log is nil", "Name is empty", "Apply is nil", "Every is -1", "Keep is -1"} {
		assert.ErrorContains(t, err, part)
	}
}

func TestViews(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		views, err := eventlog.NewViews(t.Context(), b.store.DB(), p.dialect)
		require.NoError(t, err)
		for _, version := range []string{"", "1", "2"} {
			if version != "" {
				require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
					return views.Switch(ctx, tx, "summary", version)
				}))
			}
			current, err := views.Current(t.Context(), "summary")
			require.NoError(t, err)
			assert.Equal(t, version, current)
		}
		require.ErrorIs(t, views.Switch(t.Context(), nil, "", "1"), eventlog.ErrConfig)
		_, err = eventlog.NewViews(t.Context(), nil, 0)
		require.ErrorIs(t, err, eventlog.ErrConfig)
	})
}
