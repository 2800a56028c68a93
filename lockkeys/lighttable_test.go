package lockkeys

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The table against a map, with hashes of which many are equal or meet at the
// end of the table.
func TestLightTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table lightTable[int]
		table.init()
		model := map[Key]*Place[int]{}
		spread := rapid.SampledFrom([]uint32{1, 3, 40, lightSlots}).Draw(t, "spread")
		key := func(i int) light {
			return light{key: Must(fmt.Sprint(i)), digest: digest{hash: lightSlots - 2 + uint32(i)*7%spread}}
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			l := key(rapid.IntRange(0, 50).Draw(t, "key"))
			require.Same(t, model[l.key], table.get(l))
			if model[l.key] == nil {
				model[l.key] = new(Place[int])
				table.put(l, model[l.key])
			} else {
				delete(model, l.key)
				table.remove(l)
			}
		}
		require.Equal(t, len(model), table.len)
		for i := range 51 {
			require.Same(t, model[key(i).key], table.get(key(i)))
		}
	})
}
