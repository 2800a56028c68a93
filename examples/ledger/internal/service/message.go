package service

import (
	"strconv"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// eventOf returns the event that carries a message, with its sender's numbers.
func eventOf(line int, m *book.Message) (*ordering.Event, error) {
	payload, err := m.Payload()
	if err != nil {
		return nil, err
	}
	e := &ordering.Event{Type: string(m.Op), Positions: m.Sequence, Payload: payload}
	if line > 0 {
		e.Headers = map[string]string{lineHeader: strconv.Itoa(line)}
	}
	return e, nil
}

// decode returns the message that an event carries, with its sender's numbers.
func decode(e *ordering.Event) (*book.Message, error) {
	m, err := book.ParsePayload(e.Payload)
	if err == nil && hasNumbers(e) {
		m.Sequence = e.Positions
	}
	return m, err
}

// keys derives the lock keys of a message: its accounts, and its ID.
func keys(job ordering.Job[*book.Message], claim *lockkeys.Claim) error {
	if err := claimID(job.Value, claim); err != nil {
		return err
	}
	return job.Value.Claim(claim)
}

// lineHeader names the line of the input that a message stands in. It is no part
// of what the message says.
const lineHeader = "ledger-line"

// lineOf returns the line that an event's message stands in, 0 if it has none.
func lineOf(e *ordering.Event) int {
	line, _ := strconv.Atoi(e.Headers[lineHeader]) // 0 for what is none
	return line
}

// hasNumbers reports whether a message has numbers that its sender gave it.
func hasNumbers(e *ordering.Event) bool {
	return len(e.Positions) > 0 && !book.OwnStreams.Contains(e.Positions[0].Stream)
}

// inputOf returns the input that a message was read from, 0 if its sender numbered
// it. That of a command is the present one.
func (s *Service) inputOf(e *ordering.Event) (id int64) {
	switch {
	case e.IsCommand():
		return s.cfg.Input()
	case hasNumbers(e):
		return 0
	}
	level := 0
	for segment := range e.Positions[0].Stream.Segments() {
		if level == 1 {
			id, _ = strconv.ParseInt(segment, 10, 64) // as offerNumbered wrote it
		}
		level++
	}
	return id
}
