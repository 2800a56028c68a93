package main

import (
	"context"
	"sync"

	"github.com/interlock-go/interlock/examples/ledger/internal/audit"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
)

// earlier tells once more of the messages that were refused in an earlier run on
// the same input: the run that refused them may not have come to its summary. It
// reads the refusals late, so that they do not keep back what is new.
type earlier struct {
	term  *term
	input func() int64
	last  int64 // refusal of the earlier runs

	mu struct {
		sync.Mutex
		line     int                                  // up to which the input was passed over
		repeated []repeat                             // messages that were done before, and not looked up yet
		refused  map[int64]map[string]*book.Rejection // by input and name of the event; filled when it is needed
		outcomes audit.Outcomes
		err      error
	}
}

// repeat is a message that was done before.
type repeat struct {
	event   string
	own     bool // it has the numbers of its sender
	line    int
	message *book.Message
}

// maxRepeated bounds the messages that are kept until they are looked up.
const maxRepeated = 1 << 16

// passOver says that the input is passed over up to a line.
func (e *earlier) passOver(line int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.line = line
}

// before takes a message that was done before.
func (e *earlier) before(event string, own bool, line int, m *book.Message) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.repeated = append(e.mu.repeated, repeat{event, own, line, m})
	if len(e.mu.repeated) == maxRepeated {
		e.lookUpLocked()
	}
}

// lookUpLocked tells of those that were refused.
func (e *earlier) lookUpLocked() {
	for _, r := range e.mu.repeated {
		input := int64(0)
		if !r.own {
			input = e.input()
		}
		refused, err := e.refusedLocked(input)
		if err != nil {
			e.mu.err = err
			break
		}
		if rejection, ok := refused[r.event]; ok { // once, however many copies there are
			delete(refused, r.event)
			e.tellLocked(audit.Record{Event: r.event, Line: r.line, Message: r.message, Err: rejection})
		}
	}
	clear(e.mu.repeated)
	e.mu.repeated = e.mu.repeated[:0]
}

func (e *earlier) tellLocked(r audit.Record) {
	e.term.rejects.rejected(r, e.mu.outcomes.Add(r))
}

// refusedLocked returns the refusals of an input. What of it was passed over is told
// when they are read.
func (e *earlier) refusedLocked(input int64) (refused map[string]*book.Rejection, err error) {
	if refused, ok := e.mu.refused[input]; ok || e.mu.err != nil {
		return refused, e.mu.err
	}
	refused = map[string]*book.Rejection{}
	err = e.term.store.Refusals(context.Background(), input, func(r store.Refusal) error {
		if r.Entry > e.last {
			return nil // this run tells of it itself
		}
		if input == 0 || r.Line > e.mu.line {
			refused[r.Event] = &r.Rejection
			return nil
		}
		m, err := book.ParsePayload(r.Message)
		if err == nil {
			e.tellLocked(audit.Record{Event: r.Event, Line: r.Line, Message: m, Err: &r.Rejection})
		}
		return err
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
	if e.mu.line > 0 && e.mu.err == nil {
		_, e.mu.err = e.refusedLocked(e.input())
	}
	e.lookUpLocked()
	return &e.mu.outcomes, e.mu.err
}
