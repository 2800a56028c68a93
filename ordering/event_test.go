package ordering

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

// positions makes n positions, each on a stream of its own.
func positions(n int) []Position {
	list := make([]Position, n)
	for i := range list {
		list[i] = Position{Stream: lockkeys.Must("s", fmt.Sprint(i)), Number: uint64(i + 1)}
	}
	return list
}

func TestGoodEvents(t *testing.T) {
	one := positions(1)
	for name, e := range map[string]Event{
		"one position":            {Positions: one},
		"the root as a stream":    {Positions: []Position{{Number: 1}}},
		"the largest number":      {Positions: []Position{{Stream: key("a"), Number: MaxNumber, End: true}}},
		"a stream and its parent": {Positions: []Position{{Stream: key("a"), Number: 1}, {Stream: key("a/b"), Number: 1}}},
		"a few positions":         {Positions: positions(8)},
		"more than a few":         {Positions: positions(9)},
		"as many as there may be": {Positions: positions(MaxPositions)},
		"the longest ID":          {ID: strings.Repeat("x", MaxID), Positions: one},
		"the longest stream":      {Positions: []Position{{Stream: lockkeys.Must("a", strings.Repeat("\xff", MaxStream-2)), Number: 1}}},
		"any bytes as payload":    {Positions: one, Payload: []byte{0, 0xff}},
		"any text elsewhere":      {ID: "№ 1\n", Type: "тип", Headers: map[string]string{"": "\u202e"}, CorrelationID: " ", CausationID: "\ufffd", Positions: one},
		"the first year":          {Positions: one, Time: time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)},
		"the last year":           {Positions: one, Time: time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.FixedZone("", -23*3600))},
	} {
		assert.NoError(t, e.Validate(), name)
	}
}

func TestBadEvents(t *testing.T) {
	one := positions(1)
	a := func(numbers ...uint64) (list []Position) {
		for _, n := range numbers {
			list = append(list, Position{Stream: key("client/7"), Number: n})
		}
		return list
	}
	long := lockkeys.Must(strings.Repeat("k", MaxStream+1))
	for name, tt := range map[string]struct {
		event Event
		want  error
		says  string
	}{
		"no position":         {Event{ID: "x"}, ErrNoPosition, `event "x": no position`},
		"nothing at all":      {Event{}, ErrNoPosition, `event "": no position`},
		"too many positions":  {Event{Positions: positions(MaxPositions + 1)}, ErrTooManyPositions, "stream s/4096, number 4097: more than 4096"},
		"a long ID":           {Event{ID: strings.Repeat("x", MaxID+1), Positions: one}, ErrLongID, "longer than 1024"},
		"number 0":            {Event{Positions: a(0)}, ErrNumber, `event "client/7=0": stream client/7, number 0: number is not from 1`},
		"number 0 on root":    {Event{Positions: []Position{{}}}, ErrNumber, `event "/=0": number is not from 1`},
		"number too large":    {Event{ID: "x", Positions: a(MaxNumber + 1)}, ErrNumber, "100000000000001"},
		"also of an epoch":    {Event{Positions: []Position{{Epoch: 2, Number: MaxNumber + 1}}}, ErrNumber, "100000000000001 of epoch 2"},
		"the largest uint64":  {Event{Positions: a(math.MaxUint64)}, ErrNumber, "18446744073709551615"},
		"a second number 0":   {Event{Positions: append(positions(3), a(0)...)}, ErrNumber, "stream client/7, number 0"},
		"one stream twice":    {Event{Positions: a(5, 6)}, ErrRepeatedStream, "stream client/7, number 6: two positions"},
		"one position twice":  {Event{Positions: a(5, 5)}, ErrRepeatedStream, "two positions"},
		"twice among many":    {Event{Positions: append(append(a(5), positions(20)...), a(6)...)}, ErrRepeatedStream, "client/7, number 6"},
		"root twice":          {Event{Positions: []Position{{Number: 1}, {Number: 2}}}, ErrRepeatedStream, "stream /, number 2"},
		"a long stream":       {Event{Positions: []Position{{Stream: long, Number: 1}}}, ErrLongStream, "longer than 512"},
		"an ID of bytes":      {Event{ID: "\xff", Positions: one}, ErrText, `event "\xff": text that is not UTF-8`},
		"NUL in the ID":       {Event{ID: "a\x00b", Positions: one}, ErrText, `event "a\x00b"`},
		"a type of bytes":     {Event{Type: "\xff", Positions: one}, ErrText, `event "s/0=1"`},
		"a header's name":     {Event{Headers: map[string]string{"\xff": ""}, Positions: one}, ErrText, "payload"},
		"a header's value":    {Event{Headers: map[string]string{"a": "\xff"}, Positions: one}, ErrText, "payload"},
		"correlation":         {Event{CorrelationID: "\x00", Positions: one}, ErrText, "payload"},
		"causation":           {Event{CausationID: "\xc3", Positions: one}, ErrText, "payload"},
		"the year 10000":      {Event{Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Positions: one}, ErrTime, "years 0 to 9999"},
		"before the year 0":   {Event{Time: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), Positions: one}, ErrTime, "years 0 to 9999"},
		"a zone out of range": {Event{Time: time.Now().In(time.FixedZone("", 24*3600)), Positions: one}, ErrTime, "a day or more"},
	} {
		err := tt.event.Validate()
		var refused *EventError
		require.ErrorAs(t, err, &refused, name)
		assert.ErrorIs(t, err, tt.want, name)
		assert.ErrorContains(t, err, tt.says, name)
		assert.Less(t, len(err.Error()), 700, name)
	}
}

// A time fits when the standard library can write it.
func TestTimesThatHaveText(t *testing.T) {
	const day = 24 * 60 * 60
	rapid.Check(t, func(t *rapid.T) {
		zone := time.FixedZone("", rapid.OneOf(rapid.IntRange(-2*day, 2*day), rapid.SampledFrom([]int{-day, 1 - day, day - 1, day})).Draw(t, "zone"))
		year := rapid.OneOf(rapid.IntRange(-2, 10002), rapid.SampledFrom([]int{-1, 0, 9999, 10000})).Draw(t, "year")
		at := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.Int64Range(-day, day).Draw(t, "seconds")) * time.Second).In(zone)
		_, err := at.MarshalText()
		e := Event{Time: at, Positions: []Position{{Stream: lockkeys.Must("a"), Number: 1}}}
		require.Equal(t, err == nil || at.IsZero(), e.Validate() == nil, "%v", at) // no time at all is left out
	})
}

// A good event can be held, in any store.
func TestAGoodEventIsWrittenAsJSONAndReadBack(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "x", "\xff", "a\x00", "<&>\u2028"}))
	event := rapid.Custom(func(t *rapid.T) Event {
		e := Event{ID: text.Draw(t, "id"), Type: text.Draw(t, "type"), Positions: genPositions.Draw(t, "positions"),
			CorrelationID: text.Draw(t, "correlation"), CausationID: text.Draw(t, "causation")}
		if payload := rapid.SliceOf(rapid.Byte()).Draw(t, "payload"); len(payload) > 0 {
			e.Payload = payload
		}
		if headers := rapid.MapOf(text, text).Draw(t, "headers"); len(headers) > 0 {
			e.Headers = headers
		}
		if rapid.Bool().Draw(t, "timed") {
			seconds := rapid.Int64Range(-1e11, 3e11).Draw(t, "seconds") // from before year 0 to after 9999
			e.Time = time.Unix(seconds, rapid.Int64Range(0, 999999999).Draw(t, "ns")).UTC()
		}
		return e
	})
	rapid.Check(t, func(t *rapid.T) {
		e := event.Draw(t, "event")
		if err := e.Validate(); err != nil {
			require.True(t, !e.isText() || e.Time.Year() < 0 || e.Time.Year() > 9999, err)
			return
		}
		written, err := json.Marshal(e)
		require.NoError(t, err)
		var read Event
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, e, read)
		require.Equal(t, e.Name(), read.Name())
	})
}

func TestJSONOfAnEvent(t *testing.T) {
	e := Event{ID: "x", Positions: []Position{{Stream: key("client/4%2F2"), Number: 7, End: true}}, Payload: []byte("hi"),
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	written, err := json.Marshal(e)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"x","positions":[{"stream":"client/4%2F2","number":7,"end":true}],"payload":"aGk=","time":"2026-01-02T03:04:05Z"}`, string(written))

	for _, bad := range []string{
		`{"positions":[{"stream":"a//b","number":1}]}`,
		`{"positions":[{"stream":"a","number":-1}]}`,
		`{"positions":[{"stream":"a","number":1.5}]}`,
		`{"positions":[{"stream":"a","number":18446744073709551616}]}`,
	} {
		require.Error(t, json.Unmarshal([]byte(bad), &Event{}), bad)
	}
}

func TestNameOfAnEvent(t *testing.T) {
	e := ev("", "client/42/account/7=5, client/8/account/1=9;end")
	assert.Equal(t, "client/42/account/7=5, client/8/account/1=9;end", e.Name())
	e.ID = "x"
	assert.Equal(t, "x", e.Name())

	many, others := Event{Positions: positions(400)}, Event{Positions: positions(401)}
	assert.Regexp(t, "^sha256:[0-9a-f]{64}$", many.Name())
	assert.NotEqual(t, many.Name(), others.Name())
	assert.Equal(t, many.Name(), (&Event{Positions: positions(400)}).Name())
}

func TestNumberOnAStream(t *testing.T) {
	e := ev("x", "a=5, a/b=9")
	p, ok := e.On(key("a/b"))
	assert.True(t, ok)
	assert.Equal(t, Position{Stream: key("a/b"), Number: 9}, p)
	_, ok = e.On(key("b"))
	assert.False(t, ok)
}

func TestSizeCountsAllParts(t *testing.T) {
	base := (&Event{}).Size()
	for _, e := range []Event{
		{ID: "0123456789"}, {Type: "0123456789"}, {Payload: make([]byte, 10)}, {CorrelationID: "0123456789"},
		{CausationID: "0123456789"}, {Headers: map[string]string{"01234": "56789"}}, {Positions: positions(1)},
	} {
		assert.GreaterOrEqual(t, e.Size(), base+10, "%+v", e)
	}
}

func TestValidateOfAFewPositionsDoesNotAllocate(t *testing.T) {
	e := Event{ID: "x", Type: "order.placed", Positions: positions(8), Headers: map[string]string{"a": "b"}, Time: time.Now()}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if e.Validate() != nil {
			panic("refused")
		}
	}))
}
