package bench

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Shares of the most frequent key, of those with two, and of owners, from the definition
// of each workload.
func TestWorkloadsAreAsTheySay(t *testing.T) {
	const n, resources = 100_000, 1000
	first := strings.Join(segments(0), "/")
	for name, want := range map[string]struct{ first, two, owners float64 }{
		"uniform":   {1.0 / resources, 0, 0},
		"zipf-0.9":  {0.0944, 0, 0},
		"zipf-1.1":  {0.1792, 0, 0},
		"transfer":  {2.0 / resources, 1, 0},
		"subtree-5": {0.95 / resources, 0, 0.05},
		"hot-20":    {0.2008, 0, 0},
	} {
		at := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		var firsts, two, owners float64
		msgs := workloads[at].stream(n, resources)
		for _, m := range msgs {
			if slices.Contains(m.paths, first) {
				firsts++
			}
			if len(m.keys) == 2 && m.keys[0] != m.keys[1] {
				two++
			}
			if m.keys[0].Depth() == 2 {
				owners++
			}
			for i, k := range m.keys {
				require.Equal(t, m.paths[i], strings.Join(slices.Collect(k.Segments()), "/"), "both forms are the same")
			}
		}
		require.InEpsilon(t, want.first, firsts/n, 0.25, name)
		require.InDelta(t, want.two, two/n, 1e-9, name)
		require.InDelta(t, want.owners, owners/n, 0.005, name)
		require.Equal(t, msgs[:100], workloads[at].stream(n, resources)[:100], "the same every time")
	}
	require.Len(t, workloads, 6)
}
