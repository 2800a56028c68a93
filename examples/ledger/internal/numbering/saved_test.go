package numbering

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/interlock-go/interlock/lockkeys"
)

// However often a numbering is saved and loaded, it gives the same numbers.
func TestSavedNumberingGoesOn(t *testing.T) {
	below := lockkeys.Must("input", "3")
	keys := []string{"/", "client", "?client", "client/1", "client/2/a", "?client/2/b", "bank/" + strings.Repeat("x", 100) + "/y", "a/b", "c", "d/e/f"}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 12).Draw(t, "limit")
		kept, saved := NewBounded(below, limit), NewBounded(below, limit)
		for range rapid.IntRange(0, 60).Draw(t, "messages") {
			requests := claim(rapid.SliceOfN(rapid.SampledFrom(keys), 1, 3).Draw(t, "keys")...).Requests()
			require.Equal(t, kept.Next(requests), saved.Next(requests))
			if rapid.Bool().Draw(t, "save") {
				text, err := saved.Save()
				require.NoError(t, err)
				saved, err = Load(below, text)
				require.NoError(t, err)
				require.Equal(t, kept.Messages(), saved.Messages())
			}
		}
	})
}

func TestLoadRefuses(t *testing.T) {
	n := New(lockkeys.Root())
	n.Next(claim("a/b", "/").Requests())
	text, err := n.Save()
	require.NoError(t, err)
	for _, wrong := range [][]byte{nil, []byte("nonsense"), text[:len(text)/2]} {
		_, err := Load(lockkeys.Root(), wrong)
		assert.ErrorIs(t, err, ErrSaved)
	}
}
