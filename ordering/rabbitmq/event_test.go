package rabbitmq_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/rabbitmq"
)

// delivered returns a message as a consumer gets it.
func delivered(m amqp.Publishing, routingKey string) amqp.Delivery {
	return amqp.Delivery{
		Headers: m.Headers, MessageId: m.MessageId, Type: m.Type, CorrelationId: m.CorrelationId,
		Timestamp: m.Timestamp.Truncate(time.Second), RoutingKey: routingKey, Body: m.Body,
	}
}

// requireSame requires that two events say the same.
func requireSame(t require.TestingT, want, got *ordering.Event) {
	assert.Equal(t, want.Name(), got.ID)
	assert.True(t, want.Time.Equal(got.Time), "%v is not %v", got.Time, want.Time)
	named, timed := *want, *got
	named.ID, timed.Time, timed.Delivery = want.Name(), want.Time, want.Delivery
	require.Equal(t, named, timed)
}

// TestRoundtrip: whatever an event holds, it is the same once it was a message.
func TestRoundtrip(t *testing.T) {
	text := rapid.OneOf(rapid.StringMatching(`[a-zæ"/ ]{0,12}`), rapid.StringMatching(`é{100,300}`))
	header := rapid.StringMatching(`[a-z-]{0,20}`)
	segment := rapid.StringMatching(`[a-z0-9/%,;=æ ]{1,8}`)
	rapid.Check(t, func(t *rapid.T) {
		e := &ordering.Event{
			ID: text.Draw(t, "ID"), Type: text.Draw(t, "type"), CorrelationID: text.Draw(t, "correlation"), CausationID: text.Draw(t, "causation"),
			Payload: rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "payload"),
			Headers: rapid.MapOfN(header, text, 1, 4).Draw(t, "headers"),
		}
		if rapid.Bool().Draw(t, "time") {
			zone := time.FixedZone("", rapid.IntRange(-50_000, 50_000).Draw(t, "zone"))
			e.Time = time.Unix(rapid.Int64Range(-60_000_000_000, 250_000_000_000).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
		}
		streams := rapid.SliceOfNDistinct(rapid.SliceOfN(segment, 1, 3), 1, 20, func(s []string) string { return strings.Join(s, "\x00") }).Draw(t, "streams")
		for _, s := range streams {
			e.Positions = append(e.Positions, ordering.Position{
				Stream: lockkeys.Must(s...), Epoch: rapid.Uint16().Draw(t, "epoch"),
				Number: rapid.Uint64Range(1, ordering.MaxNumber).Draw(t, "number"), End: rapid.Bool().Draw(t, "end")})
		}
		require.NoError(t, e.Validate())
		m := rabbitmq.Message(e)
		assert.LessOrEqual(t, max(len(m.MessageId), len(m.Type), len(m.CorrelationId)), 255, "properties have no room for more")
		assert.Equal(t, amqp.Persistent, m.DeliveryMode)
		got, err := rabbitmq.EventOf(delivered(m, "any.key"))
		require.NoError(t, err)
		requireSame(t, e, got)
	})
}

// TestForeignMessages: messages of producers who do not have this package.
func TestForeignMessages(t *testing.T) {
	on := func(stream string, number uint64) []ordering.Position {
		return []ordering.Position{{Stream: lockkeys.MustParse(stream), Number: number}}
	}
	at := time.Unix(1_790_000_000, 0)
	for name, test := range map[string]struct {
		message amqp.Delivery
		want    ordering.Event
	}{
		"bare number": {
			amqp.Delivery{Exchange: "orders", RoutingKey: "order/42", Headers: amqp.Table{"X-Sequence-ID": "7"}},
			ordering.Event{Positions: on("order/42", 7)}},
		"an integer": {
			amqp.Delivery{Exchange: "orders", RoutingKey: "order/42", Headers: amqp.Table{"X-Sequence-ID": int32(7)}},
			ordering.Event{Positions: on("order/42", 7)}},
		"a long integer": {
			amqp.Delivery{Exchange: "orders", RoutingKey: "order.42", Headers: amqp.Table{"X-Sequence-ID": int64(1 << 40)}},
			ordering.Event{Positions: on("order.42", 1<<40)}},
		"whole seconds": {
			amqp.Delivery{Timestamp: at, Headers: amqp.Table{"X-Sequence-ID": "a=1"}},
			ordering.Event{Time: at, Positions: on("a", 1)}},
		"headers of the broker's": {
			amqp.Delivery{Headers: amqp.Table{"X-Sequence-ID": "a=1", "x-death": []any{amqp.Table{"count": int64(1)}}, "x-delivery-count": int64(3), "x-first-death-queue": "q"}},
			ordering.Event{Positions: on("a", 1), Headers: map[string]string{"x-first-death-queue": "q"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := rabbitmq.EventOf(test.message)
			require.NoError(t, err)
			test.want.Delivery = ordering.FirstDelivery
			assert.Equal(t, test.want, *got)
		})
	}
}

// TestNumbersOfAnyType: clients send a number in the smallest type that has room
// for it, or in the only one that their language has.
func TestNumbersOfAnyType(t *testing.T) {
	for _, number := range []any{
		int8(7), uint8(7), int16(7), uint16(7), int32(7), uint32(7), int64(7), float32(7), float64(7), "7", []byte("7"),
	} {
		m := amqp.Delivery{Exchange: "orders", RoutingKey: "order/42", Headers: amqp.Table{"X-Sequence-ID": number}}
		e, err := rabbitmq.EventOf(m)
		require.NoError(t, err, "%T", number)
		assert.Equal(t, []ordering.Position{{Stream: lockkeys.Must("order", "42"), Number: 7}}, e.Positions, "%T", number)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, ordering.MaxNumber).Draw(t, "number")
		e, err := rabbitmq.EventOf(amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": float64(n)}})
		require.NoError(t, err)
		require.EqualValues(t, n, e.Positions[0].Number)
	})
	_, err := rabbitmq.EventOf(amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"x-sequence-id": "7"}})
	require.ErrorContains(t, err, "case-sensitive")
}

// TestABareNumberOfADeadLetter: the broker publishes dead letters of many streams with one
// routing key, if a queue is declared so. Their bare numbers would be those of one stream,
// and what looks alike would be taken for a duplicate.
func TestABareNumberOfADeadLetter(t *testing.T) {
	died := func(keys ...any) []any {
		return []any{amqp.Table{"queue": "orders", "reason": "expired", "count": int64(1), "exchange": "orders", "routing-keys": keys}}
	}
	for name, test := range map[string]struct {
		deaths any
		number string
		fails  bool
	}{
		"with another key":              {died("order/42"), "7", true},
		"with several":                  {died("order/42", "audit"), "7", true},
		"with another key, some deaths": {append(died("order/42"), died("again")...), "7", true},
		"with none":                     {died(), "7", true},
		"with its own":                  {died("again"), "7", false},
		"with its own and others":       {died("again", "audit"), "7", false},
		"with another key, its own was a copy's (CC)": {died("order/42", "again"), "7", true},
		"of the default exchange, whose key is a queue": {
			[]any{amqp.Table{"queue": "again", "reason": "expired", "count": int64(1), "exchange": "", "routing-keys": []any{"again"}}}, "7", true},
		"with another key, by name": {died("order/42"), "order/42=7", false},
		"of another kind":           {"yes", "7", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rabbitmq.EventOf(amqp.Delivery{Exchange: "dead", RoutingKey: "again", Headers: amqp.Table{"X-Sequence-ID": test.number, "x-death": test.deaths}})
			if test.fails {
				require.ErrorAs(t, err, new(*rabbitmq.MessageError))
				require.ErrorContains(t, err, "STREAM=NUMBER")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestABareNumberOfAConsumersDeadLetter: these have one routing key too.
func TestABareNumberOfAConsumersDeadLetter(t *testing.T) {
	letter := amqp.Delivery{Exchange: "dead", RoutingKey: "letters", Headers: amqp.Table{"X-Sequence-ID": int32(7), rabbitmq.QueueHeader: "orders"}}
	_, err := rabbitmq.EventOf(letter)
	require.ErrorContains(t, err, "STREAM=NUMBER")
	letter.Headers["X-Sequence-ID"] = "order/42=7"
	_, err = rabbitmq.EventOf(letter)
	require.NoError(t, err)
}

// TestWhatAnEventCannotHoldIsLeftOut: a message is not refused for what others
// have put on it.
func TestWhatAnEventCannotHoldIsLeftOut(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	position := []ordering.Position{{Stream: lockkeys.Must("a"), Number: 1}}
	deep := amqp.Table{}
	for range 30 {
		deep = amqp.Table{"n": deep}
	}
	for name, test := range map[string]struct {
		message amqp.Delivery
		headers amqp.Table
		want    ordering.Event
		left    []string
	}{
		"a timestamp in milliseconds":  {amqp.Delivery{Timestamp: time.Unix(now.UnixMilli(), 0)}, nil, ordering.Event{}, []string{"property timestamp"}},
		"a timestamp in nanoseconds":   {amqp.Delivery{Timestamp: time.Unix(now.UnixNano(), 0)}, nil, ordering.Event{}, []string{"property timestamp"}},
		"the largest timestamp":        {amqp.Delivery{Timestamp: time.Unix(math.MaxInt64, 0)}, nil, ordering.Event{}, []string{"property timestamp"}},
		"a timestamp before all":       {amqp.Delivery{Timestamp: time.Unix(math.MinInt64, 0)}, nil, ordering.Event{}, []string{"property timestamp"}},
		"a timestamp before 1970":      {amqp.Delivery{Timestamp: time.Unix(-1, 0)}, nil, ordering.Event{}, []string{"property timestamp"}},
		"a time that is none":          {amqp.Delivery{Timestamp: now}, amqp.Table{"x-event-time": "yesterday"}, ordering.Event{Time: now}, []string{"x-event-time"}},
		"a time that is a number":      {amqp.Delivery{}, amqp.Table{"x-event-time": int32(1)}, ordering.Event{}, []string{"x-event-time"}},
		"the exact time":               {amqp.Delivery{Timestamp: time.Unix(now.UnixMilli(), 0)}, amqp.Table{"x-event-time": now.UTC().Format(time.RFC3339)}, ordering.Event{Time: now.UTC()}, []string{"property timestamp"}},
		"a cause that is a number":     {amqp.Delivery{}, amqp.Table{"x-event-causation-id": int32(1)}, ordering.Event{}, []string{"x-event-causation-id"}},
		"a header with a NUL":          {amqp.Delivery{}, amqp.Table{"trace": "abc\x00", "other": "kept"}, ordering.Event{Headers: map[string]string{"other": "kept"}}, []string{"trace"}},
		"a header that is no UTF-8":    {amqp.Delivery{}, amqp.Table{"x": "\xc0\x0b\xff"}, ordering.Event{}, []string{"x"}},
		"a name that is no UTF-8":      {amqp.Delivery{}, amqp.Table{"\xff": "x"}, ordering.Event{}, []string{"\xff"}},
		"bytes that are text":          {amqp.Delivery{}, amqp.Table{"x": []byte("text")}, ordering.Event{Headers: map[string]string{"x": "text"}}, nil},
		"bytes that are not":           {amqp.Delivery{}, amqp.Table{"x": []byte{0xff}}, ordering.Event{}, []string{"x"}},
		"numbers and truth":            {amqp.Delivery{}, amqp.Table{"i": int8(-7), "u": uint32(7), "f": 1.5, "b": true}, ordering.Event{Headers: map[string]string{"i": "-7", "u": "7", "f": "1.5", "b": "true"}}, nil},
		"tables, lists and nothing":    {amqp.Delivery{}, amqp.Table{"t": deep, "l": []any{"x"}, "n": nil}, ordering.Event{}, []string{"l", "n", "t"}},
		"a correlation that is binary": {amqp.Delivery{CorrelationId: "\x00\x01"}, nil, ordering.Event{}, []string{"property correlation-id"}},
		"an ID that is binary": {amqp.Delivery{MessageId: "\x00\xff"}, nil,
			ordering.Event{ID: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("\x00\xff")))}, []string{"property message-id"}},
	} {
		t.Run(name, func(t *testing.T) {
			test.message.Headers = amqp.Table{"X-Sequence-ID": "a=1"}
			maps.Copy(test.message.Headers, test.headers)
			got, err := rabbitmq.EventOf(test.message)
			require.NoError(t, err)
			require.NoError(t, got.Validate())
			test.want.Positions, test.want.Delivery = position, ordering.FirstDelivery
			assert.Equal(t, test.want, *got)
			assert.Equal(t, test.left, rabbitmq.LeftOut(test.message))
		})
	}
}

// TestUnreadable: the error says what of the message is unreadable.
func TestUnreadable(t *testing.T) {
	good := func(name string, value any) amqp.Table {
		return amqp.Table{"X-Sequence-ID": "a=1", name: value}
	}
	for name, test := range map[string]struct {
		message amqp.Delivery
		part    string
		reason  error
	}{
		"no sequence":     {amqp.Delivery{}, `header "X-Sequence-ID"`, nil},
		"bad sequence":    {amqp.Delivery{Headers: amqp.Table{"X-Sequence-ID": "a=b"}}, `header "X-Sequence-ID"`, ordering.ErrSequenceID},
		"bare, no stream": {amqp.Delivery{Exchange: "orders", RoutingKey: "", Headers: amqp.Table{"X-Sequence-ID": "1"}}, `header "X-Sequence-ID"`, ordering.ErrSequenceID},
		"bare, a queue":   {amqp.Delivery{Exchange: "", RoutingKey: "orders", Headers: amqp.Table{"X-Sequence-ID": "1"}}, `header "X-Sequence-ID"`, ordering.ErrSequenceID},
		"negative":        {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": int64(-1)}}, `header "X-Sequence-ID"`, ordering.ErrNumber},
		"an octet, 0":     {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": byte(0)}}, `header "X-Sequence-ID"`, ordering.ErrNumber},
		"half a number":   {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": 1.5}}, `header "X-Sequence-ID"`, nil},
		"not exact":       {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": float64(1 << 53)}}, `header "X-Sequence-ID"`, nil},
		"no number":       {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": math.NaN()}}, `header "X-Sequence-ID"`, nil},
		"infinite":        {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": float32(math.Inf(1))}}, `header "X-Sequence-ID"`, nil},
		"a truth value":   {amqp.Delivery{Exchange: "orders", RoutingKey: "k", Headers: amqp.Table{"X-Sequence-ID": true}}, `header "X-Sequence-ID"`, nil},
		"type":            {amqp.Delivery{Type: "de\xffposit", Headers: amqp.Table{"X-Sequence-ID": "a=1"}}, "type", ordering.ErrText},
		"a table":         {amqp.Delivery{Headers: amqp.Table{"X-Sequence-ID": amqp.Table{}}}, `header "X-Sequence-ID"`, nil},
		"long ID":         {amqp.Delivery{Headers: good("x-event-id", strings.Repeat("i", 1025))}, "event", ordering.ErrLongID},
	} {
		t.Run(name, func(t *testing.T) {
			test.message.MessageId = "m1"
			_, err := rabbitmq.EventOf(test.message)
			var e *rabbitmq.MessageError
			require.ErrorAs(t, err, &e)
			assert.Equal(t, test.part, e.Part)
			assert.Equal(t, "m1", e.MessageID)
			if test.reason != nil {
				assert.ErrorIs(t, err, test.reason)
			}
			assert.Contains(t, err.Error(), fmt.Sprintf("message %q: %s: ", "m1", test.part))
		})
	}
}

// FuzzEventOf: whatever comes is an event that is valid, and the same once it
// was a message again, or an error.
func FuzzEventOf(f *testing.F) {
	f.Add("id", "type", "key", "order/42", "7", "note", "text", "2026-11-28T09:30:00.5+01:00", []byte("{}"))
	f.Add("", "", "", "", "a/b=1, c=2;end", "x-event-id", "long", "", []byte(nil))
	f.Fuzz(func(t *testing.T, id, kind, correlation, routingKey, sequence, header, value, at string, body []byte) {
		m := amqp.Delivery{
			MessageId: id, Type: kind, CorrelationId: correlation, Exchange: "orders", RoutingKey: routingKey, Body: body,
			Headers: amqp.Table{header: value, ordering.SequenceIDHeader: sequence},
		}
		if at != "" {
			m.Headers[rabbitmq.EventTimeHeader] = at
		}
		e, err := rabbitmq.EventOf(m)
		if err != nil {
			require.ErrorAs(t, err, new(*rabbitmq.MessageError))
			return
		}
		require.NoError(t, e.Validate())
		again, err := rabbitmq.EventOf(delivered(rabbitmq.Message(e), "other"))
		require.NoError(t, err)
		requireSame(t, e, again)
	})
}
