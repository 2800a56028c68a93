package bench

import (
	"fmt"
	"sync"

	"github.com/interlock-go/interlock/lockkeys"
)

// Latch admits and releases claims of one key as the dispatcher does it, and
// nothing else: one mutex, and the set of claims under it. It is what compares
// with the acquiring and releasing of a latch.
type Latch struct {
	mu    sync.Mutex
	set   lockkeys.Set[int]
	keys  []lockkeys.Key
	next  int
	claim lockkeys.Claim
	place lockkeys.Place[int]
	woken []*lockkeys.Place[int]
}

// latchKeys is how many keys a Latch takes in turn: as many as the study of
// spanlatch did.
const latchKeys = 1024

// NewLatch returns a latch while as many other keys as said are held by
// somebody, and as many claims wait for one other key that is held.
func NewLatch(held, waiting int) *Latch {
	l := new(Latch)
	for i := range latchKeys {
		l.keys = append(l.keys, lockkeys.Must(Segments(i, 4)...))
	}
	for i := range held {
		l.add(lockkeys.Must(Segments(latchKeys+i, 4)...))
	}
	for i := range waiting {
		if i == 0 {
			l.add(lockkeys.Must("hot"))
		}
		l.add(lockkeys.Must("hot", fmt.Sprint(i)))
	}
	return l
}

func (l *Latch) add(k lockkeys.Key) {
	var claim lockkeys.Claim
	claim.Exclusive(k)
	l.set.Add(new(lockkeys.Place[int]), &claim)
}

// Cycle admits and releases n claims, one after the other.
func (l *Latch) Cycle(n int) {
	for range n {
		l.claim.Reset()
		l.claim.Exclusive(l.keys[l.next])
		l.claim.Requests()
		if l.next++; l.next == len(l.keys) {
			l.next = 0
		}
		l.mu.Lock()
		l.set.Add(&l.place, &l.claim)
		l.mu.Unlock()
		l.mu.Lock()
		l.woken = l.set.Remove(&l.place, l.woken[:0])
		l.mu.Unlock()
	}
}

// spanlatchRatio is what spanlatch's acquire and release of a one-key write
// latch cost with nothing else held, in times of the channel pool's cost per
// message with two workers: 799 ns to 72.8 ns, the medians of nine rounds of an
// earlier study, on a machine of two cores, with a cut-down copy that cannot
// be published here because of its licence.
const spanlatchRatio = 799 / 72.8

// Admission is the cost of admitting and releasing one claim.
type Admission struct {
	Held, Waiting int
	NS            float64
	ToPool        float64 // in times of the channel pool with two workers
	ToNone        float64 // in times of the same with nothing held or waiting
}

// MeasureAdmission measures with nothing, with 1,000 and 10,000 keys held, and
// with as many claims waiting.
func MeasureAdmission(rounds, n int) []Admission {
	c := NewCase()
	c.Keys, c.Workers = latchKeys, 2
	pool := NewRig(Floor, c.Setup, c.Work, c.Make(streamLen))
	defer pool.Close()
	all := []Admission{{}, {Held: 1000}, {Held: 10_000}, {Waiting: 1000}, {Waiting: 10_000}}
	for i := range all {
		a := &all[i]
		_, a.NS, a.ToPool = side(rounds, n, func(n int) { pool.Run(n) }, NewLatch(a.Held, a.Waiting).Cycle)
		_, _, a.ToNone = side(rounds, n, NewLatch(0, 0).Cycle, NewLatch(a.Held, a.Waiting).Cycle)
	}
	return all
}
