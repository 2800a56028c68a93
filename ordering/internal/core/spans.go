package core

import "slices"

// Span is a range of numbers, both ends included.
type Span struct{ From, To uint64 }

// Spans is a set of numbers. The zero Spans is empty.
//
// Invariant: the spans are in ascending order, and neither overlap nor touch.
type Spans []Span

// Contains reports whether a number is in the set.
func (s Spans) Contains(n uint64) bool {
	_, found := slices.BinarySearchFunc(s, n, func(r Span, n uint64) int {
		switch {
		case r.To < n:
			return -1
		case r.From > n:
			return 1
		}
		return 0
	})
	return found
}

// Add returns the set with the numbers of r. It may change s.
func (s Spans) Add(r Span) Spans {
	first, _ := slices.BinarySearchFunc(s, r.From, func(have Span, from uint64) int {
		if have.To+1 < from {
			return -1
		}
		return 1
	})
	last := first
	for last < len(s) && s[last].From <= r.To+1 {
		r.From, r.To = min(r.From, s[last].From), max(r.To, s[last].To)
		last++
	}
	return slices.Replace(s, first, last, r)
}

// Absorb returns the first number from n on that is not in the set, and the
// set without the numbers before it.
func (s Spans) Absorb(n uint64) (uint64, Spans) {
	for len(s) > 0 && s[0].From <= n {
		n = max(n, s[0].To+1)
		s = s[1:]
	}
	return n, s
}

// Without returns the parts of r that are not in the set.
func (s Spans) Without(r Span) (parts []Span) {
	for _, have := range s {
		switch {
		case have.To < r.From:
			continue
		case have.From > r.To:
			return append(parts, r)
		case have.From > r.From:
			parts = append(parts, Span{r.From, have.From - 1})
		}
		if have.To >= r.To {
			return parts
		}
		r.From = have.To + 1
	}
	return append(parts, r)
}
