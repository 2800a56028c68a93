package lockkeys

import (
	"maps"
	"strings"

	"github.com/google/btree"
)

// index finds values by their keys: in tree order in a B-tree, and by a single
// look-up in a table. Call init before the first use.
type index[V any] struct {
	tree  *btree.BTreeG[entry[V]]
	byKey map[Key]V
	peak  int // how many keys byKey has had room for, as far as known

	found entry[V] // by visit
	visit btree.ItemIteratorG[entry[V]]
}

type entry[V any] struct {
	key   Key
	value V
}

const (
	degree = 32 // of the B-tree
	// A map does not shrink, so one that has grown far beyond this number of
	// keys is replaced when it is down to it again.
	smallIndex = 2 * maxIdleNodes
)

// init makes x ready.
func (x *index[V]) init() {
	x.tree = btree.NewG(degree, func(a, b entry[V]) bool { return a.key.path < b.key.path })
	x.byKey = make(map[Key]V)
	x.visit = func(e entry[V]) bool { x.found = e; return false }
}

// owned returns the ancestor of k that has its first n bytes, or k itself. It
// copies the bytes where the result would otherwise keep something much longer
// alive: the rest of k or, if k has a single segment, the string that the
// caller sliced that from, such as a message. Keys of several segments already
// have memory of their own.
func (k Key) owned(n int) Key {
	part := k.path[:n]
	if len(k.path) > 2*n+64 || !strings.Contains(k.path, sep) {
		part = strings.Clone(part)
	}
	return Key{part}
}

func (x *index[V]) len() int { return len(x.byKey) }

// get returns the value of k.
func (x *index[V]) get(k Key) (value V, ok bool) {
	value, ok = x.byKey[k]
	return value, ok
}

// put adds k, which is not in the index, with its value.
func (x *index[V]) put(k Key, value V) {
	x.tree.ReplaceOrInsert(entry[V]{k, value})
	x.byKey[k] = value
	x.peak = max(x.peak, len(x.byKey))
}

// remove removes k.
func (x *index[V]) remove(k Key) {
	x.tree.Delete(entry[V]{key: k})
	delete(x.byKey, k)
	if len(x.byKey) == smallIndex && x.peak > 8*smallIndex {
		few := make(map[Key]V, smallIndex)
		maps.Copy(few, x.byKey)
		x.byKey, x.peak = few, smallIndex
	}
}

// before returns the value of the last key up to k. There must be one.
func (x *index[V]) before(k Key) V {
	x.tree.DescendLessOrEqual(entry[V]{key: k}, x.visit)
	value := x.found.value
	x.found = entry[V]{}
	return value
}

// below calls f with the values of the keys below k, in tree order, until it
// returns false.
func (x *index[V]) below(k Key, f func(V) bool) {
	x.tree.AscendGreaterOrEqual(entry[V]{key: k}, func(e entry[V]) bool {
		return k.Contains(e.key) && (e.key == k || f(e.value))
	})
}

// all calls f with all values in tree order until it returns false.
func (x *index[V]) all(f func(V) bool) {
	x.tree.Ascend(func(e entry[V]) bool { return f(e.value) })
}
