package rabbitmq

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// socket is one of which only the reading matters.
type socket struct {
	net.Conn
	io.Reader
}

func (s socket) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func frameOf(kind byte, payload []byte) []byte {
	frame := append([]byte{kind, 0, 1}, binary.BigEndian.AppendUint32(nil, uint32(len(payload)))...)
	return append(append(frame, payload...), 0xCE)
}

// contentOf is a frame with a message's headers, and a content type and a
// delivery mode around them.
func contentOf(table []byte) []byte {
	payload := binary.BigEndian.AppendUint16(make([]byte, 12), 1<<15|1<<13|1<<12)
	payload = append(payload, 4, 't', 'e', 'x', 't')
	payload = append(binary.BigEndian.AppendUint32(payload, uint32(len(table))), table...)
	return frameOf(frameContent, append(payload, 2))
}

func entry(name string, value []byte) []byte {
	return append(append([]byte{byte(len(name))}, name...), value...)
}

func wrap(kind byte, content []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content))), content...)
}

// nested is a value of so many tables or lists in each other.
func nested(kind byte, depth int) []byte {
	v := wrap('S', []byte("x"))
	for range depth {
		if kind == 'F' {
			v = entry("n", v)
		}
		v = wrap(kind, v)
	}
	return v
}

// anyValue draws a value of any type, also such as the client cannot read.
func anyValue(t *rapid.T, depth int) []byte {
	kinds := "tbBsuIiflTdDVSx"
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		kinds = "ULZ"
	} else if depth < 4 {
		kinds += "AF"
	}
	switch kind := rapid.SampledFrom([]byte(kinds)).Draw(t, "kind"); kind {
	case 'A', 'F':
		var content []byte
		for range rapid.IntRange(0, 3).Draw(t, "entries") {
			v := anyValue(t, depth+1)
			if kind == 'F' {
				v = entry(rapid.StringN(0, 3, 9).Draw(t, "name"), v)
			}
			content = append(content, v...)
		}
		return wrap(kind, content)
	case 'S', 'x':
		return wrap(kind, rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "text"))
	default:
		size := map[byte]int{'V': 0, 't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'U': 2, 'I': 4, 'i': 4, 'f': 4, 'D': 5}
		n, short := size[kind]
		if !short {
			n = 8
		}
		return append([]byte{kind}, make([]byte, n)...)
	}
}

// What comes through is readable, is not longer, and has all that was readable.
// Frames without anything else are left as they are.
func TestWhatComesThroughIsReadable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table, good []byte
		for i := range rapid.IntRange(0, 8).Draw(t, "headers") {
			v := anyValue(t, 0)
			if rapid.IntRange(0, 9).Draw(t, "deep") == 0 {
				v = nested(rapid.SampledFrom([]byte("AF")).Draw(t, "of"), rapid.IntRange(30, 40).Draw(t, "depth"))
			}
			e := entry(strconv.Itoa(i), v)
			table = append(table, e...)
			if _, ok := value(v, 0); ok {
				good = append(good, e...)
			} else if v[0] == 'Z' { // where it ends is not known
				break
			}
		}
		frame := contentOf(table)
		sifted := sift(bytes.Clone(frame))
		require.LessOrEqual(t, len(sifted), len(frame))
		require.EqualValues(t, len(sifted)-8, binary.BigEndian.Uint32(sifted[3:]))
		start, end, ok := headersOf(sifted)
		require.True(t, ok)
		require.True(t, isReadable(sifted[start:end], 0))
		require.True(t, bytes.HasPrefix(sifted[start:end], good))
		require.Equal(t, frame[len(frame)-2:], sifted[len(sifted)-2:], "what follows the headers")
		if len(good) == len(table) {
			require.Equal(t, frame, sifted)
		}
	})
}

// The limits are those of the client.
func TestTheLimitsOfTheClient(t *testing.T) {
	for depth, ok := range map[int]bool{1: true, 32: true, 33: false, 5000: false} {
		for _, kind := range []byte("AF") {
			_, good := value(nested(kind, depth), 0)
			require.Equal(t, ok, good, "%d %c", depth, kind)
		}
	}
	list := bytes.Repeat([]byte{'V'}, 8192)
	_, good := value(wrap('A', list), 0)
	require.True(t, good)
	_, good = value(wrap('A', append(list, 'V')), 0)
	require.False(t, good)
}

// Of too many headers those that say what the event is are kept.
func TestTooManyHeaders(t *testing.T) {
	var table []byte
	for range 9000 {
		table = append(table, entry("h", []byte{'V'})...)
	}
	table = append(table, entry("X-Sequence-ID", wrap('S', []byte("a=1")))...)
	sifted := sift(contentOf(table))
	start, end, _ := headersOf(sifted)
	require.True(t, isReadable(sifted[start:end], 0))
	require.Contains(t, string(sifted), "X-Sequence-ID")
	require.Contains(t, string(sifted), DroppedHeader)
}

// However the bytes come, frames stay what they are.
func TestASieveInAnyPortions(t *testing.T) {
	deep := contentOf(append(entry("a", []byte{'V'}), entry("b", nested('F', 40))...))
	var in, want []byte
	for _, frame := range [][]byte{
		frameOf(1, []byte("a method")), contentOf(entry("a", wrap('S', []byte("x")))), frameOf(3, bytes.Repeat([]byte("body"), 20_000)),
		deep, frameOf(8, nil), frameOf(frameContent, []byte("short")), deep, contentOf(nil),
	} {
		in = append(in, frame...)
		want = append(want, sift(bytes.Clone(frame))...)
	}
	require.Less(t, len(want), len(in))
	for name, portions := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(newSieve(socket{Reader: portions(bytes.NewReader(in))}))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(want, got), name)
		got, err = io.ReadAll(iotest.OneByteReader(newSieve(socket{Reader: portions(bytes.NewReader(in))})))
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(want, got), name)
	}
	greeting := "AMQP\x00\x00\x09\x01 and then something else"
	got, err := io.ReadAll(newSieve(socket{Reader: strings.NewReader(greeting)}))
	require.NoError(t, err)
	require.Equal(t, greeting, string(got))
}

// Whatever bytes come, nothing panics.
func FuzzSift(f *testing.F) {
	f.Add(contentOf(entry("b", nested('F', 40))))
	f.Add(contentOf(entry("b", nested('A', 40))))
	f.Fuzz(func(t *testing.T, frame []byte) {
		for n := range min(len(frame), 30) {
			sift(bytes.Clone(frame[:n]))
		}
		sifted := sift(bytes.Clone(frame))
		require.LessOrEqual(t, len(sifted), len(frame))
		if start, end, ok := headersOf(sifted); ok && len(sifted) < len(frame) {
			require.True(t, isReadable(sifted[start:end], 0))
		}
	})
}
