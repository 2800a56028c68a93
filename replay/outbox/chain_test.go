package outbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
	"github.com/interlock-go/interlock/replay/outbox"
)

// chain enqueues n events in one transaction, of which each waits for the one before,
// on a stream that no other event has, and returns the last one.
func chain(t testing.TB, box *outbox.Outbox, db *sql.DB, n int) (last *ordering.Event) {
	inTx(t, db, func(tx *sql.Tx) {
		for i := range n {
			var err error
			streams := keys(fmt.Sprintf("link/%d", i), fmt.Sprintf("link/%d", i+1))
			last, err = box.Enqueue(t.Context(), tx, &ordering.Event{ID: fmt.Sprint(i)}, streams...)
			require.NoError(t, err)
		}
	})
	return last
}

// A sequencer that has nothing of a long chain of events but the last one finds the
// others in the outbox, with few requests, directly and over HTTP.
func TestAChainTakesFewRequests(t *testing.T) {
	const n = 6000
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		last := chain(t, box, db, n)
		handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: box, Public: true})
		require.NoError(t, err)
		server := httptest.NewServer(handler)
		defer server.Close()
		client, err := httpreplay.NewClient(httpreplay.ClientConfig{URL: server.URL, HTTP: server.Client()})
		require.NoError(t, err)
		for name, source := range map[string]replay.Source{"directly": box, "over HTTP": client} {
			t.Run(name, func(t *testing.T) {
				var requests atomic.Int64
				counted := replay.SourceFunc(func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
					requests.Add(1)
					return source.Fetch(ctx, asked)
				})
				replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "outbox", Source: counted}}})
				require.NoError(t, err)
				var ran []string // one after the other, by the streams
				all := make(chan bool)
				sequencer, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
					Store: ordering.NewMemory(), Replayer: replayer, GapTimeout: time.Millisecond,
					Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
						if ran = append(ran, job.Event.ID); len(ran) == n {
							close(all)
						}
						return nil
					},
				})
				require.NoError(t, err)
				require.NoError(t, sequencer.Offer(t.Context(), last, nil))
				<-all
				require.NoError(t, sequencer.Close())
				for i, id := range ran {
					require.Equal(t, fmt.Sprint(i), id)
				}
				stats := sequencer.Stats()
				assert.LessOrEqual(t, requests.Load(), int64(20))
				assert.Zero(t, stats.Held, "none has been to the store and back")
				assert.Zero(t, stats.Duplicates, "none has come in vain")
			})
		}
	})
}

// What an answer has besides the events that were asked for: the latest that they wait
// for, as many as are welcome, up to what was given up or cannot be read, or is too much.
func TestFetchBefore(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		chain(t, box, db, 20)
		ids := func(events []*ordering.Event) (ids []string) {
			for _, e := range events {
				ids = append(ids, e.ID)
			}
			return ids
		}
		fetch := func(stream string, from, to uint64, before int) (events, besides []string) {
			answer, err := box.Fetch(t.Context(), ordering.Range{Stream: lockkeys.MustParse(stream), From: from, To: to, Before: before})
			require.NoError(t, err)
			return ids(answer.Events), ids(answer.Before)
		}
		check := func(stream string, from, to uint64, before int, wanted, besides []string) {
			t.Helper()
			a, b := fetch(stream, from, to, before)
			assert.Equal(t, wanted, a)
			assert.Equal(t, besides, b)
		}
		check("link/9", 1, 1, 0, []string{"8"}, nil)
		check("link/9", 1, 1, 3, []string{"8"}, []string{"5", "6", "7"})
		check("link/9", 2, 2, 3, []string{"9"}, nil) // it waits for number 1, which was not asked for
		check("link/9", 1, 2, 3, []string{"8", "9"}, []string{"5", "6", "7"})
		check("link/3", 1, 1, 100, []string{"2"}, []string{"0", "1"})

		t.Log("two ways to one event")
		put(t, box, db, "link/2", "link/6", "x")
		_, besides := fetch("x", 1, 1, 4)
		assert.Equal(t, []string{"2", "3", "4", "6"}[3:], besides[len(besides)-1:])
		assert.Len(t, besides, 4)

		t.Log("an event that cannot be read, and what only it may wait for")
		_, err := db.Exec(`UPDATE outbox_events SET body = '{' WHERE name = '3'`)
		require.NoError(t, err)
		check("link/9", 1, 1, 9, []string{"8"}, []string{"4", "5", "6", "7"})

		t.Log("events that were given up")
		broker := outbox.PublisherFunc(func(_ context.Context, e *ordering.Event) error {
			if e.ID == "12" {
				return dispatcher.Permanent(errAway)
			}
			return nil
		})
		_, err = db.Exec(`UPDATE outbox_events SET body = (SELECT body FROM outbox_events WHERE name = '2') WHERE name = '3'`)
		require.NoError(t, err)
		_, stop := start(t, box, broker, outbox.RelayConfig{})
		parked(t, box, 1)
		stop()
		require.NoError(t, box.Skip(t.Context(), "12"))
		check("link/17", 1, 1, 9, []string{"16"}, []string{"13", "14", "15"})

		t.Log("no more than fits into an answer")
		inTx(t, db, func(tx *sql.Tx) {
			for i := range 4 {
				_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: fmt.Sprint("large", i), Payload: make([]byte, 340<<10)},
					keys(fmt.Sprint("large/", i), fmt.Sprint("large/", i+1))...)
				require.NoError(t, err)
			}
		})
		check("large/4", 1, 1, 9, []string{"large3"}, []string{"large1", "large2"})
	})
}
