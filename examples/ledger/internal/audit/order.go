package audit

import (
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
)

// Order checks that of any two messages whose keys conflict, the one that
// comes first had ended before the other began.
//
// It does not compare pairs. Messages are given to it in their order, and for
// every key it remembers the latest end of those that asked for the key itself
// and of those that asked for anything in its subtree. A message is in order
// exactly if it began after the latest end among all that conflict with it:
// what was asked for above its keys, and what was asked for at or below them.
// That is one look-up for each level of each key, whatever came before.
//
// The zero Order is ready for use.
type Order struct {
	// Pairs is the number of conflicting pairs of requests that were covered.
	Pairs uint64
	// Violations is the number of messages that began too early.
	Violations int
	// First describes the first violations.
	First []Violation

	marks map[lockkeys.Key]*mark
}

// Interval is the time in which the handler of a message ran, in ticks.
type Interval struct{ ID, Begin, End uint64 }

// Violation is a message that began before an earlier one had ended that
// conflicts with it at a key.
type Violation struct {
	Earlier, Later Interval
	Key            lockkeys.Key
}

func (v Violation) String() string {
	how := "overlapped"
	if v.Later.End < v.Earlier.Begin {
		how = "overtook"
	}
	return fmt.Sprintf("message %d %s message %d at %s", v.Later.ID, how, v.Earlier.ID, v.Key)
}

// mark is what is remembered of a key, by mode.
type mark struct {
	at    [2]latest // requests for the key itself
	below [2]latest // requests for it or for a key below it
}

// latest is the last to end of a number of messages.
type latest struct {
	count uint64
	last  Interval
}

func (l *latest) add(i Interval) {
	l.count++
	if i.End > l.last.End {
		l.last = i
	}
}

const maxViolations = 5

// Add takes the next message, with its normalised requests.
func (o *Order) Add(i Interval, requests []lockkeys.Request) {
	if o.marks == nil {
		o.marks = map[lockkeys.Key]*mark{}
	}
	var worst latest
	var where lockkeys.Key
	for _, r := range requests {
		if w := o.before(r); w.last.End > worst.last.End {
			worst, where = w, r.Key
		}
	}
	if worst.last.End > i.Begin {
		o.Violations++
		if len(o.First) < maxViolations {
			o.First = append(o.First, Violation{Earlier: worst.last, Later: i, Key: where})
		}
	}
	for _, r := range requests {
		o.record(r, i)
	}
}

// before returns the last to end of the earlier messages that conflict with r.
func (o *Order) before(r lockkeys.Request) (worst latest) {
	consider := func(l [2]latest) {
		for mode, of := range l {
			if r.Mode == lockkeys.Shared && lockkeys.Mode(mode) == lockkeys.Shared {
				continue
			}
			o.Pairs += of.count
			if of.last.End > worst.last.End {
				worst = of
			}
		}
	}
	depth := r.Key.Depth()
	for d := range depth {
		if m := o.marks[r.Key.Ancestor(d)]; m != nil {
			consider(m.at)
		}
	}
	if m := o.marks[r.Key]; m != nil {
		consider(m.below)
	}
	return worst
}

func (o *Order) record(r lockkeys.Request, i Interval) {
	for d := range r.Key.Depth() + 1 {
		key := r.Key.Ancestor(d)
		m := o.marks[key]
		if m == nil {
			m = new(mark)
			o.marks[key] = m
		}
		m.below[r.Mode].add(i)
		if key == r.Key {
			m.at[r.Mode].add(i)
		}
	}
}
