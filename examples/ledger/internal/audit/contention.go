package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Contention counts who waited for which key. The zero Contention is ready
// for use.
type Contention struct {
	Waited int // messages that had to wait

	keys    map[lockkeys.Key]*Contended
	waiting map[uint64]wait
}

// Contended is a key that messages had to wait for.
type Contended struct {
	Key   lockkeys.Key
	Count int
	Time  time.Duration // sum over the messages
}

type wait struct {
	key   lockkeys.Key
	since time.Time
}

// Blocked says that a message has to wait for a key.
func (c *Contention) Blocked(id uint64, key lockkeys.Key, at time.Time) {
	if c.waiting == nil {
		c.waiting, c.keys = map[uint64]wait{}, map[lockkeys.Key]*Contended{}
	}
	if _, already := c.waiting[id]; already {
		return
	}
	c.waiting[id] = wait{key, at}
	c.Waited++
}

// Started says that the wait of a message, if it had to wait, is over.
func (c *Contention) Started(id uint64, at time.Time) {
	w, ok := c.waiting[id]
	if !ok {
		return
	}
	delete(c.waiting, id)
	k := c.keys[w.key]
	if k == nil {
		k = &Contended{Key: w.key}
		c.keys[w.key] = k
	}
	k.Count++
	k.Time += at.Sub(w.since)
}

// Top returns the n keys that were waited for most often.
func (c *Contention) Top(n int) []Contended {
	var list []Contended
	for _, k := range c.keys {
		list = append(list, *k)
	}
	slices.SortFunc(list, func(a, b Contended) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), a.Key.Compare(b.Key))
	})
	return list[:min(n, len(list))]
}
