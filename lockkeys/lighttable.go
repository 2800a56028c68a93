package lockkeys

import "hash/maphash"

// lightTable finds light keys. It is a hash table of fixed size with open
// addressing and linear probing. Not much more than a quarter of the slots is
// ever in use. It is used instead of a map so that each key is hashed only
// once.
type lightTable[T any] struct {
	len   int
	slots []lightSlot[T]
}

type lightSlot[T any] struct {
	light
	place *Place[T] // the owner of the key; nil in a free slot
}

const lightSlots = 4 * maxLights // a power of two

func (t *lightTable[T]) init() { t.slots = make([]lightSlot[T], lightSlots) }

// seed is the same for all sets, so that keys can be hashed before they are
// added to one.
var seed = maphash.MakeSeed()

func hashOf(k Key) uint32 { return uint32(maphash.String(seed, k.path)) }

// find returns the index of the slot of l, or of the free slot where it
// belongs.
func (t *lightTable[T]) find(l light) int {
	i := l.hash % lightSlots
	for s := &t.slots[i]; s.place != nil && (s.hash != l.hash || s.key != l.key); s = &t.slots[i] {
		i = (i + 1) % lightSlots
	}
	return int(i)
}

// get returns the owner of l, or nil.
func (t *lightTable[T]) get(l light) *Place[T] { return t.slots[t.find(l)].place }

// put adds l, which is not in the table.
func (t *lightTable[T]) put(l light, p *Place[T]) {
	t.slots[t.find(l)] = lightSlot[T]{l, p}
	t.len++
}

// remove removes l, which is in the table. Entries behind it, up to the next
// free slot, move up where their hash allows.
func (t *lightTable[T]) remove(l light) {
	gap := uint32(t.find(l))
	for i := (gap + 1) % lightSlots; t.slots[i].place != nil; i = (i + 1) % lightSlots {
		if (i-t.slots[i].hash)%lightSlots >= (i-gap)%lightSlots {
			t.slots[gap], gap = t.slots[i], i
		}
	}
	t.slots[gap] = lightSlot[T]{}
	t.len--
}
