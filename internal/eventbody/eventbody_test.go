package eventbody_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/internal/eventbody"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

var berlin = time.FixedZone("", 3600)

// An event is what it was, whatever it has.
func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 }))
		e := &ordering.Event{
			ID:   rapid.StringN(1, 20, 60).Filter(func(s string) bool { return !strings.ContainsRune(s, 0) }).Draw(t, "id"),
			Type: text.Draw(t, "type"), CorrelationID: text.Draw(t, "correlation"), CausationID: text.Draw(t, "causation"),
			Payload: rapid.SliceOf(rapid.Byte()).Draw(t, "payload"),
			Headers: rapid.MapOfN(text, text, 0, 3).Draw(t, "headers"),
			Time:    time.Unix(rapid.Int64Range(0, 250_000_000_000).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
		}
		if rapid.Bool().Draw(t, "elsewhere") {
			e.Time = e.Time.In(berlin)
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "positions") {
			e.Positions = append(e.Positions, ordering.Position{
				Stream: lockkeys.Must("account", string(rune('a'+i))), Epoch: rapid.Uint16().Draw(t, "epoch"),
				Number: rapid.Uint64Range(1, ordering.MaxNumber).Draw(t, "number"), End: rapid.Bool().Draw(t, "end"),
			})
		}
		if rapid.Bool().Draw(t, "alike") {
			e.ID = e.Positions[0].Stream.String() + e.ID
			e.CausationID = e.ID[:rapid.IntRange(0, len("account/a")).Draw(t, "common")] + e.CausationID
			e.CorrelationID = "a" + e.CorrelationID
		}
		require.NoError(t, e.Validate())
		stored, err := eventbody.Encode(e)
		require.NoError(t, err)
		again, err := eventbody.Decode(e.ID, "", stored)
		require.NoError(t, err)
		same(t, e, again)
	})
}

// same compares events; nothing and an empty value are the same.
func same(t require.TestingT, want, got *ordering.Event) {
	w, g := *want, *got
	require.True(t, w.Time.Equal(g.Time), "%v, %v", w.Time, g.Time)
	_, there := w.Time.Zone()
	_, here := g.Time.Zone()
	require.Equal(t, there, here)
	require.Len(t, g.Payload, len(w.Payload))
	require.Len(t, g.Headers, len(w.Headers))
	if len(w.Payload) == 0 {
		w.Payload, g.Payload = nil, nil
	}
	if len(w.Headers) == 0 {
		w.Headers, g.Headers = nil, nil
	}
	w.Time, g.Time = time.Time{}, time.Time{}
	require.Equal(t, w, g)
}

func event() *ordering.Event {
	return &ordering.Event{
		ID: "order-1-placed", Type: "order-placed", Payload: []byte(`{"quantity":2}`),
		Positions: []ordering.Position{{Stream: lockkeys.Must("order", "1"), Number: 7}},
		Time:      time.Date(2026, 11, 29, 12, 0, 0, 5, time.UTC),
	}
}

// What is stored can be read, however much it is.
func TestTheLargest(t *testing.T) {
	e := event()
	e.Headers = map[string]string{}
	for i := range 200_000 {
		e.Headers[strconv.Itoa(i)] = ""
	}
	e.Positions = nil
	for i := range ordering.MaxPositions {
		e.Positions = append(e.Positions, ordering.Position{Stream: lockkeys.Must("account", strconv.Itoa(i)), Number: ordering.MaxNumber})
	}
	require.NoError(t, e.Validate())
	stored, err := eventbody.Encode(e)
	require.NoError(t, err)
	again, err := eventbody.Decode(e.ID, "", stored)
	require.NoError(t, err)
	same(t, e, again)
}

func TestItIsSmall(t *testing.T) {
	e := event()
	stored, err := eventbody.Encode(e)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(stored)-len(e.Payload)-len(e.Type)-len("/1"), 25)
	assert.Contains(t, string(stored), string(e.Payload), "as it is, for those who look into the table")
}

// What an event repeats of its ID and of its stream takes no more than three bytes each.
func TestWhatIsRepeated(t *testing.T) {
	e := event()
	e.ID = "x"
	plain, err := eventbody.Encode(e)
	require.NoError(t, err)
	e.ID = "order/1/7"
	e.CorrelationID, e.CausationID = "1", "order/1/6"
	stored, err := eventbody.Encode(e)
	require.NoError(t, err)
	assert.Equal(t, len(plain)-len("order/1")+3+4, len(stored), "fields of three and four bytes")
	again, err := eventbody.Decode(e.ID, "", stored)
	require.NoError(t, err)
	same(t, e, again)
	_, err = eventbody.Decode("order", "", stored)
	require.ErrorContains(t, err, "stream of position 1", "it belongs to its ID")
}

// A body from before that, with all texts in full, can be read.
func TestOlderBody(t *testing.T) {
	e := event()
	e.CorrelationID, e.CausationID = "1", "order-0"
	again, err := eventbody.Decode(e.ID, "", []byte("\xa6\x01\x6corder-placed\x02\x81\x84\x67order/1\x00\x07\xf4"+
		"\x03\x4e"+`{"quantity":2}`+"\x05\x83\x1a\x6b\x0c\x13\xc0\x05\x00\x06\x611\x07\x67order-0"))
	require.NoError(t, err)
	same(t, e, again)
}

// A type that is kept elsewhere need not be in the body.
func TestTypeBesideTheBody(t *testing.T) {
	e := event()
	bare := *e
	bare.Type = ""
	stored, err := eventbody.Encode(&bare)
	require.NoError(t, err)
	again, err := eventbody.Decode(e.ID, e.Type, stored)
	require.NoError(t, err)
	same(t, e, again)
}

func TestBodyInJSON(t *testing.T) {
	e := event()
	stored, err := json.Marshal(e)
	require.NoError(t, err)
	again, err := eventbody.Decode(e.ID, "", stored)
	require.NoError(t, err)
	same(t, e, again)
}

func TestWhatIsNoEvent(t *testing.T) {
	good, err := eventbody.Encode(event())
	require.NoError(t, err)
	without := event()
	without.Positions = nil
	none, err := eventbody.Encode(without)
	require.NoError(t, err)
	for name, stored := range map[string][]byte{
		"empty":                nil,
		"cut off":              good[:len(good)-1],
		"something behind it":  append(append([]byte{}, good...), 0),
		"no position":          none,
		"text":                 []byte("-"),
		"a number":             {0x01},
		"JSON, cut off":        []byte(`{"positions"`),
		"JSON without numbers": []byte(`{"id":"a"}`),
		"an unknown field":     {0xa1, 0x18, 99, 0x01},
		"a field twice":        {0xa2, 0x01, 0x61, 'a', 0x01, 0x61, 'b'},
		"a tag":                {0xc0, 0xa0},
		"more than the ID has": {0xa1, 0x08, 0x81, 0x84, 0x62, 2, 'b', 0, 1, 0xf4},
		"no length":            {0xa1, 0x08, 0x81, 0x84, 0x60, 0, 1, 0xf4},
		"stream of no name":    {0xa1, 0x02, 0x81, 0x84, 0x64, 'a', '/', '/', 'b', 0, 1, 0xf4},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := eventbody.Decode("a", "x", stored)
			assert.Error(t, err)
		})
	}
}

// A time that no calendar has is no reason to panic.
func TestStrangeTime(t *testing.T) {
	e := event()
	e.Time = time.Unix(math.MaxInt64, 0)
	stored, err := eventbody.Encode(e)
	require.NoError(t, err)
	_, err = eventbody.Decode(e.ID, "", stored)
	assert.ErrorIs(t, err, ordering.ErrTime)
}

func FuzzDecode(f *testing.F) {
	good, err := eventbody.Encode(event())
	require.NoError(f, err)
	f.Add(good)
	f.Add([]byte(`{"positions":[{"stream":"a","number":1}]}`))
	f.Fuzz(func(t *testing.T, stored []byte) {
		e, err := eventbody.Decode("a", "x", stored)
		if err != nil {
			return
		}
		require.NoError(t, e.Validate())
		again, err := eventbody.Encode(e)
		require.NoError(t, err)
		second, err := eventbody.Decode(e.ID, "", again)
		require.NoError(t, err)
		same(t, e, second)
	})
}

func BenchmarkDecode(b *testing.B) {
	cbor, err := eventbody.Encode(event())
	require.NoError(b, err)
	text, err := json.Marshal(event())
	require.NoError(b, err)
	for name, stored := range map[string][]byte{"CBOR": cbor, "JSON": text} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := eventbody.Decode("order-1-placed", "order-placed", stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
