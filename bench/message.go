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

// message is made before the clock starts and given to every contender alike. It names
// its resources in both forms that are in use.
type message struct {
	n     int            // its place in the stream
	keys  []lockkeys.Key // as Interlock takes them
	paths []string       // the same, as the others take them

	// When the handler ran, since the start of the run, if the handler notes it.
	start, end time.Duration

	spun int // what a handler that computes has found
}

// workload draws the resources of messages. None has distinct keys only: such a run
// measures no ordering.
type workload struct {
	name   string
	zipf   float64 // the k-th resource has a weight of k to the power of minus this
	two    bool    // a second resource, any other: a transfer
	owners float64 // the part that claims an owner with all its resources
	hot    float64 // the part that claims the first resource
}

var uniform = workload{name: "uniform"}

var workloads = []workload{
	uniform,
	{name: "zipf-0.9", zipf: 0.9},
	{name: "zipf-1.1", zipf: 1.1}, // of a thousand resources, the first has 18 %
	{name: "transfer", two: true},
	{name: "subtree-5", owners: 0.05},
	{name: "hot-20", hot: 0.2},
}

// leavesPerOwner is how many resources lie below one that owns them: the accounts of a
// client.
const leavesPerOwner = 4

// stream returns n messages for some resources, the same ones every time.
func (w workload) stream(n, resources int) []*message {
	rnd := rand.New(rand.NewPCG(7, 11))
	sums := make([]float64, resources) // of weights
	sum := 0.0
	for k := range sums {
		sum += math.Pow(float64(k+1), -w.zipf)
		sums[k] = sum
	}
	names := make(map[string]name) // so that messages for one resource share its memory
	msgs := make([]*message, n)
	for i := range msgs {
		k := 0
		if rnd.Float64() >= w.hot {
			k = min(sort.SearchFloat64s(sums, rnd.Float64()*sum), resources-1)
		}
		m := &message{n: i}
		switch {
		case w.two:
			m.add(names, segments(k))
			m.add(names, segments((k+1+rnd.IntN(resources-1))%resources))
		case rnd.Float64() < w.owners:
			m.add(names, segments(k)[:2])
		default:
			m.add(names, segments(k))
		}
		msgs[i] = m
	}
	return msgs
}

// name is a resource's name in both forms.
type name struct {
	key  lockkeys.Key
	path string
}

func (m *message) add(names map[string]name, segments []string) {
	path := strings.Join(segments, "/")
	n, ok := names[path]
	if !ok {
		n = name{lockkeys.Must(segments...), path}
		names[path] = n
	}
	m.keys, m.paths = append(m.keys, n.key), append(m.paths, n.path)
}

// segments returns the segments of resource k's key. The first two are its owner.
func segments(k int) []string {
	return []string{"client", fmt.Sprintf("%06d", k/leavesPerOwner), "account", fmt.Sprintf("%04d", k%leavesPerOwner)}
}
