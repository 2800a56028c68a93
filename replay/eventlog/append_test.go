package eventlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
	"github.com/interlock-go/interlock/replay/outbox"
)

func TestAppend(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		before := time.Now().Add(-time.Millisecond)
		appended, err := b.append(t.Context(), []*ordering.Event{
			on("1", "opened", "a", "b"), on("2", "paid", "a"), on("3", "opened", "c"),
		}, at("a", 0), at("read/only", 0))
		require.NoError(t, err)
		assert.False(t, appended.Repeated)
		want := []string{"log/0=1: 1 a=1, b=1", "log/0=2: 2 a=2", "log/0=3: 3 c=1"}
		assert.Equal(t, want, texts(appended.Entries))
		got := b.read(t, eventlog.Query{})
		assert.Equal(t, want, texts(got))
		assert.Equal(t, appended.Entries, got, "what is read is what was returned")
		assert.WithinRange(t, got[0].Time, before, time.Now())

		for stream, last := range map[string]uint64{"a": 2, "b": 1, "none": 0} {
			v, err := b.Version(t.Context(), lockkeys.MustParse(stream))
			require.NoError(t, err)
			assert.Equal(t, at(stream, last), v)
		}
		head, err := b.Head(t.Context(), 0)
		require.NoError(t, err)
		assert.Equal(t, at("log/0", 3), head)

		none, err := b.append(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, eventlog.Appended{Entries: []eventlog.Entry{}}, none)
	})
}

func TestAppendRefuses(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		_, err := b.append(t.Context(), []*ordering.Event{on("1", "x", "a"), on("2", "x", "a", "b")})
		require.NoError(t, err)
		other := on("1", "x", "a")
		other.Payload = []byte("other")
		cases := map[string]struct {
			events   []*ordering.Event
			expected []ordering.Position
			want     error
		}{
			"nil":             {[]*ordering.Event{nil}, nil, outbox.ErrNoEvent},
			"no stream":       {[]*ordering.Event{{}}, nil, ordering.ErrNoPosition},
			"behind":          {[]*ordering.Event{on("", "x", "a")}, []ordering.Position{at("a", 1)}, eventlog.ErrVersion},
			"only read":       {[]*ordering.Event{on("", "x", "c")}, []ordering.Position{at("a", 1)}, eventlog.ErrVersion},
			"partly there":    {[]*ordering.Event{on("1", "x", "a"), on("new", "x", "a")}, nil, eventlog.ErrPartly},
			"partly, no ID":   {[]*ordering.Event{on("1", "x", "a"), on("", "x", "a")}, nil, eventlog.ErrPartly},
			"other content":   {[]*ordering.Event{other}, nil, outbox.ErrOtherEvent},
			"other streams":   {[]*ordering.Event{on("1", "x", "b")}, nil, outbox.ErrOtherEvent},
			"other, expected": {[]*ordering.Event{other}, []ordering.Position{at("a", 0)}, outbox.ErrOtherEvent},
		}
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for name, c := range cases { // the transaction goes on after each
				_, err := b.Append(ctx, tx, c.events, c.expected...)
				require.ErrorIs(t, err, c.want, name)
			}
			_, err := b.Append(ctx, nil, []*ordering.Event{on("", "x", "a")})
			require.ErrorIs(t, err, outbox.ErrNoTx)
			appended, err := b.Append(ctx, tx, []*ordering.Event{on("5", "x", "a", "b", "c")})
			require.NoError(t, err)
			assert.Equal(t, []string{"log/0=3: 5 a=3, b=2, c=1"}, texts(appended.Entries), "nothing was half done")
			return nil
		}))
	})
}

// What is enqueued with the log's outbox is in the log; one way in.
func TestEnqueueWithTheOutboxOfALog(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{Sent: true})
		b.put(t, "x", "a")
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := b.Outbox().Enqueue(ctx, tx, on("2", "x"), lockkeys.MustParse("a"))
			return err
		}))
		got := b.read(t, eventlog.Query{})
		require.Len(t, got, 2)
		assert.Equal(t, "log/0=2: 2 a=2", text(got[1]))
		stats, err := b.Outbox().Stats(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, stats.Unsent, "a relay would send them")
		local := p.fresh(t).open(t, eventlog.Config{})
		local.put(t, "x", "a")
		stats, err = local.Outbox().Stats(t.Context())
		require.NoError(t, err)
		assert.Zero(t, stats.Unsent)
	})
}

// A caller that does not know whether its append was committed repeats it.
func TestAnAppendIsRepeated(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		events := []*ordering.Event{on("1", "x", "a"), on("2", "y", "a", "b")}
		first, err := b.append(t.Context(), events, at("a", 0))
		require.NoError(t, err)
		b.put(t, "x", "a")
		again, err := b.append(t.Context(), events, at("a", 0))
		require.NoError(t, err)
		assert.True(t, again.Repeated)
		assert.Equal(t, first.Entries, again.Entries)
		assert.Len(t, b.read(t, eventlog.Query{}), 3)
	})
}

// What has ended a stream may be repeated too, and so may what came before its end; but not
// with another end.
func TestAnAppendToAStreamThatHasEndedIsRepeated(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		ends := on("2", "y", "a", "b")
		ends.Positions[0].End = true
		for _, events := range [][]*ordering.Event{{on("1", "x", "a")}, {on("3", "x", "a"), ends}} {
			first, err := b.append(t.Context(), events)
			require.NoError(t, err)
			for _, expected := range [][]ordering.Position{nil, {at("a", 0)}, {at("a", 3)}} {
				again, err := b.append(t.Context(), events, expected...)
				require.NoError(t, err)
				assert.True(t, again.Repeated)
				assert.Equal(t, first.Entries, again.Entries)
			}
		}
		again, err := b.append(t.Context(), []*ordering.Event{on("1", "x", "a")})
		require.NoError(t, err)
		assert.True(t, again.Repeated)
		for _, expected := range [][]ordering.Position{nil, {at("a", 0)}} {
			_, err = b.append(t.Context(), []*ordering.Event{on("2", "y", "a", "b")}, expected...)
			require.ErrorIs(t, err, outbox.ErrOtherEvent)
		}
		_, err = b.append(t.Context(), []*ordering.Event{on("4", "x", "a")})
		require.ErrorIs(t, err, outbox.ErrEnded)
		assert.Len(t, b.read(t, eventlog.Query{}), 3)
	})
}

// What is rolled back leaves no hole, in versions or in places.
func TestARolledBackAppend(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		require.ErrorIs(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if _, err := b.Append(ctx, tx, []*ordering.Event{on("1", "x", "a")}); err != nil {
				return err
			}
			return assert.AnError
		}), assert.AnError)
		assert.Equal(t, at("log/0", 1), b.put(t, "x", "a").At)
	})
}

// While many append, on streams of their own and common ones, whoever reads the log
// sees a beginning of it without holes, over and over.
func TestReadersSeeWhatWasCommittedInItsOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		const writers, each = 8, 25
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					_, err := b.append(t.Context(), []*ordering.Event{
						on("", "x", fmt.Sprint("own/", w)), on("", "x", fmt.Sprint("common/", i%3)),
					})
					assert.NoError(t, err)
				}
			})
		}
		ended := make(chan struct{})
		go func() { all.Wait(); close(ended) }()
		for running := true; running; {
			select {
			case <-ended:
				running = false
			default:
			}
			versions := map[string]uint64{}
			last := eventlog.Entry{}
			n := uint64(0)
			for e, err := range b.Read(t.Context(), eventlog.Query{}) {
				require.NoError(t, err)
				n++
				require.Equal(t, n, e.At.Number)
				require.False(t, e.Time.Before(last.Time))
				last = e
				for _, p := range e.Event.Positions {
					versions[p.Stream.String()]++
					require.Equal(t, versions[p.Stream.String()], p.Number)
				}
			}
			if !running {
				require.EqualValues(t, 2*writers*each, n)
			}
		}
	})
}

// Two that decide on what they have read of a stream, by the same or by another one
// that they only read, are not both right.
func TestConcurrentDecisions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for round := range 10 {
			seat, bus := fmt.Sprintf("seat/%d", round), fmt.Sprintf("bus/%d", round)
			results := make(chan error, 4)
			for i := range cap(results) {
				go func() {
					_, err := b.append(t.Context(), []*ordering.Event{on("", "booked", []string{seat, bus}[i%2])}, at(seat, 0), at(bus, 0))
					results <- err
				}()
			}
			committed := 0
			for range cap(results) {
				if err := <-results; err == nil {
					committed++
				} else {
					var version *eventlog.VersionError
					require.ErrorAs(t, err, &version)
				}
			}
			require.Equal(t, 1, committed)
			for range 2 { // which are based on the same, and change nothing of it
				_, err := b.append(t.Context(), []*ordering.Event{on("", "looked", "audit")}, at(fmt.Sprintf("train/%d", round), 0))
				require.NoError(t, err)
			}
		}
	})
}

func TestPartitions(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		config := eventlog.Config{Partitions: 3, PartitionOf: func(stream lockkeys.Key) int { return stream.Depth() - 1 }}
		b := p.open(t, config)
		appended, err := b.append(t.Context(), []*ordering.Event{
			on("1", "x", "a/b"), on("2", "x", "a"), on("3", "x", "a/b", "a/c"), on("4", "x", "a"),
		})
		require.NoError(t, err)
		assert.Equal(t, []string{"log/1=1: 1 a/b=1", "log/0=1: 2 a=1", "log/1=2: 3 a/b=2, a/c=1", "log/0=2: 4 a=2"}, texts(appended.Entries))
		assert.Equal(t, []string{"2", "4"}, b.ids(t, eventlog.Query{}))
		assert.Equal(t, []string{"1", "3"}, b.ids(t, eventlog.Query{Partition: 1}))
		assert.Equal(t, []string{"1", "3"}, b.ids(t, eventlog.Query{Stream: lockkeys.MustParse("a/b")}))
		_, err = b.append(t.Context(), []*ordering.Event{on("", "x", "a", "a/b")})
		require.ErrorIs(t, err, eventlog.ErrPartition)
		require.ErrorContains(t, err, "a is in 0, a/b in 1")
		_, err = b.append(t.Context(), []*ordering.Event{on("", "x", "a/b/c/d")})
		require.ErrorIs(t, err, eventlog.ErrPartition)
		require.ErrorContains(t, err, "from 0 to 2")

		config.Partitions = 2
		_, err = eventlog.New(t.Context(), b.store.DB(), p.dialect, config)
		require.ErrorIs(t, err, eventlog.ErrConfig)
		require.ErrorContains(t, err, "was created with 3")
	})
}

// After a restore from a backup, versions and places begin anew behind all others.
func TestANewEpoch(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		b.put(t, "x", "a")
		b.put(t, "x", "a")
		b = p.open(t, eventlog.Config{Epoch: 2})
		e := b.put(t, "x", "a")
		assert.Equal(t, ordering.Position{Stream: lockkeys.MustParse("log/0"), Epoch: 2, Number: 1}, e.At)
		assert.Equal(t, "a=1;epoch=2", ordering.FormatSequenceID(e.Event.Positions))
		b.put(t, "y", "a")
		assert.Len(t, b.read(t, eventlog.Query{}), 4)
		got := b.read(t, eventlog.Query{Stream: lockkeys.MustParse("a"), After: e.Event.Positions[0].Place()})
		require.Len(t, got, 1)
		assert.Equal(t, "y", got[0].Event.Type)
	})
}

func TestAFailureOfTheDatabaseRollsBack(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		b.put(t, "x", "a")
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `ALTER TABLE eventlog_entries RENAME TO elsewhere`)
			return err
		}))
		_, err := b.append(t.Context(), []*ordering.Event{on("2", "x", "a")})
		require.Error(t, err)
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `ALTER TABLE elsewhere RENAME TO eventlog_entries`)
			return err
		}))
		e := b.put(t, "x", "a")
		assert.Equal(t, "log/0=2", e.At.String())
		assert.Equal(t, "a=2", ordering.FormatSequenceID(e.Event.Positions))
	})
}

func TestNewRefuses(t *testing.T) {
	_, err := eventlog.New(t.Context(), nil, 9, eventlog.Config{Partitions: 2, Upcasters: []eventlog.Upcaster{
		{From: "a", To: "b", Up: nothing}, {From: "a", To: "c", Up: nothing}, {From: "x", To: "y"},
		{From: "1", To: "2", Up: nothing}, {From: "2", To: "1", Up: nothing},
	}})
	require.ErrorIs(t, err, eventlog.ErrConfig)
	for _, part := range []string{"database is nil", "dialect is unknown", "PartitionOf is nil",
		`two are for type "a"`, `that for type "x" has no function`, "go round in a circle"} {
		assert.ErrorContains(t, err, part)
	}
	_, err = eventlog.New(t.Context(), nil, 9, eventlog.Config{Partitions: -1})
	assert.ErrorContains(t, err, "Partitions is -1")
}

func nothing(*ordering.Event) error { return nil }

// A newer program's tables are refused, not used.
func TestNewerTables(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE schema_versions SET version = 99 WHERE component = 'eventlog'`)
			return err
		}))
		_, err := eventlog.New(t.Context(), b.store.DB(), p.dialect, eventlog.Config{})
		require.ErrorIs(t, err, eventlog.ErrSchema)
		assert.False(t, errors.Is(err, eventlog.ErrConfig))
	})
}
