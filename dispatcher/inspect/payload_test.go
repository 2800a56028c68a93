package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/inspect"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/ordering"

	"github.com/interlock-go/interlock/lockkeys"
)

// parkedOrders is a sequencer with a parked event, "order 1", whose payload has a secret.
func parkedOrders(t *testing.T) (orders *ordering.Sequencer[*ordering.Event], secret string) {
	secret = "4711"
	orders, err := ordering.New(t.Context(), ordering.Config[*ordering.Event]{
		Store: ordering.NewMemory(), Logger: discard,
		Handler: func(context.Context, ordering.Job[*ordering.Event]) error {
			return dispatcher.Permanent(errors.New("the card was refused"))
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = orders.Close() })
	e := &ordering.Event{ID: "order 1", Payload: []byte(`{"card":"4711","item":"<kettle>"}`),
		Positions: []ordering.Position{{Stream: lockkeys.Must("order", "1"), Number: 1}}}
	require.NoError(t, orders.Offer(t.Context(), e, nil))
	require.Eventually(t, func() bool { p, err := orders.Parked(t.Context()); return err == nil && len(p) == 1 }, waitAtMost, time.Millisecond)
	return orders, secret
}

// target is the only one that can be opened of the bank's source.
func target(t *testing.T, b *bank, source string) string {
	var seen inspect.Seen
	b.getJSON(t, "/ops/interlock/view.json?source="+source, &seen)
	for _, table := range seen.Tables {
		for _, row := range table.Rows {
			if row.Opens {
				return row.Target
			}
		}
	}
	require.Fail(t, "nothing can be opened")
	return ""
}

// Payloads are shown by Show alone, on a page without a script, and as JSON.
func TestPayload(t *testing.T) {
	orders, secret := parkedOrders(t)
	b := newBank(t, false, func(c *inspect.Config) {
		c.Sources = append(c.Sources, inspect.Named{Name: "orders", Source: orders})
		c.Redact = func(text string) string { return strings.ReplaceAll(text, "order 1", "an order") }
		c.Show = func(_ string, message any) string {
			return strings.ReplaceAll(string(message.(*ordering.Event).Payload), secret, "***")
		}
	})
	at := "?source=orders&tab=parked&target=" + url.QueryEscape(target(t, b, "orders"))
	_, body := b.get(t, "/ops/interlock/?source=orders&tab=parked")
	assert.Contains(t, body, `href="payload?source=orders&amp;`)
	status, body := b.get(t, "/ops/interlock/payload"+at)
	require.Equal(t, http.StatusOK, status)
	assert.Contains(t, body, "<h2>an order</h2>")
	assert.Contains(t, body, "{\n  &#34;card&#34;: &#34;***&#34;,\n  &#34;item&#34;: &#34;&lt;kettle&gt;&#34;\n}")
	assert.NotContains(t, body, secret)
	assert.NotContains(t, body, "<script")
	assert.Contains(t, body, `<a href="./?source=orders&amp;tab=parked">Back</a>`)
	var list []struct{ Name, Payload string }
	b.getJSON(t, "/ops/interlock/payload.json"+at, &list)
	require.Len(t, list, 1)
	assert.Equal(t, "an order", list[0].Name)
	assert.JSONEq(t, `{"card":"***","item":"<kettle>"}`, list[0].Payload)

	for query, code := range map[string]int{
		"?source=orders&target=x":                            http.StatusBadRequest,
		"?source=orders&target=" + url.QueryEscape("a=1 @x"): http.StatusNotFound,
		"?source=transfers&target=x":                         http.StatusNotFound,
		"?source=nobody":                                     http.StatusNotFound,
	} {
		for _, path := range []string{"payload", "payload.json"} {
			status, _ := b.get(t, "/ops/interlock/"+path+query)
			assert.Equal(t, code, status, path+query)
		}
	}

	b = newBank(t, false, func(c *inspect.Config) {
		c.Sources = append(c.Sources, inspect.Named{Name: "orders", Source: orders})
	})
	status, body = b.get(t, "/ops/interlock/payload"+at)
	assert.Equal(t, http.StatusForbidden, status)
	assert.Contains(t, body, "inspect.Config.Show")
	_, body = b.get(t, "/ops/interlock/?source=orders&tab=parked")
	assert.NotContains(t, body, "payload?")
}

// opener is a source with anything parked.
type opener struct {
	view.Source
	payload string
}

func (o opener) Payloads(context.Context, string) ([]view.Payload, error) {
	return []view.Payload{{Name: "it", Message: o.payload}}, nil
}

// A payload is readable, and of a bounded length.
func TestReadablePayload(t *testing.T) {
	long := `{"text":"` + strings.Repeat("ä", 10_000) + `"}`
	for name, test := range map[string]struct{ payload, shown string }{
		"JSON":      {`{"a":[1]}`, "{\n  \"a\": [\n    1\n  ]\n}"},
		"a text":    {"no { JSON\n", "no { JSON\n"},
		"not UTF-8": {"\xff\xfe1", `binary, 3 bytes, which begin with "\xff\xfe1"`},
		"zeros":     {"ab\x00" + strings.Repeat("c", 100), `binary, 103 bytes, which begin with "ab\x00` + strings.Repeat("c", 29) + `"`},
		"nothing":   {"", ""},
		"long":      {long, "{\n  \"text\": \"" + strings.Repeat("ä", 4089) + "\n… and 11825 more bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBank(t, false, func(c *inspect.Config) {
				c.Sources = append(c.Sources, inspect.Named{Name: "o", Source: opener{c.Sources[0].Source, test.payload}})
				c.Show = func(_ string, message any) string { text, _ := message.(string); return text }
			})
			status, body := b.get(t, "/ops/interlock/payload.json?source=o&target=x")
			require.Equal(t, http.StatusOK, status)
			var list []struct{ Payload string }
			require.NoError(t, json.Unmarshal([]byte(body), &list))
			assert.Equal(t, test.shown, list[0].Payload)
		})
	}
}
