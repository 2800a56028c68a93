package main

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// earlier tells once more of the messages that were refused in an earlier run on
// the same input, as they are passed over: the run that refused them may not
// have come to its summary.
type earlier struct {
	term  *term
	input func() int64

	mu struct {
		sync.Mutex
		refused  map[int64]map[string]*book.Rejection // by input and name of the event; filled when it is needed
		outcomes audit.Outcomes
		err      error
	}
}

// before takes a message that was done before.
func (e *earlier) before(event string, own bool, line int, m *book.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	input := int64(0)
	if !own {
		input = e.input()
	}
	refused, err := e.refusedLocked(input)
	if err != nil {
		e.mu.err = err
		return
	}
	rejection, ok := refused[event]
	if !ok {
		return
	}
	record := audit.Record{Event: event, Line: line, Message: m, Err: rejection}
	e.term.rejects.rejected(record, e.mu.outcomes.Add(record))
}

func (e *earlier) refusedLocked(input int64) (refused map[string]*book.Rejection, err error) {
	if refused, ok := e.mu.refused[input]; ok || e.mu.err != nil {
		return refused, e.mu.err
	}
	refused = map[string]*book.Rejection{}
	err = e.term.store.Refusals(context.Background(), input, func(r store.Refusal) error {
		refused[r.Event] = &r.Rejection
		return nil
	})
	if e.mu.refused == nil {
		e.mu.refused = map[int64]map[string]*book.Rejection{}
	}
	e.mu.refused[input] = refused
	return refused, err
}

// outcomes returns what became of them.
func (e *earlier) outcomes() (*audit.Outcomes, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return &e.mu.outcomes, e.mu.err
}
