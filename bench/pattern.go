package bench

import (
	"fmt"
	"strconv"

	"github.com/interlock-go/interlock/bench/internal/stat"
	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Pattern is a way for many messages to wait for each other. The cost of a
// message should not depend on how many do: total messages that all wait for
// one another are compared with as many that do so in small groups. So the
// memory in use is the same on both sides, and what differs is only the
// pattern. Few messages in all are measured too, whose memory fits a cache.
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

// few is how many messages are few.
const few = 256

// claims returns the claims of n messages, in groups of the given size.
func (p Pattern) claims(n, size int) []lockkeys.Key {
	keys := make([]lockkeys.Key, n)
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

// Growth is how the cost of a message differs between variants.
type Growth struct {
	Name     string
	Variants []string
	costs    [][]float64 // of a message in nanoseconds: by variant, by round
}

// NS returns the nanoseconds for a message of a variant, in the median round.
func (g Growth) NS(variant int) float64 { return stat.Median(g.costs[variant]) }

// Ratio returns the cost of a variant in times of that of another in the same
// round, in the median round.
func (g Growth) Ratio(variant, other int) float64 {
	return stat.Ratio(g.costs[variant], g.costs[other])
}

// Worst returns the ratio of the dearest variant to the first.
func (g Growth) Worst() (ratio float64) {
	for i := range g.costs {
		ratio = max(ratio, g.Ratio(i, 0))
	}
	return ratio
}

// Variants of a pattern.
const (
	inGroups = iota
	allInOne
	fewInOne
)

// MeasurePattern compares small groups of a pattern, the large one, and few
// messages in all.
func MeasurePattern(p Pattern, rounds int) Growth {
	const total = 1 << 16
	g := newGated(dispatcher.LookAhead(p.Total), p.Total)
	defer g.close()
	variants := []string{
		inGroups: fmt.Sprintf("%d in groups of %d", p.Total, p.Group),
		allInOne: fmt.Sprintf("%d in one", p.Total),
		fewInOne: fmt.Sprintf("%d in one", few),
	}
	keys := [][]lockkeys.Key{
		inGroups: p.claims(p.Total, p.Group),
		allInOne: p.claims(p.Total, p.Total),
		fewInOne: p.claims(few, few),
	}
	return growth(p.Name, variants, rounds, func(at int) float64 {
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
	return growth("window", numbers(Windows), rounds, func(at int) float64 {
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
	return growth("backlog", numbers(Backlogs), rounds, func(at int) float64 {
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

func numbers(values []int) (texts []string) {
	for _, v := range values {
		texts = append(texts, strconv.Itoa(v))
	}
	return texts
}

// growth measures every variant in each round; the first round warms up.
func growth(name string, variants []string, rounds int, measure func(at int) float64) Growth {
	g := Growth{name, variants, make([][]float64, len(variants))}
	for round := range rounds + 1 {
		for i := range variants {
			at := (i + round) % len(variants)
			if cost := measure(at); round > 0 {
				g.costs[at] = append(g.costs[at], cost)
			}
		}
	}
	return g
}
