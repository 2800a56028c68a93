package rabbitmq

import (
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMeasure: what the head of a message takes, and what it cannot be.
func TestMeasure(t *testing.T) {
	long := strings.Repeat("x", 256)
	for name, test := range map[string]struct {
		message message
		head    int // beyond that of an empty message
		part    string
	}{
		"empty":        {message{}, 0, ""},
		"address":      {message{exchange: "abc", key: "de"}, 5, ""},
		"body":         {message{Publishing: amqp.Publishing{Body: make([]byte, 1000)}}, 0, ""},
		"text":         {message{Publishing: amqp.Publishing{Headers: amqp.Table{"ab": "cde"}}}, 1 + 2 + 5 + 3, ""},
		"bytes":        {message{Publishing: amqp.Publishing{Headers: amqp.Table{"ab": []byte("cde")}}}, 1 + 2 + 5 + 3, ""},
		"others":       {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": int64(1), "b": true, "c": nil, "d": time.Now()}}}, 4 * 11, ""},
		"list":         {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": []any{"bc", 1.5}}}}, 1 + 1 + 5 + 7 + 9, ""},
		"table":        {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": amqp.Table{"bc": "d"}}}}, 1 + 1 + 5 + 3 + 6, ""},
		"no form":      {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": struct{}{}}}}, 0, `header "a"`},
		"no form in a": {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": []any{amqp.Table{"b": uint64(1)}}}}}, 0, `header "a"`},
		"long inside":  {message{Publishing: amqp.Publishing{Headers: amqp.Table{"a": amqp.Table{long: 1}}}}, 0, `header "a"`},
		"exchange":     {message{exchange: long}, 0, "exchange"},
		"ID":           {message{Publishing: amqp.Publishing{MessageId: long}}, 0, "message ID"},
		"reply-to":     {message{Publishing: amqp.Publishing{ReplyTo: long}}, 0, "reply-to"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.message.measure()
			if test.part != "" {
				var e *MessageError
				require.ErrorAs(t, err, &e)
				assert.Equal(t, test.part, e.Part)
				return
			}
			require.NoError(t, err)
			var empty message
			require.NoError(t, empty.measure())
			assert.Equal(t, test.head, test.message.head-empty.head)
			require.NoError(t, test.message.fits(0), "no bound")
			require.NoError(t, test.message.fits(test.message.head))
			require.ErrorContains(t, test.message.fits(test.message.head-1), "headers")
		})
	}
}

// TestReasonText: whatever the reason is, a dead letter can have it.
func TestReasonText(t *testing.T) {
	var nothing *StuckError
	require.Equal(t, "no reason was given", reasonText(nil))
	require.Equal(t, "a\uFFFDb", reasonText(errors.New("a\xffb")))
	require.Contains(t, reasonText(nothing), "nil pointer dereference")
	require.Len(t, reasonText(errors.New(strings.Repeat("x", 5<<10))), 4<<10)
}
