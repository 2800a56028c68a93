package rabbitmq_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/dispatcher/rabbitmq"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
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
	named.ID, timed.Time = want.Name(), want.Time
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
				Stream: lockkeys.Must(s...), Number: rapid.Uint64Range(1, ordering.MaxNumber).Draw(t, "number"), End: rapid.Bool().Draw(t, "end")})
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
			assert.Equal(t, test.want, *got)
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
		"a table":         {amqp.Delivery{Headers: amqp.Table{"X-Sequence-ID": amqp.Table{}}}, `header "X-Sequence-ID"`, nil},
		"time":            {amqp.Delivery{Headers: good("x-event-time", "yesterday")}, `header "x-event-time"`, nil},
		"time's type":     {amqp.Delivery{Headers: good("x-event-time", int32(1))}, `header "x-event-time"`, nil},
		"causation":       {amqp.Delivery{Headers: good("x-event-causation-id", int32(1))}, `header "x-event-causation-id"`, nil},
		"NUL":             {amqp.Delivery{Headers: good("note", "a\x00b")}, "event", ordering.ErrText},
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
