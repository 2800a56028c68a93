package bench

import (
	"slices"
	"strconv"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Pattern is a way for many messages to wait for each other. The cost of a
// message should not depend on how many do: total messages that all wait for
// one another are compared with as many that do so in small groups. So the
// memory in use is the same on both sides, and what differs is only the
// pattern.
type Pattern struct {
	Name  string
	Total int
	Group int // the size of a small group
	// claim is what the i-th message of a group of the given size claims; the
	// group's keys lie below owner.
	claim func(owner lockkeys.Key, i, size int) lockkeys.Key
}

// Patterns are the ways of waiting that are known to be hard.
var Patterns = []Pattern{
	{
		Name: "waiters on one key", Total: 1 << 16, Group: 16,
		claim: func(owner lockkeys.Key, _, _ int) lockkeys.Key { return child(owner, 0) },
	},
	{
		Name: "a subtree lock over waiting children", Total: 10_001, Group: 16,
		claim: func(owner lockkeys.Key, i, size int) lockkeys.Key {
			if i == size-1 {
				return owner
			}
			return child(owner, i)
		},
	},
	{
		Name: "subtree locks in a row", Total: 1000, Group: 16,
		claim: func(owner lockkeys.Key, _, _ int) lockkeys.Key { return owner },
	},
	{
		Name: "subtree locks in a row, a child between each two", Total: 2000, Group: 16,
		claim: func(owner lockkeys.Key, i, _ int) lockkeys.Key {
			if i%2 == 0 {
				return owner
			}
			return child(owner, i)
		},
	},
}

// claims returns the claims of all messages, in groups of the given size.
func (p Pattern) claims(size int) []lockkeys.Key {
	keys := make([]lockkeys.Key, p.Total)
	for i := range keys {
		owner := lockkeys.Must("client", strconv.Itoa(i/size))
		keys[i] = p.claim(owner, i%size, size)
	}
	return keys
}

func child(owner lockkeys.Key, i int) lockkeys.Key {
	account, err := owner.Child("account")
	if err != nil {
		panic(err)
	}
	k, err := account.Child(strconv.Itoa(i))
	if err != nil {
		panic(err)
	}
	return k
}

// Growth is how the cost of a message grows with a size.
type Growth struct {
	Name  string
	Sizes []int
	NS    []float64 // per message, by size: median
	Ratio float64   // of the dearest size to the first: median
}

// MeasurePattern compares a pattern's small groups with the large one.
func MeasurePattern(p Pattern, rounds int) Growth {
	const total = 1 << 16
	g := newGated(dispatcher.LookAhead(p.Total), p.Total)
	defer g.close()
	sizes := []int{p.Group, p.Total}
	keys := [][]lockkeys.Key{p.claims(p.Group), p.claims(p.Total)}
	return growth(p.Name, sizes, rounds, func(at int) float64 {
		return g.perMessage(keys[at], total)
	})
}

// Windows are the windows of look-ahead that are compared.
var Windows = []int{16, 256, 4096, 65_536}

// MeasureWindows compares the cost of a message for different windows while
// more messages wait than the widest has room for: as many of them are
// considered as the window allows, the rest is queued.
func MeasureWindows(rounds int) Growth {
	const total = 1 << 17
	keys := backlog(total)
	gates := make([]*gated, len(Windows))
	for i, window := range Windows {
		gates[i] = newGated(dispatcher.LookAhead(window), total)
		defer gates[i].close()
	}
	return growth("window", Windows, rounds, func(at int) float64 {
		return gates[at].perMessage(keys, total)
	})
}

// Backlogs are the numbers of queued messages that are compared.
var Backlogs = []int{256, 1024, 4096, 65_536}

// MeasureBacklogs compares the cost of a message by how many are queued and
// not considered yet. It grows with the memory in use, not with the claims.
func MeasureBacklogs(rounds int) Growth {
	const total = 1 << 16
	g := newGated(dispatcher.HeadOnly(), total)
	defer g.close()
	return growth("backlog", Backlogs, rounds, func(at int) float64 {
		return g.perMessage(backlog(Backlogs[at]), total)
	})
}

// backlog returns claims of n messages for 1,000 keys.
func backlog(n int) []lockkeys.Key {
	keys := make([]lockkeys.Key, n)
	for i := range keys {
		k := i * 7919 % 1000
		keys[i] = child(lockkeys.Must("client", strconv.Itoa(k/leavesPerOwner)), k%leavesPerOwner)
	}
	return keys
}

// growth measures every size in each round; the first round warms up.
func growth(name string, sizes []int, rounds int, measure func(at int) float64) Growth {
	costs := make([][]float64, len(sizes))
	var ratios []float64
	for round := range rounds + 1 {
		inRound := make([]float64, len(sizes))
		for i := range sizes {
			at := (i + round) % len(sizes)
			inRound[at] = measure(at)
		}
		if round == 0 {
			continue
		}
		for at, cost := range inRound {
			costs[at] = append(costs[at], cost)
		}
		ratios = append(ratios, slices.Max(inRound)/inRound[0])
	}
	g := Growth{Name: name, Sizes: sizes, Ratio: median(ratios)}
	for _, c := range costs {
		g.NS = append(g.NS, median(c))
	}
	return g
}
