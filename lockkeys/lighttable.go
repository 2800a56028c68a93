package lockkeys

import "hash/maphash"

// lightTable finds light keys. It is a hash table of one size, with open
// addressing: a key is in the slot that its hash tells, or in one of those
// behind it, with no free one in between. Never are much more than a quarter of
// the slots taken. A map would do as well; here a key is hashed once.
type lightTable[T any] struct {
	seed  maphash.Seed
	len   int
	slots []lightSlot[T]
}

type lightSlot[T any] struct {
	light
	place *Place[T] // whose key it is; nil in a free slot
}

const lightSlots = 4 * maxLights // a power of two

func (t *lightTable[T]) init() {
	t.seed, t.slots = maphash.MakeSeed(), make([]lightSlot[T], lightSlots)
}

// light returns k, of this depth, with its hash.
func (t *lightTable[T]) light(k Key, depth int) light {
	return light{key: k, depth: int32(depth), hash: uint32(maphash.String(t.seed, k.path))}
}

// find returns the index of the slot of l, or of the free one that it can have.
func (t *lightTable[T]) find(l light) int {
	i := l.hash % lightSlots
	for s := &t.slots[i]; s.place != nil && (s.hash != l.hash || s.key != l.key); s = &t.slots[i] {
		i = (i + 1) % lightSlots
	}
	return int(i)
}

// get returns whose key l is, or nil.
func (t *lightTable[T]) get(l light) *Place[T] { return t.slots[t.find(l)].place }

// put adds l, which is not in the table.
func (t *lightTable[T]) put(l light, p *Place[T]) {
	t.slots[t.find(l)] = lightSlot[T]{l, p}
	t.len++
}

// remove takes l out, which is in the table. What is behind it, up to the next
// free slot, moves up where its hash allows.
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
