package ordering

import "slices"

// span is a range of numbers, both ends included.
type span struct{ from, to uint64 }

// spans is a set of numbers.
//
// Invariant: the spans rise, and neither overlap nor touch.
type spans []span

// spansOf returns the set of numbers that rise.
func spansOf(numbers []uint64) (set spans) {
	for _, n := range numbers {
		set = set.add(span{n, n})
	}
	return set
}

func (s spans) contains(n uint64) bool {
	_, found := slices.BinarySearchFunc(s, n, func(r span, n uint64) int {
		switch {
		case r.to < n:
			return -1
		case r.from > n:
			return 1
		}
		return 0
	})
	return found
}

func (s spans) add(r span) spans {
	first, _ := slices.BinarySearchFunc(s, r.from, func(have span, from uint64) int {
		if have.to+1 < from {
			return -1
		}
		return 1
	})
	last := first
	for last < len(s) && s[last].from <= r.to+1 {
		r.from, r.to = min(r.from, s[last].from), max(r.to, s[last].to)
		last++
	}
	return slices.Replace(s, first, last, r)
}

// absorb returns the first number from n on that is not in the set, and the
// set without the numbers before it.
func (s spans) absorb(n uint64) (uint64, spans) {
	for len(s) > 0 && s[0].from <= n {
		n = max(n, s[0].to+1)
		s = s[1:]
	}
	return n, s
}

// without returns the parts of r that are not in the set.
func (s spans) without(r span) (parts []span) {
	for _, have := range s {
		switch {
		case have.to < r.from:
			continue
		case have.from > r.to:
			return append(parts, r)
		case have.from > r.from:
			parts = append(parts, span{r.from, have.from - 1})
		}
		if have.to >= r.to {
			return parts
		}
		r.from = have.to + 1
	}
	return append(parts, r)
}
