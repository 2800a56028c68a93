package httpauth

import (
	"math"
	"sync"
)

// Slots bounds concurrent requests: their number, their bytes, and the share of one
// key in both.
type Slots struct {
	all, each room // the bounds

	mu struct {
		sync.Mutex
		all  room
		each map[int]room // by the index of the key
	}
}

// DefaultShare returns the default share of one key, given the number of keys.
func DefaultShare(keys int) float64 {
	if keys > 1 {
		return 0.75
	}
	return 1
}

type room struct {
	requests int
	bytes    int64
}

// NewSlots returns slots for a number of requests and bytes, of which one key has at
// most a share, from 0 to 1, but always one request.
func NewSlots(requests int, bytes int64, share float64) *Slots {
	s := &Slots{all: room{requests, bytes}}
	s.each = room{int(shareOf(share, int64(requests))), shareOf(share, bytes)}
	s.mu.each = map[int]room{}
	return s
}

// shareOf returns a share of n, rounded up. A float64 of a large n may be more than
// an int64 can be.
func shareOf(share float64, n int64) int64 {
	if part := math.Ceil(share * float64(n)); part < float64(n) {
		return int64(part)
	}
	return n
}

// Take takes a slot for a request of a key, and reports whether there was one. A
// request larger than the bound gets one if there is no other request.
func (s *Slots) Take(key int, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := s.mu.each[key]
	if !s.mu.all.fits(s.all, bytes) || !each.fits(s.each, bytes) {
		return false
	}
	s.mu.all.add(1, bytes)
	each.add(1, bytes)
	s.mu.each[key] = each
	return true
}

// Grow takes more bytes for a request that has a slot, and reports whether they
// were available. The only request always gets them.
func (s *Slots) Grow(key int, bytes int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	each := s.mu.each[key]
	if s.mu.all.requests > 1 && s.mu.all.bytes+bytes > s.all.bytes || each.requests > 1 && each.bytes+bytes > s.each.bytes {
		return false
	}
	s.mu.all.add(0, bytes)
	each.add(0, bytes)
	s.mu.each[key] = each
	return true
}

// Release returns a slot with its bytes, those of Take and Grow together.
func (s *Slots) Release(key int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.all.add(-1, -bytes)
	each := s.mu.each[key]
	each.add(-1, -bytes)
	s.mu.each[key] = each
}

// Open returns the number of requests with a slot.
func (s *Slots) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.all.requests
}

// fits reports whether one more request is within the bounds.
func (r room) fits(bounds room, bytes int64) bool {
	return r.requests == 0 || r.requests < bounds.requests && r.bytes+bytes <= bounds.bytes
}

func (r *room) add(requests int, bytes int64) {
	r.requests += requests
	r.bytes += bytes
}
