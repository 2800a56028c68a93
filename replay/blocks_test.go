package replay

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

// Blocks are a set of numbers: they do what a map would do.
func TestBlocksAreASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blocks, model := blocks{{from: 10, to: 40, attempts: 3}}, map[uint64]bool{}
		for n := uint64(10); n <= 40; n++ {
			model[n] = true
		}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			from := rapid.Uint64Range(1, 50).Draw(t, "from")
			to := from + rapid.Uint64Range(0, 8).Draw(t, "more")
			var in int
			for _, part := range blocks.within(from, to) {
				for n := part.from; n <= part.to; n++ {
					require.True(t, model[n] && from <= n && n <= to)
					in++
				}
			}
			add := rapid.Bool().Draw(t, "add")
			blocks = blocks.cut(from, to)
			if add {
				blocks = blocks.add(block{from: from, to: to})
			}
			for n := from; n <= to; n++ {
				if model[n] {
					in--
				}
				if model[n] = add; !add {
					delete(model, n)
				}
			}
			require.Zero(t, in, "within gives all that is there")
		}
		last := uint64(0)
		for _, b := range blocks {
			require.Greater(t, b.from, last)
			require.GreaterOrEqual(t, b.to, b.from)
			last = b.to
			for n := b.from; n <= b.to; n++ {
				require.True(t, model[n])
			}
		}
		require.EqualValues(t, len(model), blocks.size())
	})
}

// Attempts belong to the first number of a block.
func TestCutKeepsAttemptsOfTheFirst(t *testing.T) {
	b := blocks{{from: 1, to: 9, attempts: 2, asked: 1}}.cut(4, 6)
	assert.Equal(t, blocks{{from: 1, to: 3, attempts: 2, asked: 1}, {from: 7, to: 9}}, b)
	assert.Equal(t, blocks{{from: 2, to: 3}, {from: 7, to: 9}}, b.cut(1, 1))
}

func TestRangesJoinsNeighbours(t *testing.T) {
	k := lockkeys.Must("k")
	ranges := blocks{{from: 1, to: 2}, {from: 3, to: 3}, {from: 5, to: 5}}.ranges(k)
	require.Len(t, ranges, 2)
	assert.Equal(t, "k: 1 to 3", ranges[0].String())
	assert.Equal(t, "k: 5", ranges[1].String())
}
