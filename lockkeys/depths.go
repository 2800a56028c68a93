package lockkeys

import (
	"iter"
	"math/bits"
)

// depths counts keys by their depth. A key needs to be compared with those of
// another depth only where there are any, and mostly all have the same.
type depths struct {
	counts [MaxDepth + 1]int
	mask   uint64 // bit d-1 is set if counts[d] is not 0
}

func (ds *depths) add(depth int) {
	ds.counts[depth]++
	if depth > 0 {
		ds.mask |= 1 << (depth - 1)
	}
}

func (ds *depths) drop(depth int) {
	if ds.counts[depth]--; ds.counts[depth] == 0 && depth > 0 {
		ds.mask &^= 1 << (depth - 1)
	}
}

// only tells whether there is no key of another depth, from 1 on, than this.
func (ds *depths) only(depth int) bool { return ds.mask&^(1<<(depth-1)) == 0 }

// below tells whether there is a key deeper than this.
func (ds *depths) below(depth int) bool { return ds.mask>>depth != 0 }

// upTo yields the depths from 1 to the given one at which there are keys.
func (ds *depths) upTo(depth int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for m := ds.mask & (1<<depth - 1); m != 0; m &= m - 1 {
			if !yield(bits.TrailingZeros64(m) + 1) {
				return
			}
		}
	}
}
