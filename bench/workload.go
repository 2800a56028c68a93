package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Msg is one message, made before the clock starts and given to every
// contender alike. It names its resources in both forms that are in use.
type Msg struct {
	N     int            // its place in the stream
	Keys  []lockkeys.Key // as Interlock takes them
	Paths []string       // the same, as the others take them

	// When the handler ran, since the start of the run. Set by handlers that
	// take time, for [LongestChain] and the makespan.
	Start, End time.Duration
}

// Stream says what messages are like. No stream has distinct keys only:
// such a run measures no ordering.
type Stream struct {
	Workload string // one of Workloads
	Keys     int    // how many resources there are
	Depth    int    // segments of a resource's key: 2, 4 or 8
}

// String returns the stream in the form of a benchmark's name.
func (s Stream) String() string {
	return fmt.Sprintf("workload=%s/keys=%d/depth=%d", s.Workload, s.Keys, s.Depth)
}

// Workloads are the names of all workloads.
var Workloads = []string{
	"uniform",   // one resource, each as likely as the other
	"zipf-0.6",  // one resource, the k-th with a weight of k^-0.6
	"zipf-0.9",  // likewise
	"zipf-1.1",  // likewise: of a thousand the first has 18 %
	"transfer",  // two different resources, uniform
	"subtree-5", // uniform, but 5 % claim a whole owner
	"hot-20",    // uniform, but 20 % claim one and the same resource
}

// leavesPerOwner is how many resources lie below one that owns them: the
// accounts of a client.
const leavesPerOwner = 4

// Make returns the first n messages of the stream, the same ones every time.
func (s Stream) Make(n int) []*Msg {
	rnd := rand.New(rand.NewPCG(7, 11))
	pick := s.picker(rnd)
	leaf, owner := s.names()
	msgs := make([]*Msg, n)
	for i := range msgs {
		k := pick()
		switch {
		case s.Workload == "transfer":
			other := rnd.IntN(s.Keys - 1)
			if other >= k {
				other++
			}
			msgs[i] = message(leaf(k), leaf(other))
		case s.Workload == "subtree-5" && rnd.Float64() < 0.05:
			msgs[i] = message(owner(k))
		default:
			msgs[i] = message(leaf(k))
		}
		msgs[i].N = i
	}
	return msgs
}

// picker returns what draws the number of a resource.
func (s Stream) picker(rnd *rand.Rand) func() int {
	uniform := func() int { return rnd.IntN(s.Keys) }
	switch s.Workload {
	case "uniform", "transfer", "subtree-5":
		return uniform
	case "hot-20":
		return func() int {
			if rnd.Float64() < 0.2 {
				return 0
			}
			return uniform()
		}
	case "zipf-0.6":
		return zipf(rnd, s.Keys, 0.6)
	case "zipf-0.9":
		return zipf(rnd, s.Keys, 0.9)
	case "zipf-1.1":
		return zipf(rnd, s.Keys, 1.1)
	}
	panic("bench: no workload " + s.Workload)
}

// zipf draws from 0 to n-1, k with a weight of (k+1)^-exponent. The standard
// library's own wants an exponent above 1.
func zipf(rnd *rand.Rand, n int, exponent float64) func() int {
	sums := make([]float64, n)
	sum := 0.0
	for k := range sums {
		sum += math.Pow(float64(k+1), -exponent)
		sums[k] = sum
	}
	return func() int {
		return min(sort.SearchFloat64s(sums, rnd.Float64()*sum), n-1)
	}
}

// name is a resource's name in both forms.
type name struct {
	key  lockkeys.Key
	path string
}

func newName(segments []string) name {
	return name{lockkeys.Must(segments...), strings.Join(segments, "/")}
}

// names returns functions that name resource k, and its owner. A name is made
// once, so that messages for one resource share its memory.
func (s Stream) names() (leaf, owner func(k int) name) {
	leaves, owners := make(map[int]name), make(map[int]name)
	leaf = func(k int) name {
		n, ok := leaves[k]
		if !ok {
			n = newName(Segments(k, s.Depth))
			leaves[k] = n
		}
		return n
	}
	owner = func(k int) name {
		k /= leavesPerOwner
		n, ok := owners[k]
		if !ok {
			n = newName(Segments(k*leavesPerOwner, s.Depth)[:s.Depth/2])
			owners[k] = n
		}
		return n
	}
	return leaf, owner
}

// Segments returns the segments of resource k's key. Its owner is the first
// half of them.
func Segments(k, depth int) []string {
	owner, leaf := fmt.Sprintf("%06d", k/leavesPerOwner), fmt.Sprintf("%04d", k%leavesPerOwner)
	switch depth {
	case 2:
		return []string{owner, leaf}
	case 4:
		return []string{"client", owner, "account", leaf}
	case 8:
		return []string{"bank", "north", "client", owner, "account", leaf, "currency", "eur"}
	}
	panic(fmt.Sprintf("bench: no keys of depth %d", depth))
}

func message(names ...name) *Msg {
	m := &Msg{Keys: make([]lockkeys.Key, len(names)), Paths: make([]string, len(names))}
	for i, n := range names {
		m.Keys[i], m.Paths[i] = n.key, n.path
	}
	return m
}
