package eventlog_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/eventlog"
	"github.com/interlock-go/interlock/replay/outbox"
)

// A query gives what a filter of all entries gives, in pages of any size.
func TestReadIsLikeAFilter(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		const n = 600 // several pages
		var events []*ordering.Event
		for i := range n {
			e := on(fmt.Sprint(i), fmt.Sprint("type/", i%3), fmt.Sprint("s/", i%2))
			if i%5 == 0 {
				e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.MustParse("s/x")})
			}
			if i%4 == 0 {
				e.CorrelationID = fmt.Sprint("c", i%8)
			}
			if i == 300 {
				e.Payload = make([]byte, 2<<20) // a page of its own
			}
			events = append(events, e)
		}
		var all []eventlog.Entry
		for some := range slices.Chunk(events, 100) {
			appended, err := b.append(t.Context(), some)
			require.NoError(t, err)
			all = append(all, appended.Entries...)
		}
		rapid.Check(t, func(t *rapid.T) {
			q := eventlog.Query{
				After:     rapid.Uint64Range(0, n+1).Draw(t, "after"),
				Before:    rapid.Uint64Range(0, n+1).Draw(t, "before"),
				Backwards: rapid.Bool().Draw(t, "backwards"),
				Limit:     rapid.SampledFrom([]int{0, 0, 1, 7, 256, 300}).Draw(t, "limit"),
			}
			if s := rapid.SampledFrom([]string{"", "s/0", "s/x", "none"}).Draw(t, "stream"); s != "" {
				q.Stream = lockkeys.MustParse(s)
			}
			q.Types = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"type/0", "type/1", "none"}), rapid.ID).Draw(t, "types")
			q.Correlation = rapid.SampledFrom([]string{"", "", "c0", "c4", "none"}).Draw(t, "correlation")
			if rapid.Bool().Draw(t, "as of") {
				q.Until = all[rapid.IntRange(0, n-1).Draw(t, "until")].Time
			}
			var want []string
			for _, e := range all {
				number := e.At.Number
				if !q.Stream.IsRoot() {
					at, is := e.Event.On(q.Stream)
					if !is {
						continue
					}
					number = at.Number
				}
				if number > q.After && (q.Before == 0 || number < q.Before) &&
					(len(q.Types) == 0 || slices.Contains(q.Types, e.Event.Type)) &&
					(q.Correlation == "" || q.Correlation == e.Event.CorrelationID) &&
					(q.Until.IsZero() || !e.Time.After(q.Until)) {
					want = append(want, e.Event.ID)
				}
			}
			if q.Backwards {
				slices.Reverse(want)
			}
			if q.Limit > 0 && len(want) > q.Limit {
				want = want[:q.Limit]
			}
			var got []string
			for e, err := range b.Read(context.Background(), q) {
				require.NoError(t, err)
				got = append(got, e.Event.ID)
			}
			require.Equal(t, want, got)
		})
	})
}

func TestReadRefuses(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for _, q := range []eventlog.Query{
			{Partition: 1}, {Partition: -1}, {Limit: -1}, {After: math.MaxUint64}, {Before: math.MaxInt64 + 1}, {Stream: at("a", 1).Stream, After: 1 << 63},
			{Until: time.Unix(math.MaxInt64/2, 0)},
		} {
			refused := false
			for _, err := range b.Read(t.Context(), q) {
				require.ErrorIs(t, err, eventlog.ErrQuery)
				refused = true
			}
			require.True(t, refused)
		}
		for _, partition := range []int{-1, 1} {
			_, err := b.Head(t.Context(), partition)
			require.ErrorIs(t, err, eventlog.ErrQuery)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range b.Read(ctx, eventlog.Query{}) {
			require.ErrorIs(t, err, context.Canceled)
		}
	})
}

// What cannot be read is an error that names it, and the loop may go on behind it.
func TestEntriesThatCannotBeRead(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		for i := range 5 {
			_, err := b.append(t.Context(), []*ordering.Event{on(fmt.Sprint(i+1), "x", "a")})
			require.NoError(t, err)
		}
		other, err := outbox.New(t.Context(), b.store.DB(), p.dialect, outbox.Config{})
		require.NoError(t, err)
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE outbox_events SET body = '{"id":' WHERE name = '2'`)
			require.NoError(t, err)
			_, err = tx.ExecContext(ctx, `DELETE FROM outbox_events WHERE name = '4'`)
			require.NoError(t, err)
			_, err = other.Enqueue(ctx, tx, on("beside", "x", "a"))
			return err
		}))
		read := func(q eventlog.Query) (got []string) {
			for e, err := range b.Read(t.Context(), q) {
				var bad *eventlog.EntryError
				switch {
				case err == nil:
					got = append(got, e.Event.ID)
				case errors.As(err, &bad):
					kind := "bad"
					for text, is := range map[string]error{"lost": eventlog.ErrLost, "outside": eventlog.ErrNotInLog} {
						if errors.Is(err, is) {
							kind = text
						}
					}
					got = append(got, fmt.Sprintf("%s %s %s", bad.At, bad.Event, kind))
				default:
					require.NoError(t, err)
				}
			}
			return got
		}
		assert.Equal(t, []string{"1", "log/0=2 2 bad", "3", "log/0=4  lost", "5"}, read(eventlog.Query{}))
		byStream := read(eventlog.Query{Stream: lockkeys.MustParse("a")})
		require.Len(t, byStream, 6)
		assert.True(t, strings.HasSuffix(byStream[5], "beside outside"), byStream[5])
	})
}

// Times do not fall, whatever the clocks of the writers do: so a time names a
// beginning of the log.
func TestAsOfATime(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		b := p.open(t, eventlog.Config{})
		b.put(t, "x", "a")
		later := time.Now().Add(time.Hour).UnixMicro()
		require.NoError(t, b.store.Write(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE eventlog_heads SET at = $1`, later)
			return err
		}))
		e := b.put(t, "x", "a")
		assert.Equal(t, later, e.Time.UnixMicro())
		assert.Len(t, b.read(t, eventlog.Query{Until: e.Time}), 2)
		assert.Len(t, b.read(t, eventlog.Query{Until: e.Time.Add(-time.Microsecond)}), 1)
	})
}

func TestUpcasting(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		cents := func(e *ordering.Event) error {
			if len(e.Payload) == 0 {
				return errors.New("no amount")
			}
			e.Payload = append(e.Payload, "00"...)
			return nil
		}
		named := func(e *ordering.Event) error {
			if string(e.Payload) == "666" {
				panic("the beast")
			}
			e.Headers = map[string]string{"currency": "EUR"}
			return nil
		}
		b := p.open(t, eventlog.Config{Upcasters: []eventlog.Upcaster{
			{From: "paid.1", To: "paid.2", Up: cents}, {From: "paid.2", To: "paid.3", Up: named},
			{From: "moved", To: "paid.3", Up: func(e *ordering.Event) error { e.Positions[0].Number++; return nil }},
			{From: "renamed", To: "paid.3", Up: func(e *ordering.Event) error { e.ID = "another"; return nil }},
		}})
		paid := func(kind, amount string) *ordering.Event {
			e := on("", kind, "a")
			e.Payload = []byte(amount)
			return e
		}
		_, err := b.append(t.Context(), []*ordering.Event{paid("paid.1", "5"), paid("paid.2", "600"), paid("paid.3", "7"), paid("paid.1", ""), paid("paid.2", "666"),
			paid("moved", "8"), paid("renamed", "9")})
		require.NoError(t, err)
		var got, bad []string
		for e, err := range b.Read(t.Context(), eventlog.Query{}) {
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			got = append(got, fmt.Sprintf("%s %s %s", e.Event.Type, e.Event.Payload, e.Event.Headers["currency"]))
		}
		assert.Equal(t, []string{"paid.3 500 EUR", "paid.3 600 EUR", "paid.3 7 "}, got)
		require.Len(t, bad, 4)
		assert.Contains(t, bad[2], `upcasting from "moved" to "paid.3": it has changed the ID or the positions`)
		assert.Contains(t, bad[3], `upcasting from "renamed" to "paid.3": it has changed the ID or the positions`)
		assert.Contains(t, bad[0], `log/0=4`)
		assert.Contains(t, bad[0], `upcasting from "paid.1" to "paid.2": no amount`)
		assert.Contains(t, bad[1], "the beast")
		assert.Len(t, b.ids(t, eventlog.Query{Types: []string{"paid.3"}}), 1, "types are those that were written")
	})
}
