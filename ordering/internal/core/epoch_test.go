package core

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlacesAreOrderedByEpochs(t *testing.T) {
	for _, c := range []struct {
		place  uint64
		epoch  uint16
		number uint64
		ends   bool
	}{
		{0, 0, 0, false},
		{1, 0, 1, false},
		{EpochSize - 1, 0, EpochSize - 1, false},
		{EpochSize, 0, EpochSize, true},
		{EpochSize + 1, 1, 1, false},
		{2*EpochSize + 5, 2, 5, false},
		{MaxPlace, 65535, EpochSize, true},
	} {
		require.Equal(t, c.epoch, EpochOf(c.place), c.place)
		require.Equal(t, c.number, NumberOf(c.place), c.place)
		require.Equal(t, c.ends, EndsEpoch(c.place), c.place)
		if c.place > 0 {
			require.Equal(t, c.place, Place(c.epoch, c.number))
		}
	}
}

func TestSpansAreDividedByEpochs(t *testing.T) {
	const e = EpochSize
	for _, c := range []struct {
		span  Span
		parts []Span
	}{
		{Span{1, 5}, []Span{{1, 5}}},
		{Span{3, e}, []Span{{3, e}}},
		{Span{3, e + 1}, []Span{{3, e}, {e + 1, e + 1}}},
		{Span{e, e + 2}, []Span{{e, e}, {e + 1, e + 2}}},
		{Span{e + 1, e + 2}, []Span{{e + 1, e + 2}}},
		{Span{3, 2*e + 4}, []Span{{3, 2 * e}, {2*e + 1, 2*e + 4}}},
		{Span{3, 2 * e}, []Span{{3, 2 * e}}},
	} {
		require.Equal(t, c.parts, c.span.byEpochs(), c.span)
	}
}
