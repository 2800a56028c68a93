package replay

import (
	"slices"
	"sort"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// block is a range of missing numbers of a stream, by their places, see
// [ordering.Position.Place], both ends included, with the count of attempts for its
// first number.
type block struct {
	from, to uint64
	attempts int       // made for from, before the current one
	asked    int       // in the current attempt, sources below this index had their turn
	left     []*source // those worth asking; never changed in place
}

// blocks are rising and do not overlap.
type blocks []block

// overlap returns the indices i to j, j excluded, of the blocks that have
// numbers from..to.
func (b blocks) overlap(from, to uint64) (i, j int) {
	i = sort.Search(len(b), func(i int) bool { return b[i].to >= from })
	j = sort.Search(len(b), func(i int) bool { return b[i].from > to })
	return i, j
}

// cut removes the numbers from..to. The rest of a block behind them has a new first
// number, so its attempts start from 0.
func (b blocks) cut(from, to uint64) blocks {
	i, j := b.overlap(from, to)
	if i >= j {
		return b
	}
	rest := make([]block, 0, 2)
	if head := b[i]; head.from < from {
		head.to = from - 1
		rest = append(rest, head)
	}
	if tail := b[j-1]; tail.to > to {
		tail.from, tail.attempts, tail.asked = to+1, 0, 0
		rest = append(rest, tail)
	}
	return slices.Replace(b, i, j, rest...)
}

// within returns the parts of the blocks in from..to.
func (b blocks) within(from, to uint64) blocks {
	i, j := b.overlap(from, to)
	if i >= j {
		return nil
	}
	parts := slices.Clone(b[i:j])
	first, last := &parts[0], &parts[len(parts)-1]
	first.from, last.to = max(first.from, from), min(last.to, to)
	return parts
}

// add inserts blocks that do not overlap existing ones.
func (b blocks) add(more ...block) blocks {
	for _, m := range more {
		i, _ := b.overlap(m.from, m.to)
		b = slices.Insert(b, i, m)
	}
	return b
}

// size returns the number of numbers.
func (b blocks) size() (n uint64) {
	for _, x := range b {
		n += x.to - x.from + 1
	}
	return n
}

// ranges returns the blocks as ranges of a stream, neighbours joined.
func (b blocks) ranges(stream lockkeys.Key) []ordering.Range {
	var list []ordering.Range
	for i := 0; i < len(b); {
		x := b[i]
		for i++; i < len(b) && b[i].from == x.to+1; i++ {
			x.to = b[i].to
		}
		list = append(list, x.on(stream))
	}
	return list
}
