package lockkeys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whole segments are compared, not characters: of these keys, only those
// listed are contained.
func TestKeyContains(t *testing.T) {
	keys := []Key{
		Root(),
		Must("a"), Must("a-b"), Must("a", "b"), Must("a/b"), Must("ab"),
		Must("client"), Must("client", "4"), Must("client", "42"), Must("client", "42", "account"),
	}
	contains := map[Key][]Key{
		Must("a"):            {Must("a", "b")},
		Must("client"):       {Must("client", "4"), Must("client", "42"), Must("client", "42", "account")},
		Must("client", "42"): {Must("client", "42", "account")},
		Root():               keys,
	}
	for _, a := range keys {
		for _, b := range keys {
			want := a == b || slices.Contains(contains[a], b)
			require.Equal(t, want, a.Contains(b), "%v contains %v", a, b)
		}
	}
}

func TestKeyParts(t *testing.T) {
	for _, tt := range []struct {
		key      Key
		segments []string
		parent   Key
	}{
		{Must("a"), []string{"a"}, Root()},
		{Must("client", "42"), []string{"client", "42"}, Must("client")},
		{Must("client", "42", "account"), []string{"client", "42", "account"}, Must("client", "42")},
		{Must("a/b", "%"), []string{"a/b", "%"}, Must("a/b")},
	} {
		t.Run(tt.key.String(), func(t *testing.T) {
			require.Equal(t, len(tt.segments), tt.key.Depth())
			require.Equal(t, tt.segments, slices.Collect(tt.key.Segments()))
			require.Equal(t, len(strings.Join(tt.segments, "/")), tt.key.Size())
			require.False(t, tt.key.IsRoot())

			parent, ok := tt.key.Parent()
			require.True(t, ok)
			require.Equal(t, tt.parent, parent)

			child, err := tt.parent.Child(tt.segments[len(tt.segments)-1])
			require.NoError(t, err)
			require.Equal(t, tt.key, child)

			for depth := range len(tt.segments) + 1 {
				require.Equal(t, Must(tt.segments[:depth]...), tt.key.Ancestor(depth))
			}
		})
	}
}

func TestRoot(t *testing.T) {
	var zero Key
	require.Equal(t, zero, Root())
	require.Equal(t, zero, Must())
	require.True(t, zero.IsRoot())
	require.Zero(t, zero.Depth())
	require.Zero(t, zero.Size())
	require.Empty(t, slices.Collect(zero.Segments()))
	require.Equal(t, zero, zero.Ancestor(0))
	_, ok := zero.Parent()
	require.False(t, ok, "the root has no parent")
}

func TestKeyAncestorOutOfRange(t *testing.T) {
	for _, depth := range []int{-1, 3} {
		require.PanicsWithValue(t, "lockkeys: Ancestor: depth out of range", func() { Must("a", "b").Ancestor(depth) })
	}
}

func TestKeyCompare(t *testing.T) {
	// In the order of the tree. As text with '/', a-b would come between a
	// and a/b.
	inOrder := []Key{
		Root(),
		Must("a"), Must("a", "b"), Must("a", "b", "c"), Must("a", "c"),
		Must("a\x01"), Must("a-b"), Must("a/b"), Must("ab"),
		Must("client"), Must("client", "4"), Must("client", "4", "z"), Must("client", "42"),
		Must("счёт"), Must("\xff"),
	}
	for i, a := range inOrder {
		for j, b := range inOrder {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			require.Equal(t, want, a.Compare(b), "%v and %v", a, b)
		}
	}
}

// In tree order a key is followed by all its descendants and by nothing else
// before the last of them.
func TestKeyDescendantsAreContiguous(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOfN(rapid.Custom(genKey), 1, 30).Draw(t, "keys")
		slices.SortFunc(keys, Key.Compare)
		for i, k := range keys {
			inside := true
			for _, later := range keys[i:] {
				if !inside {
					require.False(t, k.Contains(later), "%v lies behind the descendants of %v", later, k)
				}
				inside = inside && k.Contains(later)
			}
			for _, earlier := range keys[:i] {
				require.False(t, k.Contains(earlier) && k != earlier, "%v before %v", earlier, k)
			}
		}
	})
}

func TestKeyRefused(t *testing.T) {
	deep := slices.Repeat([]string{"s"}, MaxDepth+1)
	child := func(k Key, segment string) func() (Key, error) {
		return func() (Key, error) { return k.Child(segment) }
	}
	for _, tt := range []struct {
		name    string
		make    func() (Key, error)
		reason  error
		segment int
		shows   string
	}{
		{"empty segment", func() (Key, error) { return New("client", "", "7") }, ErrEmptySegment, 1, `""`},
		{"empty child", child(Must("client"), ""), ErrEmptySegment, 1, `""`},
		{"NUL", func() (Key, error) { return New("client", "4\x002") }, ErrNULSegment, 1, `"4\x002"`},
		{"NUL in a child", child(Root(), "\x00"), ErrNULSegment, 0, `"\x00"`},
		{"too deep", func() (Key, error) { return New(deep...) }, ErrTooDeep, MaxDepth, `"s"`},
		{"too deep a child", child(Must(deep[1:]...), "leaf"), ErrTooDeep, MaxDepth, `"leaf"`},
		{"long input", func() (Key, error) { return New(strings.Repeat("x", 500) + "\x00") }, ErrNULSegment, 0, `xxx"... at segment 0`},

		{"empty text", func() (Key, error) { return Parse("") }, ErrEmptySegment, 0, `""`},
		{"slash in front", func() (Key, error) { return Parse("/a") }, ErrEmptySegment, 0, `"/a"`},
		{"slash behind", func() (Key, error) { return Parse("a/") }, ErrEmptySegment, 1, `"a/"`},
		{"two slashes", func() (Key, error) { return Parse("client//7") }, ErrEmptySegment, 1, `"client//7"`},
		{"two slashes alone", func() (Key, error) { return Parse("//") }, ErrEmptySegment, 0, `"//"`},
		{"NUL in text", func() (Key, error) { return Parse("a/\x00") }, ErrNULSegment, 1, `"a/\x00"`},
		{"escaped NUL", func() (Key, error) { return Parse("a/b%00") }, ErrNULSegment, 1, `"a/b%00"`},
		{"text too deep", func() (Key, error) { return Parse("a" + strings.Repeat("/a", MaxDepth)) }, ErrTooDeep, MaxDepth, `"a/a/a/`},
		{"slashes without end", func() (Key, error) { return Parse(strings.Repeat("/", 1<<20)) }, ErrTooDeep, MaxDepth, `"////`},
		{"percent at the end", func() (Key, error) { return Parse("a/b%") }, ErrBadEscape, 1, `"a/b%"`},
		{"escape cut off", func() (Key, error) { return Parse("a%4/b") }, ErrBadEscape, 0, `"a%4/b"`},
		{"escape not hexadecimal", func() (Key, error) { return Parse("50%off") }, ErrBadEscape, 0, `"50%off"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := tt.make()
			require.Equal(t, Key{}, k)
			require.ErrorIs(t, err, tt.reason)
			for _, other := range []error{ErrEmptySegment, ErrNULSegment, ErrTooDeep, ErrBadEscape} {
				require.Equal(t, other == tt.reason, errors.Is(err, other))
			}
			var bad *KeyError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, tt.segment, bad.Segment)
			require.ErrorContains(t, err, tt.shows)
			require.ErrorContains(t, err, fmt.Sprintf("segment %d: ", tt.segment))
			require.Less(t, len(err.Error()), 250)
		})
	}
}

func TestMustPanics(t *testing.T) {
	require.Panics(t, func() { Must("a", "") })
	require.Panics(t, func() { MustParse("a//b") })
}

func TestKeyOfMaxDepth(t *testing.T) {
	k, err := New(slices.Repeat([]string{"s"}, MaxDepth)...)
	require.NoError(t, err)
	require.Equal(t, MaxDepth, k.Depth())
	again, err := Parse(k.String())
	require.NoError(t, err)
	require.Equal(t, k, again)
}

// Any bytes but NUL make a segment, and equal segments make equal keys.
func TestKeyIsAMapKey(t *testing.T) {
	names := map[Key]string{}
	for _, segment := range []string{"a", "a/b", " ", "  ", "\t\n", "счёт", "\xff\xfe", "%", "%2F", "."} {
		names[Must("x", segment)] = segment
	}
	require.Len(t, names, 10)
	for k, segment := range names {
		same := Must("x", strings.Clone(segment))
		require.Equal(t, segment, names[same])
		require.Equal(t, []string{"x", segment}, slices.Collect(k.Segments()))
	}
}

func TestKeyAllocations(t *testing.T) {
	var (
		client, id = "client", fmt.Sprint(42)
		k          = Must(client, id, "account", "7")
		above      = Must(client, id)
		sink       int
	)
	for _, tt := range []struct {
		name string
		want float64
		do   func()
	}{
		{"New of four segments", 1, func() { k, _ = New(client, id, "account", "7") }},
		{"New of one segment", 0, func() { above, _ = New(client) }},
		{"Parent", 0, func() { above, _ = k.Parent() }},
		{"Ancestor", 0, func() { above = k.Ancestor(3) }},
		{"Depth", 0, func() { sink += k.Depth() }},
		{"Contains", 0, func() {
			if above.Contains(k) {
				sink++
			}
		}},
		{"Compare", 0, func() { sink += above.Compare(k) }},
		{"Segments", 0, func() {
			for s := range k.Segments() {
				sink += len(s)
			}
		}},
	} {
		require.Equal(t, tt.want, testing.AllocsPerRun(100, tt.do), tt.name)
	}
}
