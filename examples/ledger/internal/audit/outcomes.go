package audit

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
)

// Verdict is what to think of the end of a message.
type Verdict uint8

// The verdicts. The first two are as they should be.
const (
	Applied            Verdict = iota
	RejectedAsExpected         // the message itself says that it must be rejected
	Rejected                   // the book does not allow it
	Unmet                      // an expectation did not hold
	NotRejected                // applied, though the message says that it must not be
	Broken                     // the machinery failed
)

var verdictNames = [...]string{"applied", "rejected as expected", "rejected", "expectation not met", "not rejected", "failed"}

// String returns the verdict in words.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Good reports whether the message ended as it should.
func (v Verdict) Good() bool { return v == Applied || v == RejectedAsExpected }

// Outcomes counts how messages ended. Add may be called from several goroutines; the
// rest is read after the last call.
type Outcomes struct {
	adding  sync.Mutex
	Count   [Broken + 1]int
	Held    int // expectations that held
	reasons map[string]*Why
}

// Why is a reason for which messages were not applied.
type Why struct {
	Reason  string
	Verdict Verdict
	Count   int
	Line    int // of the first such message
	ID      uint64
	Example string
}

// Total is the number of messages that ended.
func (o *Outcomes) Total() (n int) {
	for _, c := range o.Count {
		n += c
	}
	return n
}

// Good reports whether all messages ended as they should.
func (o *Outcomes) Good() bool {
	return o.Total() == o.Count[Applied]+o.Count[RejectedAsExpected]
}

// Reasons lists why messages were not applied: what should not have happened
// first, then the most frequent.
func (o *Outcomes) Reasons() []Why {
	var list []Why
	for _, w := range o.reasons {
		list = append(list, *w)
	}
	return slices.SortedFunc(slices.Values(list), func(a, b Why) int {
		return cmp.Or(-cmp.Compare(a.Verdict, b.Verdict), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.Reason, b.Reason))
	})
}

// Add takes a message that has ended.
func (o *Outcomes) Add(r Record) Verdict {
	v := Judge(r)
	o.adding.Lock()
	defer o.adding.Unlock()
	o.Count[v]++
	if r.Err == nil {
		o.Held += len(r.Message.Expect)
	}
	if v != Applied {
		o.explain(r, v)
	}
	return v
}

// Judge tells what to think of the end of a message.
func Judge(r Record) Verdict {
	if r.Err == nil {
		if r.Message.Reject {
			return NotRejected
		}
		return Applied
	}
	rejection, ok := book.Refused(r.Err)
	switch {
	case !ok:
		return Broken
	case rejection.Reason == book.Unmet:
		return Unmet
	case r.Message.Reject:
		return RejectedAsExpected
	}
	return Rejected
}

// explain files the message under its reason.
func (o *Outcomes) explain(r Record, v Verdict) {
	reason, example := v.String(), "it should have been rejected, and was applied"
	if r.Err != nil {
		example = Cause(r.Err).Error()
	}
	if rejection, ok := book.Refused(r.Err); ok {
		reason, example = string(rejection.Reason), rejection.Detail
	}
	id := fmt.Sprint(v, reason)
	if o.reasons == nil {
		o.reasons = map[string]*Why{}
	}
	why, ok := o.reasons[id]
	if !ok {
		why = &Why{Reason: reason, Verdict: v, Line: r.Line, ID: r.ID, Example: example}
		o.reasons[id] = why
	}
	why.Count++
}

// Cause returns the innermost reason that says something about the message.
func Cause(err error) error {
	if rejection, ok := book.Refused(err); ok {
		return rejection
	}
	return err
}
