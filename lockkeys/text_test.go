package lockkeys

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestKeyText(t *testing.T) {
	for _, tt := range []struct {
		key  Key
		text string
	}{
		{Root(), "/"},
		{Must("a"), "a"},
		{Must("client", "42", "account", "7"), "client/42/account/7"},
		{Must("a/b"), "a%2Fb"},
		{Must("100%"), "100%25"},
		{Must("/"), "%2F"},
		{Must("two words", " "), "two words/ "},
		{Must("счёт", "日本"), "счёт/日本"},
		{Must("line\nfeed"), "line%0Afeed"},
		{Must("no-break\u00a0space"), "no-break%C2%A0space"},
		{Must("\xff\x01"), "%FF%01"},
		{Must("half a rune: \xd1"), "half a rune: %D1"},
		{Must("\ufffd"), "\ufffd"},
	} {
		require.Equal(t, tt.text, tt.key.String())
		parsed, err := Parse(tt.text)
		require.NoError(t, err)
		require.Equal(t, tt.key, parsed)
	}
}

// Parse also accepts text that String would write differently.
func TestParseOtherSpellings(t *testing.T) {
	for text, want := range map[string]Key{
		"%61/b":     Must("a", "b"),
		"a%2fb":     Must("a/b"),
		"a%2Fb":     Must("a/b"),
		"a\nb":      Must("a\nb"),
		"\xff":      Must("\xff"),
		"%d1%81/%D": {},
	} {
		k, err := Parse(text)
		require.Equal(t, want, k, text)
		require.Equal(t, want.IsRoot(), err != nil, text)
	}
}

var genSegments = rapid.Custom(func(t *rapid.T) []string {
	segment := rapid.OneOf(
		rapid.StringMatching(`[a-c/% ]{1,4}`),
		rapid.StringN(1, 8, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 8), func(b []byte) string { return string(b) }),
	).Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
	return rapid.SliceOfN(segment, 0, MaxDepth).Draw(t, "segments")
})

func TestKeyTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkRoundTrip(t, genSegments.Draw(t, "of"))
	})
}

// checkRoundTrip makes a key of segments, writes and reads it.
func checkRoundTrip(t require.TestingT, segments []string) {
	k, err := New(segments...)
	require.NoError(t, err)
	require.Equal(t, len(segments), k.Depth())
	require.True(t, slices.Equal(segments, slices.Collect(k.Segments())), "%q", segments)

	text := k.String()
	require.True(t, utf8.ValidString(text))
	require.False(t, strings.ContainsFunc(text, func(r rune) bool { return r < ' ' }), "%q", text)
	parsed, err := Parse(text)
	require.NoError(t, err)
	require.Equal(t, k, parsed)

	encoded, err := json.Marshal(k)
	require.NoError(t, err)
	var decoded Key
	require.NoError(t, json.Unmarshal(encoded, &decoded))
	require.Equal(t, k, decoded)
}

func TestKeyJSON(t *testing.T) {
	type message struct {
		Lock Key         `json:"lock"`
		Last map[Key]int `json:"last"`
	}
	in := message{Must("client", "42"), map[Key]int{Must("a/b"): 3, Root(): 1}}
	encoded, err := json.Marshal(in)
	require.NoError(t, err)
	require.JSONEq(t, `{"lock":"client/42","last":{"/":1,"a%2Fb":3}}`, string(encoded))

	var out message
	require.NoError(t, json.Unmarshal(encoded, &out))
	require.Equal(t, in, out)

	err = json.Unmarshal([]byte(`{"lock":"client//7"}`), &out)
	require.ErrorIs(t, err, ErrEmptySegment)
	require.Equal(t, Must("client", "42"), out.Lock, "a bad text leaves the key as it was")
}

func TestRequestText(t *testing.T) {
	require.Equal(t, "client/42", Request{Key: Must("client", "42")}.String())
	require.Equal(t, "/ (shared)", Request{Mode: Shared}.String())
	require.Equal(t, "exclusive shared Mode(7)", fmt.Sprint(Exclusive, Shared, Mode(7)))
}

// What has nothing to unescape is parsed as everything else is.
func TestParsePlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune{'a', 'ü', '/', '/', '%', '2', 'F', 0})).Draw(t, "text")
		if key, ok := parsePlain(text); ok {
			other, err := parseAny(text)
			require.NoError(t, err)
			require.Equal(t, other, key)
		}
	})
	_, ok := parsePlain("a" + strings.Repeat("/a", MaxDepth))
	require.False(t, ok)
	_, ok = parsePlain("a" + strings.Repeat("/a", MaxDepth-1))
	require.True(t, ok)
}

// Parse takes any text without a panic, and what it accepts it reads again
// from what String makes of it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "/", "//", "a", "a/b", "client/42/account/7", "a%2Fb", "%", "%2", "%zz", "%00", "a\x00", "\xff", "счёт"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(text)
		if err != nil {
			require.Equal(t, Key{}, k)
			require.ErrorAs(t, err, new(*KeyError))
			return
		}
		again, err := Parse(k.String())
		require.NoError(t, err)
		require.Equal(t, k, again)
		require.Equal(t, k.String(), again.String())
	})
}

// Any segments without NUL, here the pieces of data between NULs, survive
// being written and read.
func FuzzRoundTrip(f *testing.F) {
	for _, data := range []string{"", "a", "client\x0042", "a/b\x00%\x00 ", "\xff\x00\xd1", "\u00a0"} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data string) {
		segments := strings.FieldsFunc(data, func(r rune) bool { return r == 0 })
		checkRoundTrip(t, segments[:min(len(segments), MaxDepth)])
	})
}
