package lockkeys

import (
	"iter"
	"strings"
)

// MaxDepth is the largest number of segments in a key.
const MaxDepth = 64

// sep separates the segments of an encoded key. It is the smallest byte and not
// allowed in a segment; that makes byte order tree order.
const sep = "\x00"

// Key names a resource: a path of segments from the root of a tree, as in a
// materialized path (client, 42, account, 7). A segment is any non-empty run
// of bytes without NUL. The zero Key is the root, which contains every key.
//
// Keys are comparable: two keys are == when they have the same segments, so a
// Key can be the key of a map. A Key is a value; all its methods may be used
// from any goroutine.
type Key struct {
	// Invariant: path is the segments joined by sep, and so for keys a and b
	//
	//   - a contains b exactly when a is the root, a == b, or b.path starts with
	//     a.path + sep (whole segments: client/4 does not contain client/42);
	//   - comparing the paths as bytes is the order of the tree, in which the
	//     descendants of a come right after a with nothing in between. With '/' as
	//     separator this would fail, since a-b sorts between a and a/b.
	path string
}

// Root returns the key that contains every key. It is the zero Key.
func Root() Key { return Key{} }

// New returns the key of the given segments, in order from the root; without
// any, the root key. It allocates only the key's bytes, and nothing for a
// single segment. The error is a [*KeyError].
func New(segments ...string) (Key, error) {
	if len(segments) > MaxDepth {
		return Key{}, &KeyError{Input: segments[MaxDepth], Segment: MaxDepth, Reason: ErrTooDeep}
	}
	for i, s := range segments {
		if err := checkSegment(s, i); err != nil {
			return Key{}, err
		}
	}
	return Key{strings.Join(segments, sep)}, nil
}

// Must is [New] for segments that are constants: it panics on an error.
func Must(segments ...string) Key {
	k, err := New(segments...)
	if err != nil {
		panic(err)
	}
	return k
}

func checkSegment(s string, index int) error {
	switch {
	case s == "":
		return &KeyError{Input: s, Segment: index, Reason: ErrEmptySegment}
	case strings.Contains(s, sep):
		// The segment is copied so that New's arguments stay on the stack.
		return &KeyError{Input: strings.Clone(s), Segment: index, Reason: ErrNULSegment}
	}
	return nil
}

// Child returns the key one segment below k. The error is a [*KeyError].
func (k Key) Child(segment string) (Key, error) {
	depth := k.Depth()
	if err := checkSegment(segment, depth); err != nil {
		return Key{}, err
	}
	switch depth {
	case 0:
		return Key{segment}, nil
	case MaxDepth:
		return Key{}, &KeyError{Input: segment, Segment: depth, Reason: ErrTooDeep}
	}
	return Key{k.path + sep + segment}, nil
}

// Parent returns the key one segment above k; ok is false for the root, which
// has none. It does not allocate.
func (k Key) Parent() (parent Key, ok bool) {
	if k.path == "" {
		return Key{}, false
	}
	return Key{k.path[:max(strings.LastIndex(k.path, sep), 0)]}, true
}

// Ancestor returns the key made of the first depth segments of k: the root
// for 0, k itself for its own depth. It panics unless 0 <= depth <= k.Depth().
// It does not allocate.
func (k Key) Ancestor(depth int) Key {
	if depth < 0 || depth > k.Depth() {
		panic("lockkeys: Ancestor: depth out of range")
	}
	end := 0
	for i := range depth {
		if i > 0 {
			end++ // the separator
		}
		end = k.segmentEnd(end)
	}
	return Key{k.path[:end]}
}

// segmentEnd returns the end of the segment that starts at byte start.
func (k Key) segmentEnd(start int) int {
	if i := strings.IndexByte(k.path[start:], sep[0]); i >= 0 {
		return start + i
	}
	return len(k.path)
}

// Depth returns the number of segments, 0 for the root.
func (k Key) Depth() int {
	if k.path == "" {
		return 0
	}
	return strings.Count(k.path, sep) + 1
}

// Size returns the number of bytes of all segments and of one separator between
// each two: the length of the text form if that has no escapes. It is 0 for the
// root.
func (k Key) Size() int { return len(k.path) }

// IsRoot reports whether k is the root.
func (k Key) IsRoot() bool { return k.path == "" }

// Segments yields the segments in order from the root. Ranging over it does
// not allocate.
func (k Key) Segments() iter.Seq[string] {
	return func(yield func(string) bool) { k.eachSegment(yield) }
}

func (k Key) eachSegment(yield func(string) bool) {
	for start := 0; start < len(k.path); {
		end := k.segmentEnd(start)
		if !yield(k.path[start:end]) {
			return
		}
		start = end + 1
	}
}

// Contains reports whether other lies in the subtree of k: whether k equals
// other or is one of its ancestors.
func (k Key) Contains(other Key) bool {
	if !strings.HasPrefix(other.path, k.path) {
		return false
	}
	return len(other.path) == len(k.path) || k.path == "" || other.path[len(k.path)] == sep[0]
}

// Compare orders keys in tree order: it returns -1, 0 or +1 if k is before,
// equal to or after other. A key comes right before its descendants; siblings
// are in byte order of their segments.
func (k Key) Compare(other Key) int { return strings.Compare(k.path, other.path) }
