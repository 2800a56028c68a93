package madeup_test

import (
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
	"github.com/interlock-go/interlock/examples/ledger/internal/madeup"
)

// A generator that goes on at a place makes the same messages.
func TestGoingOnAtAPlace(t *testing.T) {
	const n = 5000
	var messages []string
	places := map[int][]byte{}
	whole := madeup.New(n, 3)
	for {
		if at := len(messages); at%97 == 0 || at == n {
			place, err := whole.Place()
			require.NoError(t, err)
			places[at] = place
		}
		item, err := whole.Next()
		if err == io.EOF {
			break
		}
		text, err := json.Marshal(item.Message)
		require.NoError(t, err)
		messages = append(messages, string(text))
	}
	for at := 0; at <= n; at += 97 {
		other := madeup.New(n, 3)
		require.NoError(t, other.Seek(places[at]))
		for i := at; i < n; i++ {
			item, err := other.Next()
			require.NoError(t, err)
			assert.Equal(t, i+1, item.Line)
			text, err := json.Marshal(item.Message)
			require.NoError(t, err)
			require.Equal(t, messages[i], string(text), "message %d from %d on", i+1, at)
		}
		_, err := other.Next()
		require.Equal(t, io.EOF, err)
	}
	require.ErrorIs(t, madeup.New(n/2, 3).Seek(places[n]), feed.ErrOtherPlace)
	require.ErrorIs(t, madeup.New(n, 3).Seek([]byte("nonsense")), feed.ErrOtherPlace)
}
