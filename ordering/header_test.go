package ordering

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

func TestSequenceIDs(t *testing.T) {
	at := func(stream lockkeys.Key, n uint64) Position { return Position{Stream: stream, Number: n} }
	end := func(stream lockkeys.Key, n uint64) Position { return Position{Stream: stream, Number: n, End: true} }
	later := func(stream lockkeys.Key, epoch uint16, end bool) Position {
		return Position{Stream: stream, Epoch: epoch, Number: 1, End: end}
	}
	for _, tt := range []struct {
		header string
		want   []Position
		form   string // as it is written; "" for header itself
	}{
		{"a=1", []Position{at(key("a"), 1)}, ""},
		{"client/42/account/7=5, client/8/account/1=9;end", []Position{at(key("client/42/account/7"), 5), end(key("client/8/account/1"), 9)}, ""},
		{"/=3", []Position{at(lockkeys.Root(), 3)}, ""},
		{"a=100000000000000", []Position{at(key("a"), MaxNumber)}, ""},
		{"a=1;epoch=2, b=1;epoch=65535;end", []Position{later(key("a"), 2, false), later(key("b"), math.MaxUint16, true)}, ""},
		{"a%20b=1", []Position{at(lockkeys.Must("a b"), 1)}, ""},
		{"a%2Cb=1, a%3Db=1, a%3Bb=1, a%2Fb=1, a%25=1", []Position{at(lockkeys.Must("a,b"), 1), at(lockkeys.Must("a=b"), 1),
			at(lockkeys.Must("a;b"), 1), at(lockkeys.Must("a/b"), 1), at(lockkeys.Must("a%"), 1)}, ""},
		{"%C3%A9=1, %FF%01=2", []Position{at(lockkeys.Must("é"), 1), at(lockkeys.Must("\xff\x01"), 2)}, ""},

		// Not as it is written, but clear.
		{"é=1", []Position{at(lockkeys.Must("é"), 1)}, "%C3%A9=1"},
		{" a=1 ,\tb = 2 ; end ", []Position{at(key("a"), 1), end(key("b"), 2)}, "a=1, b=2;end"},
		{"a=007", []Position{at(key("a"), 7)}, "a=7"},
		{"a b=1", []Position{at(lockkeys.Must("a b"), 1)}, "a%20b=1"},
		{"a=1;end;epoch=2", []Position{later(key("a"), 2, true)}, "a=1;epoch=2;end"},
		{"a = 1 ;\tepoch = 2 ; end ", []Position{later(key("a"), 2, true)}, "a=1;epoch=2;end"},
		{"%61=1", []Position{at(key("a"), 1)}, "a=1"},

		// A bare number, of the stream that is known from elsewhere.
		{"5", []Position{at(key("known"), 5)}, "known=5"},
		{" 5;end", []Position{end(key("known"), 5)}, "known=5;end"},
		{"1;epoch=2", []Position{later(key("known"), 2, false)}, "known=1;epoch=2"},
		{"1 ; end;epoch=2", []Position{later(key("known"), 2, true)}, "known=1;epoch=2;end"},
		{"other=5", []Position{at(key("other"), 5)}, ""},
	} {
		got, err := ParseSequenceID(tt.header, key("known"))
		require.NoError(t, err, tt.header)
		require.Equal(t, tt.want, got, tt.header)
		form := tt.form
		if form == "" {
			form = tt.header
		}
		require.Equal(t, form, FormatSequenceID(got))
	}
}

func TestBadSequenceIDs(t *testing.T) {
	many := strings.Repeat("a=1,", MaxPositions)
	for _, tt := range []struct {
		header string
		says   string
	}{
		{"", "number is not from 1"},
		{" ", "number is not from 1"},
		{",", "no '='"},
		{"a=1,", "no '='"},
		{"a=1,,b=1", "no '='"},
		{"1, 2", "no '='"},
		{"a=1, 2", `at " 2": no '='`},
		{"a", "number is not from 1"},
		{"a=", "number is not from 1"},
		{"=1", "key"},
		{" \t=1", "key"},
		{"a//b=1", "key"},
		{"a%=1", "key"},
		{"a%0=1", "key"},
		{"a%00=1", "key"},
		{strings.Repeat("a/", lockkeys.MaxDepth) + "a=1", "key"},
		{"a=0", "number is not from 1"},
		{"a=-1", "number is not from 1"},
		{"a=+1", "number is not from 1"},
		{"a=1_000", "number is not from 1"},
		{"a=0x1", "number is not from 1"},
		{"a=1.0", "number is not from 1"},
		{"a=1e3", "number is not from 1"},
		{"a=1 2", "number is not from 1"},
		{"a=1=2", "number is not from 1"},
		{"a=١", "number is not from 1"},
		{"a=100000000000001", "number is not from 1 to 100000000000000"},
		{"a=9223372036854775808", "number is not from 1"},
		{"a=99999999999999999999999", "number is not from 1"},
		{"a=1;", `may follow a semicolon`},
		{"a=1;END", `may follow a semicolon`},
		{"a=1;end;end", `may follow a semicolon`},
		{"a=1;end=1", `may follow a semicolon`},
		{"a=1;q=2", `may follow a semicolon`},
		{";end", "number is not from 1"},
		{"a;b=1", "number is not from 1"}, // a semicolon of a key is %3B
		{"a=1;epoch", `may follow a semicolon`},
		{"a=1;epoch=2;epoch=2", `may follow a semicolon`},
		{"a=1;epoch=2;end;end", `may follow a semicolon`},
		{"a=1;Epoch=2", `may follow a semicolon`},
		{"a=1;epoch=", "epoch is not from 1 to 65535"},
		{"a=1;epoch=0", "epoch is not from 1 to 65535"},
		{"a=1;epoch=02", "leading zeros"},
		{"a=1;epoch=+2", "epoch is not from 1 to 65535"},
		{"a=1;epoch=2=3", "epoch is not from 1 to 65535"},
		{"a=1;epoch=65536", "epoch is not from 1 to 65535"},
		{"a=0;epoch=2", "number is not from 1"},
		{"epoch=2;a=1", `may follow a semicolon`},
		{"a=1;epoch=2, a=2", `at "a=2": two positions on one stream`},
		{"a=1, a=2", `at "a=2": two positions on one stream`},
		{"a=1, %61=1", "two positions on one stream"},
		{strings.Repeat("k", MaxStream+1) + "=1", "stream key longer"},
		{many + "b=1", "more than 4096 positions"},
		{strings.Repeat("x", MaxSequenceID+1), "longer than 1048576 bytes"},
	} {
		got, err := ParseSequenceID(tt.header, key("known"))
		require.ErrorIs(t, err, ErrSequenceID, "%.80q", tt.header)
		require.ErrorContains(t, err, tt.says, "%.80q", tt.header)
		require.ErrorContains(t, err, fmt.Sprintf("%.80q", tt.header), "the input is named")
		require.Nil(t, got)
	}
	_, err := ParseSequenceID("5", lockkeys.Root())
	require.ErrorContains(t, err, "write STREAM=NUMBER", "nothing says which stream")
	_, err = ParseSequenceID("5", lockkeys.Must(strings.Repeat("k", MaxStream+1)))
	require.ErrorIs(t, err, ErrLongStream)
}

func TestReasonsOfABadSequenceID(t *testing.T) {
	for header, reason := range map[string]error{
		"a=0":                                   ErrNumber,
		"a=1, a=1":                              ErrRepeatedStream,
		strings.Repeat("k", MaxStream+1) + "=1": ErrLongStream,
		strings.Repeat(",", MaxPositions):       ErrTooManyPositions,
		"a%00=1":                                lockkeys.ErrNULSegment,
	} {
		_, err := ParseSequenceID(header, lockkeys.Root())
		require.ErrorIs(t, err, reason, "%.80q", header)
	}
}

// genPositions are positions of a good event, on keys of any bytes.
var genPositions = rapid.Custom(func(t *rapid.T) []Position {
	segment := rapid.OneOf(
		rapid.StringMatching(`[a-c/%,;= \t]{1,4}`),
		rapid.StringN(1, 8, 32),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 8), func(b []byte) string { return string(b) }),
	).Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
	stream := rapid.Map(rapid.SliceOfN(segment, 0, 8), func(s []string) lockkeys.Key { return lockkeys.Must(s...) })
	position := rapid.Custom(func(t *rapid.T) Position {
		return Position{
			Stream: stream.Draw(t, "stream"), Epoch: rapid.OneOf(rapid.Just(uint16(0)), rapid.Uint16()).Draw(t, "epoch"),
			Number: rapid.Uint64Range(1, MaxNumber).Draw(t, "number"), End: rapid.Bool().Draw(t, "end"),
		}
	})
	return rapid.SliceOfNDistinct(position, 1, 12, func(p Position) lockkeys.Key { return p.Stream }).Draw(t, "positions")
})

func TestSequenceIDsOfAllKeysAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkSequenceID(t, genPositions.Draw(t, "positions"))
	})
}

// checkSequenceID writes positions and reads them.
func checkSequenceID(t require.TestingT, positions []Position) {
	header := FormatSequenceID(positions)
	read, err := ParseSequenceID(header, lockkeys.Root())
	require.NoError(t, err)
	require.Equal(t, positions, read)
	require.Equal(t, -1, strings.IndexFunc(header, func(r rune) bool { return r < ' ' || r > '~' }), "fit for a header")
	parts := make([]string, len(positions))
	for i, p := range positions {
		parts[i] = p.String()
	}
	require.Equal(t, header, strings.Join(parts, ", "))
}

func FuzzParseSequenceID(f *testing.F) {
	for _, header := range []string{"5", "5;end", "a=1", "client/42/account/7=5, client/8/account/1=9;end", "/=1", "a%20b=1", "a = 1 ; end ,b=2",
		"a=0", "a=1,a=1", "\xff=1", "%ff=9223372036854775807", "a//b=1", "a=1;END", "a=1;epoch=2", "5;end;epoch=65535", "a=1;epoch=0", "a=1;epoch=2;epoch=3;end", "epoch=1;epoch=2", ",,,", "=", "a%0=1", "a%00=1"} {
		f.Add(header, "known")
		f.Add(header, "/")
	}
	f.Fuzz(func(t *testing.T, header, stream string) {
		known, err := lockkeys.Parse(stream)
		if err != nil {
			return
		}
		positions, err := ParseSequenceID(header, known)
		if err != nil {
			require.ErrorIs(t, err, ErrSequenceID)
			require.Nil(t, positions)
			return
		}
		require.NoError(t, (&Event{Positions: positions}).Validate())
		checkSequenceID(t, positions)
	})
}
