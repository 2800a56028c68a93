package audit

import (
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Numbers checks that the messages of each stream were handed to the workers
// by rising epochs and numbers, and so that none was handed to them twice. Together with
// [Order], which checks that conflicting messages ran in the order in which
// they were handed over, it says that they ran in the order of their numbers.
//
// The zero Numbers is ready for use.
type Numbers struct {
	// Violations is the number of messages that were handed over too late.
	Violations int
	// First describes the first of them.
	First []string

	last map[lockkeys.Key]ordering.Position
}

// Streams is the number of streams seen.
func (n *Numbers) Streams() int { return len(n.last) }

// add takes the next message in the order in which they were handed over.
func (n *Numbers) add(r Record) {
	if n.last == nil {
		n.last = map[lockkeys.Key]ordering.Position{}
	}
	for _, p := range r.Positions {
		if before := n.last[p.Stream]; p.Place() <= before.Place() {
			n.Violations++
			if len(n.First) < maxViolations {
				n.First = append(n.First, fmt.Sprintf("message %d is %s and came after %s", r.ID, p, before))
			}
			continue
		}
		n.last[p.Stream] = p
	}
}
