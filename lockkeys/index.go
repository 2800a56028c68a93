package lockkeys

import (
	"hash/maphash"
	"strings"

	"github.com/google/btree"
)

// index finds values by their keys: in a B-tree in tree order, with a small
// table of those looked up lately in front of it. The zero index must be made
// ready with init.
type index[V any] struct {
	tree *btree.BTreeG[entry[V]]

	seed   maphash.Seed
	recent []recent[V] // sets of recentWays, by the low bits of the hash

	found entry[V] // by visit
	visit btree.ItemIteratorG[entry[V]]
}

type entry[V any] struct {
	key   Key
	value V
}

// recent is a key that was looked up lately, and what came of it.
type recent[V any] struct {
	hash    uint64
	key     Key
	value   V
	present bool // the key is in the tree
}

const (
	degree     = 32   // of the B-tree
	recentSize = 4096 // a power of two
	recentWays = 4    // likewise
)

// init makes x ready. Indexes with the same seed have the same hash of a key.
func (x *index[V]) init(seed maphash.Seed) {
	x.tree = btree.NewG(degree, func(a, b entry[V]) bool { return a.key.path < b.key.path })
	x.seed = seed
	x.recent = make([]recent[V], recentSize)
	x.visit = func(e entry[V]) bool { x.found = e; return false }
}

// owned returns k with memory of its own. A key of one segment may be part of
// a long string of the caller's, a message perhaps, that must not be kept
// alive; other keys have been put together from their segments.
func (k Key) owned() Key {
	if strings.Contains(k.path, sep) {
		return k
	}
	return Key{strings.Clone(k.path)}
}

func (x *index[V]) len() int { return x.tree.Len() }

func (x *index[V]) hash(k Key) uint64 { return maphash.String(x.seed, k.path) }

// ways returns where a key with this hash can be in the table.
func (x *index[V]) ways(hash uint64) []recent[V] {
	return x.recent[hash&(recentSize-recentWays):][:recentWays]
}

// get returns the value of k.
func (x *index[V]) get(k Key) (value V, ok bool) { return x.getHashed(k, x.hash(k)) }

// getHashed is get for a key whose hash is known.
func (x *index[V]) getHashed(k Key, hash uint64) (value V, ok bool) {
	ways := x.ways(hash)
	for i := range ways {
		if w := &ways[i]; w.hash == hash && w.key == k {
			return w.value, w.present
		}
	}
	e, ok := x.tree.Get(entry[V]{key: k})
	copy(ways[1:], ways)
	ways[0] = recent[V]{hash, k.owned(), e.value, ok}
	return e.value, ok
}

// put adds k, which is not in the index, with its value.
func (x *index[V]) put(k Key, value V) {
	x.tree.ReplaceOrInsert(entry[V]{k, value})
	hash := x.hash(k)
	ways := x.ways(hash)
	at := len(ways) - 1 // the place of what is known of k, or the last
	for i := range ways {
		if ways[i].hash == hash && ways[i].key == k {
			at = i
		}
	}
	copy(ways[1:at+1], ways)
	ways[0] = recent[V]{hash, k, value, true}
}

// remove takes k out.
func (x *index[V]) remove(k Key) {
	x.tree.Delete(entry[V]{key: k})
	hash := x.hash(k)
	ways := x.ways(hash)
	for i := range ways {
		if ways[i].hash == hash && ways[i].key == k {
			ways[i] = recent[V]{}
		}
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
