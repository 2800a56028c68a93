package backup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"pgregory.net/rapid"
)

// What is read as a request has valid events within the bounds, and is written
// as the same request.
func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"events":[{"positions":[{"stream":"a/b","number":5,"end":true}],"payload":"AA==","headers":{"a":"b"}}]}`,
		`{"version":1,"events":[{"id":"a","type":"b","positions":[{"stream":"a","number":1}],"time":"2026-11-28T01:02:03.4+02:00"}]}`,
		`{"version":2}`, `null`, `[]`, ``, `{"version":1,"events":[null]}`, `{"version":1,"events":[{},{},{},{},{}]}`,
		`{"version":1,"events":[{"positions":[{"stream":"%zz"}]}]}`, `{"version":1,"events":`, `{"version":1}{`,
		`{"version":1,"events":[{"positions":[{"stream":"a","number":18446744073709551615}]}]}`, `{"version":1,"events":[]]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 4
		events, size, err := decodeRequest(data, most, 1<<20)
		if err != nil {
			require.Empty(t, events)
			return
		}
		require.NotEmpty(t, events)
		require.LessOrEqual(t, len(events), most)
		require.LessOrEqual(t, size, int64(1<<20))
		for _, e := range events {
			require.NoError(t, e.Validate())
		}
		text, err := encodeRequest(events)
		require.NoError(t, err)
		again, _, err := decodeRequest(text, most, 1<<20)
		require.NoError(t, err)
		more, err := encodeRequest(again)
		require.NoError(t, err)
		require.Equal(t, string(text), string(more))
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"version":1,"results":[{"result":"applied"},{"result":"refused","message":"why"}]}`))
	f.Add([]byte(`{"version":1,"results":[null,{}]}`))
	f.Add([]byte(`{"version":1,"error":{"code":"failed","message":"why","event":3}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		results, err := decodeAnswer(data, 2)
		require.Equal(t, err == nil, len(results) == 2)
		for _, r := range results {
			err := r.err(&ordering.Event{ID: "a"})
			require.Equal(t, r.Result == "refused", dispatcher.IsPermanent(err))
		}
		text, err := decodeError(data)
		require.Equal(t, err == nil, text.Code != "")
	})
}

// Only the right header is let in, whatever else comes.
func FuzzAdmit(f *testing.F) {
	key := Key{ID: "2026", Secret: make([]byte, minToken)}
	const token = Token("a-token-of-the-right-length-12345")
	body := []byte("{}")
	g := newGuard([]Key{key}, []Token{token}, time.Minute)
	f.Add(key.authorization(body, time.Now()))
	f.Add("Bearer " + string(token))
	f.Add("Bearer ")
	f.Add("Interlock-HMAC-SHA256 key=2026,time=0,signature=")
	f.Fuzz(func(t *testing.T, header string) {
		verify, err := g.admit(header)
		if err != nil || header == "Bearer "+string(token) {
			return
		}
		if _, err := verify(body); err != nil {
			return
		}
		right := false
		for skew := -2 * time.Minute; skew <= 2*time.Minute; skew += time.Second {
			right = right || header == key.authorization(body, time.Now().Add(skew))
		}
		assert.True(t, right, header)
	})
}

// Every valid event comes out as it went in.
func TestEveryEventArrivesWhole(t *testing.T) {
	text := rapid.StringN(0, 20, -1).Filter(func(s string) bool { return (&ordering.Event{ID: s, Positions: one}).Validate() == nil })
	rapid.Check(t, func(t *rapid.T) {
		e := &ordering.Event{
			ID: text.Draw(t, "id"), Type: text.Draw(t, "type"), CorrelationID: text.Draw(t, "correlation"), CausationID: text.Draw(t, "causation"),
			Payload: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "payload"),
			Headers: rapid.MapOfN(text, text, 1, 3).Draw(t, "headers"),
			Time:    time.Unix(rapid.Int64Range(0, 1<<37).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
		}
		for i := range rapid.IntRange(1, 12).Draw(t, "positions") {
			stream, err := lockkeys.New(rapid.StringMatching(`[^\x00]{1,5}`).Draw(t, "segment"), string(rune('a'+i)))
			if err != nil {
				t.Skip(err)
			}
			e.Positions = append(e.Positions, ordering.Position{
				Stream: stream, Epoch: rapid.Uint16().Draw(t, "epoch"),
				Number: rapid.Uint64Range(1, ordering.MaxNumber).Draw(t, "number"), End: rapid.Bool().Draw(t, "end")})
		}
		body, err := encodeRequest([]*ordering.Event{e})
		require.NoError(t, err)
		events, _, err := decodeRequest(body, 1, 1<<20)
		require.NoError(t, err)
		require.Equal(t, []*ordering.Event{e}, events)
	})
}

var one = []ordering.Position{{Stream: lockkeys.Must("a"), Number: 1}}
