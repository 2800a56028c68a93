package lockkeys

import "math/bits"

// depths counts keys by depth. A key has to be compared with keys of another
// depth only if there are any, and usually all keys have the same depth.
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

// below reports whether there is a key deeper than the given depth.
func (ds *depths) below(depth int) bool { return ds.mask>>depth != 0 }

// upTo returns the depths from 1 to the given one at which there are keys;
// iterate over them with next.
func (ds *depths) upTo(depth int) depthSet { return depthSet(ds.mask & (1<<depth - 1)) }

// depthSet is a set of depths: d is in it if bit d-1 is set.
type depthSet uint64

// next removes the least depth from the set and returns it, or 0 if the set is
// empty.
func (s *depthSet) next() (depth int) {
	if *s == 0 {
		return 0
	}
	depth = bits.TrailingZeros64(uint64(*s)) + 1
	*s &= *s - 1
	return depth
}
