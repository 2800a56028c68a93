package saga

import (
	"bytes"
	"slices"
)

// plan is what the transitions depend on of a definition.
type plan []planStep

type planStep struct {
	after    []int // steps that must be completed before
	pivot    bool
	undoes   bool // there is something to call
	attempts int  // the most of them
}

// record is what the transitions change of a run.
type record struct {
	Status Status       `json:"status"`
	Back   Status       `json:"back,omitempty"` // of Parked: what it was before
	Cause  string       `json:"cause,omitempty"`
	Order  int          `json:"order,omitempty"` // of the last completion
	Steps  []stepRecord `json:"steps"`
}

type stepRecord struct {
	Name    string     `json:"name"`
	Status  StepStatus `json:"status,omitempty"`
	Order   int        `json:"order,omitempty"`   // of its completion, from 1
	Failed  int        `json:"failed,omitempty"`  // attempts in a row, of doing or of undoing it
	Error   string     `json:"error,omitempty"`   // of the last one
	Crashes int        `json:"crashes,omitempty"` // attempts that were counted, and whose end was not: with it the process has ended
	Parked  bool       `json:"parked,omitempty"`  // it has failed for good, and an operator must decide
	Skipped bool       `json:"skipped,omitempty"` // an operator has decided that it is done, or undone
	Asked   bool       `json:"asked,omitempty"`   // it has waited for a reply in vain: what it asked for may be done
	AskedAt int64      `json:"askedAt,omitempty"` // since when it has waited for replies, or did last, in microseconds since 1970
	Early   []byte     `json:"early,omitzero"`    // a reply that the step is still to take; nil for none
	Replied []byte     `json:"replied,omitempty"` // the hash of the reply that was accepted
	Taken   [][]byte   `json:"taken,omitempty"`   // the hashes of those after which it went on waiting
}

// hasReply reports whether a reply was accepted before.
func (s *stepRecord) hasReply(body []byte) bool {
	hash := hashOf(body)
	is := func(taken []byte) bool { return bytes.Equal(taken, hash) }
	return is(s.Replied) || slices.ContainsFunc(s.Taken, is)
}

func (r record) clone() record {
	r.Steps = slices.Clone(r.Steps)
	return r
}

// failing returns the largest number of attempts in a row that have failed.
func (r *record) failing() (n int) {
	for i := range r.Steps {
		n = max(n, r.Steps[i].Failed)
	}
	return n
}

// task is what is to be done about a step.
type task uint8

const (
	nothing  task = iota
	stay          // until an operator decides
	act           // do it
	await         // its reply
	settle        // find out what became of it, and do it no more
	takeBack      // undo it
)

// due returns what is to be done about a step.
func (p plan) due(r *record, i int) task {
	s := &r.Steps[i]
	switch {
	case r.Status == Waiting || r.Status.Ended():
		return nothing
	case s.Parked:
		return stay
	case s.Status == Started && (r.direction() == Compensating || s.Failed >= p[i].attempts):
		return settle
	case s.Status == Started:
		return act
	case s.Status == Awaiting:
		return await
	case s.Status == Undoing:
		return takeBack
	}
	return nothing
}

// direction is what the run does, or did before it was parked.
func (r *record) direction() Status {
	if r.Status == Parked {
		return r.Back
	}
	return r.Status
}
