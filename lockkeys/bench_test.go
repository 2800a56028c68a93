package lockkeys

import (
	"fmt"
	"testing"
)

// keys of four segments, as in client/42/account/7.
func benchKeys(n int) []Key {
	keys := make([]Key, n)
	for i := range keys {
		keys[i] = Must("client", fmt.Sprintf("%06d", i/4), "account", fmt.Sprintf("%04d", i%4))
	}
	return keys
}

// One claim of one key, added and removed: with others held, with others
// waiting, and for keys seen before or not.
func BenchmarkSetAddRemove(b *testing.B) {
	for _, held := range []int{0, 1000, 10000} {
		for _, distinct := range []int{1024, 1 << 20} {
			b.Run(fmt.Sprintf("held=%d/keys=%d", held, distinct), func(b *testing.B) {
				var s Set[int]
				keys := benchKeys(distinct + held)
				for i := range held {
					s.Add(new(Place[int]), NewClaim(Request{Key: keys[distinct+i]}))
				}
				benchAddRemove(b, &s, keys[:distinct])
			})
		}
		b.Run(fmt.Sprintf("waiting=%d/keys=1024", held), func(b *testing.B) {
			var s Set[int]
			for range held + 1 {
				s.Add(new(Place[int]), NewClaim(Request{Key: Must("client", "hot")}))
			}
			benchAddRemove(b, &s, benchKeys(1024))
		})
	}
}

func benchAddRemove(b *testing.B, s *Set[int], keys []Key) {
	var (
		p     Place[int]
		c     Claim
		woken []*Place[int]
		i     int
	)
	b.ReportAllocs()
	for b.Loop() {
		c.Reset()
		c.Exclusive(keys[i])
		if i++; i == len(keys) {
			i = 0
		}
		s.Add(&p, &c)
		woken = s.Remove(&p, woken[:0])
	}
}

// Writers withdrawn last first from a queue in which they alternate with
// readers below them: the time per claim does not grow with the queue.
func BenchmarkSetWithdraw(b *testing.B) {
	writer, reader := NewClaim(exclusively("client")), NewClaim(sharing("client/42"))
	for _, waiting := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			places := make([]Place[int], waiting)
			for b.Loop() {
				var s Set[int]
				for i := range places {
					if i%2 == 0 {
						s.Add(&places[i], writer)
					} else {
						s.Add(&places[i], reader)
					}
				}
				for first := waiting - 2; first < waiting; first++ {
					for i := first; i >= 0; i -= 2 {
						s.Remove(&places[i], nil)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*waiting), "ns/claim")
		})
	}
}
