package core

import "math/bits"

// ledger is what the effects of all processes have in common, whichever of them had
// a term when: it is kept beside the store, and knows nothing of its terms and
// tokens. An effect takes from the call of its handler to its commit.
type ledger struct {
	term   int // the last one that has begun
	moment int
	done   map[*message]string              // by whom
	ends   [64]struct{ any, exclusive int } // of each leaf of the lock keys: when the last effect ended that had it
}

// now returns the next moment.
func (l *ledger) now() int {
	l.moment++
	return l.moment
}

// forget is called when the effects are gone, since an older copy of the store was
// restored.
func (l *ledger) forget() { *l = ledger{term: l.term, moment: l.moment} }

// begins looks at a term that begins.
func (c *checks) begins(h *host) {
	if h.term <= c.ledger.term {
		c.fail("%s begins a term that has begun before", h.name)
	}
	c.ledger.term = h.term
}

// commits looks at an effect that has become durable: it is of the last term, the
// only one of its message, and has not overlapped with one whose lock keys conflict.
func (c *checks) commits(t *task) {
	l := &c.ledger
	switch by := l.done[t.m]; {
	case c.w.wentBack:
		return
	case t.h.term != l.term:
		c.fail("%s commits %v after the next term has begun", t.h.name, t.m)
	case by != "":
		c.fail("%s commits %v, which %s has committed", t.h.name, t.m, by)
	}
	if l.done == nil {
		l.done = map[*message]string{}
	}
	l.done[t.m] = t.h.name
	keys, now := t.m.keys, l.now()
	for leaves := keys.exclusive | keys.shared; leaves != 0; leaves &= leaves - 1 {
		leaf := bits.TrailingZeros64(leaves)
		isExclusive := keys.exclusive>>leaf&1 == 1
		end := &l.ends[leaf]
		if t.since < end.exclusive || isExclusive && t.since < end.any {
			c.fail("the effect of %v overlaps with another one whose lock keys conflict", t.m)
		}
		end.any = now
		if isExclusive {
			end.exclusive = now
		}
	}
}
