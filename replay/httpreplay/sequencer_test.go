package httpreplay_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// A sequencer receives every third event only, and the rest over HTTP from a
// server of which two requests out of three fail; one number never existed.
// Every event runs once and in order.
func TestSequencerOverAFlakyServer(t *testing.T) {
	const n = 300
	log := logOf(n)
	log.streams[order].events[99] = nil
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: log, Keys: []httpreplay.Key{newKey}, MaxEvents: 5})
	require.NoError(t, err)
	var requests atomic.Int64
	server := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch requests.Add(1) % 3 {
		case 0:
			handler.ServeHTTP(w, r)
		case 1:
			w.WriteHeader(http.StatusBadGateway)
		case 2:
			panic(http.ErrAbortHandler) // the connection breaks
		}
	}))
	replayer, err := replay.New(replay.Config{
		Sources: []replay.NamedSource{{Name: "log", Source: client(t, server, httpreplay.ClientConfig{})}},
		Backoff: dispatcher.Backoff{Initial: time.Millisecond},
	})
	require.NoError(t, err)

	var ran []uint64 // one stream: one handler at a time
	last := make(chan bool)
	seq, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: ordering.NewMemory(), Replayer: replayer, GapTimeout: time.Millisecond,
		Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
			at, _ := job.Event.On(order)
			ran = append(ran, at.Number)
			if at.Number == n {
				close(last)
			}
			return nil
		},
	})
	require.NoError(t, err)
	for i := 2; i < n; i += 3 {
		if e := log.streams[order].events[i]; e != nil {
			require.NoError(t, seq.Offer(t.Context(), e, nil))
		}
	}
	<-last
	require.NoError(t, seq.Close())
	var want []uint64
	for i := uint64(1); i <= n; i++ {
		if i != 100 {
			want = append(want, i)
		}
	}
	assert.Equal(t, want, ran)
}
