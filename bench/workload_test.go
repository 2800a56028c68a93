package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWorkloadsHaveConflicts(t *testing.T) {
	for _, workload := range Workloads {
		for _, keys := range []int{10, 1000, 1_000_000} {
			msgs := Stream{workload, keys, 4}.Make(streamLen)
			seen := make(map[string]bool)
			for _, m := range msgs {
				seen[m.Paths[0]] = true
			}
			require.Less(t, len(seen), len(msgs), "%s with %d keys", workload, keys)
		}
	}
}

// Shares of the most frequent key, from the definition of each workload.
func TestWorkloadsAreSkewedAsTheySay(t *testing.T) {
	const n, keys = 100_000, 1000
	for _, test := range []struct {
		workload string
		share    float64
	}{
		{"uniform", 1.0 / keys},
		{"zipf-0.6", 0.0257},
		{"zipf-0.9", 0.0944},
		{"zipf-1.1", 0.1792},
		{"hot-20", 0.2008},
	} {
		first := strings.Join(Segments(0, 4), "/")
		count := 0
		for _, m := range (Stream{test.workload, keys, 4}).Make(n) {
			if m.Paths[0] == first {
				count++
			}
		}
		require.InEpsilon(t, test.share, float64(count)/n, 0.25, test.workload)
	}
}

func TestTransfersHaveTwoKeys(t *testing.T) {
	for _, m := range (Stream{"transfer", 10, 4}).Make(1000) {
		require.Len(t, m.Keys, 2)
		require.NotEqual(t, m.Keys[0], m.Keys[1])
	}
}

func TestSubtreeLocksClaimOwners(t *testing.T) {
	for _, depth := range []int{2, 4, 8} {
		const n = 20_000
		owners := 0
		for _, m := range (Stream{"subtree-5", 1000, depth}).Make(n) {
			switch m.Keys[0].Depth() {
			case depth / 2:
				owners++
			case depth:
			default:
				require.Fail(t, "unexpected key", "%v", m.Keys[0])
			}
		}
		require.InEpsilon(t, 0.05, float64(owners)/n, 0.1)
	}
}

func TestStreamsAreTheSameEveryTimeAndInBothForms(t *testing.T) {
	for _, workload := range Workloads {
		s := Stream{workload, 100, 8}
		a, b := s.Make(500), s.Make(500)
		require.Equal(t, a, b)
		for _, m := range a {
			for i, k := range m.Keys {
				var segments []string
				for segment := range k.Segments() {
					segments = append(segments, segment)
				}
				require.Equal(t, m.Paths[i], strings.Join(segments, "/"))
			}
		}
	}
}
