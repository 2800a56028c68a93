package saga

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// Types of the events of a run, see [Config].Record.
const (
	SagaStarted         = "SagaStarted"   // in the transaction of Start
	StepStarted         = "StepStarted"   // the intent to do it
	StepWaits           = "StepWaits"     // for a reply
	StepSuspected       = "StepSuspected" // an attempt begins, to do or to undo it, that may end the process: see Config.MaxCrashes
	StepReplied         = "StepReplied"   // by a reply that has come before the step waits
	StepCompleted       = "StepCompleted"
	StepFailed          = "StepFailed"          // an attempt has
	CompensationStarted = "CompensationStarted" // the run turns back
	UndoStarted         = "UndoStarted"         // the intent to undo a step
	StepCompensated     = "StepCompensated"     // it is undone
	CompensationFailed  = "CompensationFailed"  // an attempt to undo it has
	SagaParked          = "SagaParked"          // an operator must decide
	SagaResumed         = "SagaResumed"         // by an operator
	SagaSkipped         = "SagaSkipped"         // by an operator: what it was parked for counts as done, or undone
	SagaUpgraded        = "SagaUpgraded"        // to another version of its definition
	SagaCompleted       = "SagaCompleted"
	SagaCompensated     = "SagaCompensated"
	SagaDropped         = "SagaDropped" // by an operator
)

// Entry is an event in the history of a run; [EntryOf] returns that of an event that
// [Config].Record gets.
type Entry struct {
	N        int       `json:"n"` // its number in the run, from 1
	Type     string    `json:"type"`
	Time     time.Time `json:"time"`
	Step     string    `json:"step,omitempty"`     // if it is one of a step
	Attempt  int       `json:"attempt,omitempty"`  // with StepFailed and CompensationFailed: the failed ones in a row; with StepSuspected: those that may have ended the process, and this one
	Error    string    `json:"error,omitempty"`    // or the cause
	Operator string    `json:"operator,omitempty"` // see dispatcher.WithOperator
	Why      string    `json:"why,omitempty"`
}

// payload is the payload of an event: what an [Entry] has that the event itself has not,
// since events are kept for long, and many.
type payload struct {
	N          int    `json:"n"`
	Definition string `json:"definition,omitempty"` // of SagaStarted and SagaUpgraded
	Version    int    `json:"version,omitempty"`    // likewise
	Step       string `json:"step,omitempty"`
	Attempt    int    `json:"attempt,omitempty"`
	Error      string `json:"error,omitempty"`
	Operator   string `json:"operator,omitempty"`
	Why        string `json:"why,omitempty"`
}

// event returns the event of an entry of a run.
func (e Entry) event(coordinator string, of *row) (*ordering.Event, error) {
	p := payload{N: e.N, Step: e.Step, Attempt: e.Attempt, Error: e.Error, Operator: e.Operator, Why: e.Why}
	if e.Type == SagaStarted || e.Type == SagaUpgraded {
		p.Definition, p.Version = of.definition, of.defVersion
	}
	body, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("saga: event %s of run %.80q: %w", e.Type, of.id, err)
	}
	event := &ordering.Event{
		ID: eventID(coordinator, of.id, e.N), Type: e.Type, Payload: body, Time: e.Time, CorrelationID: of.id,
	}
	if e.N > 1 {
		event.CausationID = eventID(coordinator, of.id, e.N-1)
	}
	return event, nil
}

// EntryOf returns the entry of an event of a run, as [Config].Record gets it.
func EntryOf(e *ordering.Event) (Entry, error) {
	var p payload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return Entry{}, fmt.Errorf("saga: event %.80q of run %.80q: payload: %w", e.ID, e.CorrelationID, err)
	}
	return Entry{N: p.N, Type: e.Type, Time: e.Time, Step: p.Step, Attempt: p.Attempt, Error: p.Error, Operator: p.Operator, Why: p.Why}, nil
}

func eventID(coordinator, id string, n int) string {
	return fmt.Sprintf("%s/%s/%d", coordinator, id, n)
}
