package httpreplay

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
)

// What is read as an answer keeps the bounds, and can be written and read
// again.
func FuzzDecodeAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"version":1}`, `{"version":2}`, `null`, `[]`, ``, `{"version":1,"events":[null]}`,
		`{"version":1,"events":[{"positions":[{"stream":"a/b","number":5,"end":true}],"payload":"AA=="}],"no_such":[{"stream":"a","from":1,"to":2}]}`,
		`{"version":1,"events":[{},{},{},{},{}]}`, `{"version":1,"events":[{"positions":[{"stream":"%zz"}]}]}`,
		`{"version":1,"no_such":[null,{"from":18446744073709551615}]}`, `{"version":1,"events":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 4
		a, err := decodeAnswer(bytes.NewReader(data), most, 1<<20)
		if err != nil {
			require.Empty(t, a)
			return
		}
		require.LessOrEqual(t, len(a.Events), most)
		require.LessOrEqual(t, len(a.NoSuch), most)
		text, err := encodeAnswer(a, ordering.Range{From: 1, To: 9}, most, 1<<30)
		if err != nil {
			return // JSON can hold dates that cannot be written
		}
		again, err := decodeAnswer(bytes.NewReader(text), most, 1<<30)
		require.NoError(t, err)
		require.LessOrEqual(t, len(again.Events), len(a.Events))
		require.Len(t, again.NoSuch, len(a.NoSuch))
	})
}

// What is read as a request is a range, and is written as the same request.
func FuzzParseQuery(f *testing.F) {
	f.Add("from=1&stream=order%2F7&to=3&version=1")
	f.Add("version=2")
	f.Add("from=1&stream=%2F&to=100000000000000&version=1")
	f.Add("epoch=2&from=1&stream=%2F&to=2&version=1")
	f.Add("before=7&epoch=2&from=1&stream=%2F&to=2&version=1")
	f.Add("epoch=0&from=1&stream=%2F&to=2&version=1")
	f.Add("epoch=65536&from=1&stream=%2F&to=2&version=1")
	f.Add("from=1&stream=a%2525%2Fb%2500&to=3&version=1&")
	f.Add("from=1;to=2")
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := parseQuery(raw)
		if err != nil {
			return
		}
		require.True(t, 1 <= r.From && r.From <= r.To && r.To <= ordering.MaxNumber)
		again, err := parseQuery(query(r))
		if len(query(r)) > maxQuery {
			return // escaping made it longer
		}
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}

func FuzzDecodeError(f *testing.F) {
	f.Add([]byte(`{"version":1,"error":{"code":"failed","message":"why"}}`))
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := decodeError(data)
		require.Equal(t, err == nil, text.Code != "")
		if err == nil {
			require.True(t, json.Valid(data))
		}
	})
}
