// Package audit checks a run from the outside: from what each message asked
// for, when its handler began and ended, and what came of it. It trusts
// neither the dispatcher nor the store.
package audit

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// Record is what is known of one message once it has ended.
type Record struct {
	ID        uint64 // its place in the order in which it was handed to the workers, from 1
	Event     string // the name of its event
	Line      int    // where it stands in the input; 0 if it has no line
	Message   *book.Message
	Positions []ordering.Position // its numbers
	Copy      bool                // of a message with the same ID; then it has no Message
	Reply     book.Reply
	Err       error // nil if it was applied
	Run       Run
}

// Run tells when and where a handler ran. Begin and End are ticks of a clock
// that goes up by one whenever a handler begins or ends, so that of any two
// moments one is known to be the earlier.
type Run struct {
	Begin, End  uint64
	Start, Stop time.Time
	Worker      int
}

// Took is how long the handler ran.
func (r Run) Took() time.Duration { return r.Stop.Sub(r.Start) }

// Audit follows a run. Handlers call Ran, at any time, as does who rejects a message
// with Rejected; all else is called by one goroutine at a time. What it found is read after the last call.
type Audit struct {
	Outcomes   Outcomes
	Money      *Money
	Order      Order
	Numbers    Numbers
	Contention Contention

	// Early are the records of the first messages, by ID.
	Early []Record

	// OnProblem, if set, is told of messages that were not applied, and of
	// those that were though they should have been rejected, from several goroutines.
	OnProblem func(r Record, v Verdict)

	keep int
	next uint64            // the ID to be processed next
	late map[uint64]Record // ended before an earlier message did

	mu struct {
		sync.Mutex
		ran map[uint64]ran // by ID: of messages that have run and not ended
	}
}

// ran is the record of a message that has not ended.
type ran struct {
	Record
	doubtful bool
}

// New returns an audit of a run over a book that has the given totals at the
// beginning. It keeps the records of the first messages, as many as keep says.
func New(opening []book.Money, keep int) *Audit {
	a := &Audit{Money: newMoney(opening), keep: keep, next: 1, late: map[uint64]Record{}}
	a.mu.ran = map[uint64]ran{}
	return a
}

// Ran takes the record of a message that has run, from its handler. If it runs
// again, the last record counts. A record is doubtful if the commit seems to have
// failed.
func (a *Audit) Ran(r Record, doubtful bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.ran[r.ID] = ran{r, doubtful}
}

// Undone says that what a message had done until then was undone, so that a record of
// that does not count.
func (a *Audit) Undone(id uint64, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.ran[id].Run.Start.Before(at) { // else it has run again
		delete(a.mu.ran, id)
	}
}

// Ended says that a message has ended, and reports whether it counts as one that
// has run, and whether it was a copy. One without a record does not count, nor does
// one whose record is doubtful if the machinery has stopped; otherwise its commit
// was found to be durable.
func (a *Audit) Ended(id uint64, stopped bool) (counts, copied bool) {
	a.mu.Lock()
	r, ok := a.mu.ran[id]
	delete(a.mu.ran, id)
	a.mu.Unlock()
	if !ok || r.doubtful && stopped {
		a.Finished(Record{ID: id})
		return false, false
	}
	a.Finished(r.Record)
	return true, r.Copy
}

// Rejected takes the record of a message that was rejected before it could run, for
// its ID. It may be called from any goroutine.
func (a *Audit) Rejected(r Record) { a.judge(r) }

// Finished takes the record of a message that has ended; one without a message
// did not run. Records come in any order and are processed in that of their IDs.
func (a *Audit) Finished(r Record) {
	a.late[r.ID] = r
	for {
		r, ok := a.late[a.next]
		if !ok {
			return
		}
		delete(a.late, a.next)
		a.next++
		a.process(r)
	}
}

// Leave says that there will be no more records: the messages that have none
// were given back to where they came from.
func (a *Audit) Leave() {
	for _, id := range slices.Sorted(maps.Keys(a.late)) {
		a.process(a.late[id])
		a.next = id + 1
	}
	clear(a.late)
}

// Missing is the number of messages of which nothing is known though later
// ones have ended.
func (a *Audit) Missing() int {
	last := a.next - 1
	for id := range a.late {
		last = max(last, id)
	}
	return int(last-(a.next-1)) - len(a.late)
}

func (a *Audit) process(r Record) {
	if r.Message == nil {
		return
	}
	if len(a.Early) < a.keep {
		a.Early = append(a.Early, r)
	}
	var claim lockkeys.Claim
	if err := r.Message.Claim(&claim); err == nil && r.Run.End > 0 {
		a.Order.Add(Interval{r.ID, r.Run.Begin, r.Run.End}, claim.Requests())
	}
	a.Numbers.add(r)
	if r.Err == nil {
		a.Money.applied(r)
	}
	a.judge(r)
}

// judge counts the outcome of a message, and tells of it if it was not applied.
func (a *Audit) judge(r Record) {
	verdict := a.Outcomes.Add(r)
	if a.OnProblem != nil && verdict != Applied {
		a.OnProblem(r, verdict)
	}
}
