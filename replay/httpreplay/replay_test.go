package httpreplay_test

import (
	"context"
	"fmt"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
	"github.com/interlock-go/interlock/replay/httpreplay"
)

// Every field of an event comes over as it is, and so do numbers and keys of
// any kind.
func TestEventsComeOver(t *testing.T) {
	odd := lockkeys.Must("a/b&c=d+e%", "ü \xff\n", "#?")
	e := &ordering.Event{
		ID: "e-1 \u2028 <&>", Type: "transfer",
		Positions: []ordering.Position{{Stream: odd, Epoch: 7, Number: ordering.MaxNumber, End: true}, {Stream: order, Number: 1}},
		Payload:   []byte{0, 1, 0xff}, Headers: map[string]string{"trace": "€"},
		Time:          time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC),
		CorrelationID: "c", CausationID: "d",
	}
	never := ordering.Range{Stream: odd, Epoch: 7, From: 3, To: math.MaxUint64}
	var got ordering.Range
	server := serve(t, httpreplay.ServerConfig{Source: replay.SourceFunc(
		func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
			got = asked
			return replay.Answer{Events: []*ordering.Event{e}, NoSuch: []ordering.Range{never}}, nil
		})})
	asked := ordering.Range{Stream: odd, Epoch: 7, From: ordering.MaxNumber - 1, To: ordering.MaxNumber}
	answer, err := client(t, server, httpreplay.ClientConfig{}).Fetch(t.Context(), asked)
	require.NoError(t, err)
	assert.Equal(t, []*ordering.Event{e}, answer.Events)
	assert.Equal(t, []ordering.Range{never}, answer.NoSuch)
	assert.Equal(t, asked, got)
}

// Events before those of the range come over as far as the server's bounds and the
// request leave room, the last ones first.
func TestEventsBefore(t *testing.T) {
	log := logOf(2)
	var before []*ordering.Event
	for i := range uint64(4) {
		before = append(before, &ordering.Event{ID: fmt.Sprint(i), Positions: []ordering.Position{{Stream: lockkeys.Must("x"), Number: i + 1}}})
	}
	notUTF8 := &ordering.Event{ID: "\xff", Positions: before[1].Positions}
	for _, c := range []struct {
		name            string
		before          []*ordering.Event
		asked, most     int // events in an answer
		maxBytes, bring int
	}{
		{"none are welcome", before, 0, 10, 1000, 0},
		{"all", before, 9, 10, 1000, 4},
		{"as many as are welcome", before, 3, 10, 1000, 3},
		{"more than can be asked for", before, 1 << 40, 10, 1000, 4},
		{"as many as an answer may have", before, 9, 4, 1000, 2},
		{"no room at all", before, 9, 2, 1000, 0},
		{"as much as an answer may have", before, 9, 10, 300, 2},
		{"one cannot be written", []*ordering.Event{before[0], notUTF8, before[2], before[3]}, 9, 10, 1000, 2},
		{"one is missing", []*ordering.Event{before[0], nil, before[2], before[3]}, 9, 10, 1000, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := serve(t, httpreplay.ServerConfig{MaxEvents: c.most, MaxBytes: c.maxBytes, Source: replay.SourceFunc(
				func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
					answer, err := log.Fetch(ctx, asked)
					answer.Before = c.before
					return answer, err
				})})
			answer, err := client(t, server, httpreplay.ClientConfig{}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 2, Before: c.asked})
			require.NoError(t, err)
			assert.Len(t, answer.Events, 2)
			if c.bring == 0 {
				assert.Empty(t, answer.Before)
			} else {
				assert.Equal(t, before[4-c.bring:], answer.Before)
			}
		})
	}
}

// An answer that is cut has nothing that comes only before what is left out, which a
// replayer would refuse, again and again.
func TestEventsBeforeWhatIsCut(t *testing.T) {
	log, x := logOf(2), lockkeys.Must("x")
	large := log.streams[order].events[1]
	large.Payload, large.Positions = make([]byte, 600), append(large.Positions, ordering.Position{Stream: x, Number: 2})
	before := &ordering.Event{ID: "before", Positions: []ordering.Position{{Stream: x, Number: 1}}}
	for name, cfg := range map[string]httpreplay.ServerConfig{"bytes": {MaxBytes: 950}, "events": {MaxEvents: 1}, "none": {}} {
		t.Run(name, func(t *testing.T) {
			cfg.Source = replay.SourceFunc(func(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
				answer, err := log.Fetch(ctx, asked)
				if asked.To >= 2 && asked.Before > 0 {
					answer.Before = []*ordering.Event{before}
				}
				return answer, err
			})
			r, err := replay.New(replay.Config{Attempts: 1, Sources: []replay.NamedSource{{Name: "server", Source: client(t, serve(t, cfg), httpreplay.ClientConfig{})}}})
			require.NoError(t, err)
			var got []string
			_, err = r.Replay(t.Context(), ordering.Range{Stream: order, From: 1, To: 2, Before: 4}, func(_ context.Context, events []*ordering.Event) error {
				for _, e := range events {
					if e.ID != "before" {
						got = append(got, e.ID)
					}
				}
				return nil
			})
			require.NoError(t, err)
			assert.Equal(t, []string{"e-1", "e-2"}, got)
		})
	}
}

// A replayer gets a long range through a server with narrow bounds, whichever
// of them it is that cuts the answers.
func TestReplayInParts(t *testing.T) {
	for name, cfg := range map[string]httpreplay.ServerConfig{
		"events": {MaxEvents: 7}, "bytes": {MaxBytes: 1000}, "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			log := logOf(100)
			log.streams[order].events[49] = nil
			cfg.Source = log
			r, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "log", Source: client(t, serve(t, cfg), httpreplay.ClientConfig{})}}})
			require.NoError(t, err)
			var got []*ordering.Event
			answer, err := r.Replay(t.Context(), ordering.Range{Stream: order, From: 5, To: 100}, func(_ context.Context, events []*ordering.Event) error {
				got = append(got, events...)
				return nil
			})
			require.NoError(t, err)
			want := append(log.streams[order].events[4:49:49], log.streams[order].events[50:]...)
			assert.ElementsMatch(t, want, got)
			assert.Equal(t, []ordering.Range{{Stream: order, From: 50, To: 50}}, answer.NoSuch)
			assert.Equal(t, name == "none", answer.Attempts == 1)
		})
	}
}

// A gap is as wide as a producer's mistake made it, and the first millions of
// its numbers are not kept any more: all that the source still has behind them
// comes, and what never existed is told, though the source tells all that it
// knows of each time and an answer has room for a part of it.
func TestWideRange(t *testing.T) {
	const pruned, step, last = 3 << 20, 1 << 19, 1 << 40
	var kept []*ordering.Event // every number that step divides, up to 16 of them
	for n := uint64(pruned + step); len(kept) < 16; n += step {
		kept = append(kept, &ordering.Event{ID: fmt.Sprint(n), Positions: []ordering.Position{{Stream: order, Number: n}}})
	}
	source := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (a replay.Answer, err error) {
		never := pruned + uint64(1) // the first number behind the event before
		for _, e := range kept {
			p, _ := e.On(asked.Stream)
			n := p.Number
			if asked.Has(p) {
				a.Events = append(a.Events, e)
			}
			a.NoSuch = append(a.NoSuch, ordering.Range{Stream: asked.Stream, From: never, To: n - 1})
			never = n + 1
		}
		a.NoSuch = append(a.NoSuch, ordering.Range{Stream: asked.Stream, From: never, To: last})
		if asked.To <= pruned {
			return replay.Answer{}, replay.ErrNotRetained
		}
		return a, nil
	})
	c := client(t, serve(t, httpreplay.ServerConfig{Source: source, MaxEvents: 5}), httpreplay.ClientConfig{})
	r, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "log", Source: c}}})
	require.NoError(t, err)
	var got []*ordering.Event
	answer, err := r.Replay(t.Context(), ordering.Range{Stream: order, From: 1, To: last}, func(_ context.Context, events []*ordering.Event) error {
		got = append(got, events...)
		return nil
	})
	var unanswered *replay.UnansweredError
	require.ErrorAs(t, err, &unanswered)
	require.ErrorIs(t, err, replay.ErrNotRetained)
	assert.Equal(t, []ordering.Range{{Stream: order, From: 1, To: pruned}}, unanswered.Missing)
	assert.ElementsMatch(t, kept, got)
	var never uint64
	for _, r := range answer.NoSuch {
		never += r.To - r.From + 1
	}
	assert.Equal(t, uint64(last-pruned-len(kept)), never)
}

// Both sides agree on what never existed, what is not kept any more, and what
// does not exist yet. Only the first is an answer.
func TestNeverOrNotAnyMore(t *testing.T) {
	log := logOf(10)
	log.streams[order].pruned = 4
	log.streams[order].events[6] = nil
	c := client(t, serve(t, httpreplay.ServerConfig{Source: log}), httpreplay.ClientConfig{})

	a, err := c.Fetch(t.Context(), ordering.Range{Stream: order, From: 7, To: 7})
	require.NoError(t, err)
	assert.Equal(t, replay.Answer{NoSuch: []ordering.Range{{Stream: order, From: 7, To: 7}}}, a)

	_, err = c.Fetch(t.Context(), ordering.Range{Stream: order, From: 2, To: 3})
	require.ErrorIs(t, err, replay.ErrNotRetained)
	assert.False(t, dispatcher.IsPermanent(err))
	assert.ErrorContains(t, err, "/replay?from=2&stream=order%2F7&to=3&version=1: status 410: not_retained: replay: events are not retained any more")

	_, err = c.Fetch(t.Context(), ordering.Range{Stream: order, From: 11, To: 12})
	require.ErrorIs(t, err, replay.ErrNotAssigned)
	assert.False(t, dispatcher.IsPermanent(err))

	r, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "log", Source: c}}, Backoff: dispatcher.Backoff{Initial: 1}})
	require.NoError(t, err)
	answer, err := r.Replay(t.Context(), ordering.Range{Stream: order, From: 3, To: 12}, func(context.Context, []*ordering.Event) error { return nil })
	var unanswered *replay.UnansweredError
	require.ErrorAs(t, err, &unanswered)
	assert.Equal(t, []ordering.Range{{Stream: order, From: 3, To: 4}, {Stream: order, From: 11, To: 12}}, unanswered.Missing)
	assert.Equal(t, []ordering.Range{{Stream: order, From: 7, To: 7}}, answer.NoSuch)
}

// TLS is the business of the http.Client and the http.Server.
func TestTLS(t *testing.T) {
	handler, err := httpreplay.NewServer(httpreplay.ServerConfig{Source: logOf(3), Keys: []httpreplay.Key{newKey}})
	require.NoError(t, err)
	server := httptest.NewTLSServer(handler)
	defer server.Close()
	a, err := client(t, server, httpreplay.ClientConfig{}).Fetch(t.Context(), ordering.Range{Stream: order, From: 1, To: 3})
	require.NoError(t, err)
	assert.Len(t, a.Events, 3)
}
