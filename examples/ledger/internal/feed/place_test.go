package feed_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/examples/ledger/internal/feed"
)

// A source goes on at each place, with the same lines, wherever those begin.
func TestPlaces(t *testing.T) {
	end := `{"op":"end_of_day"}`
	text := "\uFEFF" + end + "\r\n\n" + end + end + "\n" + "nonsense\n" + strings.Repeat(" ", 1<<20) + end + "\n" + end + "\n\n" + end
	whole := feed.NewNDJSON(strings.NewReader(text)).(feed.Seeker)
	all, err := told(feed.NewNDJSON(strings.NewReader(text)))
	require.Equal(t, io.EOF, err)
	places := 0
	for given := 0; ; given++ {
		place, err := whole.Place()
		require.NoError(t, err)
		if place != nil {
			places++
			require.NoError(t, whole.Check(context.Background(), place))
			other := feed.NewNDJSON(strings.NewReader(text)).(feed.Seeker)
			require.NoError(t, other.Seek(place))
			again, err := other.Place()
			require.NoError(t, err)
			assert.Equal(t, string(place), string(again))
			rest, err := told(other)
			require.Equal(t, io.EOF, err)
			assert.Equal(t, append([]string(nil), all[given:]...), rest)
		}
		if _, err := whole.Next(); err == io.EOF {
			break
		}
	}
	ended := feed.NewNDJSON(strings.NewReader(end + "\n")).(feed.Seeker)
	_, err = told(ended)
	require.Equal(t, io.EOF, err)
	place, err := ended.Place()
	require.NoError(t, err)
	grown := feed.NewNDJSON(strings.NewReader(end + "\n" + end)).(feed.Seeker)
	require.NoError(t, grown.Seek(place))
	item, err := grown.Next()
	require.NoError(t, err)
	assert.Equal(t, 2, item.Line, "also after the end was met")
	assert.Equal(t, 5, places, "not before the first line has ended, between two messages of a line, or where a line has no end")
}

// What was cut, or changed shortly before a place, is noticed at once. What was changed
// before that is when all is read.
func TestOtherPlaces(t *testing.T) {
	line := `{"op":"end_of_day","note":"%"}` + "\n"
	text := strings.Repeat(line, 5000)
	source := feed.NewNDJSON(strings.NewReader(text)).(feed.Seeker)
	for range 4000 {
		_, err := source.Next()
		require.NoError(t, err)
	}
	place, err := source.Place()
	require.NoError(t, err)
	at := 4000 * len(line)
	edit := func(at int) string { return text[:at] + "?" + text[at+1:] }
	for name, c := range map[string]struct {
		text       string
		seek, good bool
	}{
		"the same":            {text, true, true},
		"grown":               {text + text, true, true},
		"nothing behind":      {text[:at], true, true},
		"changed behind":      {edit(at + 3), true, true},
		"cut":                 {text[:at-1], false, false},
		"changed at the end":  {edit(at - 3), false, false},
		"longer":              {line + text, true, true}, // of equal lines
		"changed long before": {edit(3), true, false},
		"nothing":             {"", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			other := feed.NewNDJSON(strings.NewReader(c.text)).(feed.Seeker)
			if err := other.Seek(place); c.seek {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, feed.ErrOtherPlace)
			}
			if err := other.Check(context.Background(), place); c.good {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, feed.ErrOtherPlace)
			}
		})
	}
	require.ErrorIs(t, source.Seek([]byte(`{"Version":99}`)), feed.ErrOtherPlace)
	require.ErrorIs(t, source.Seek(nil), feed.ErrOtherPlace)
}
