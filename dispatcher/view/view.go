// Package view has what a dispatcher, or something that stands on one, shows of itself to
// operators: plain data, which package inspect makes a page of.
package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Source can be looked at. Its methods are safe for concurrent use.
type Source interface {
	// View returns the state at the moment. The error says why it cannot be known.
	View(ctx context.Context, q Query) (View, error)
}

// Operated is a [Source] that can also be acted on.
type Operated interface {
	Source
	// Act does what an operator has decided. Who it is and why are in ctx, see
	// [github.com/interlock-go/interlock/dispatcher.WithOperator]. The error wraps
	// [ErrAction] if there is no such action or target.
	Act(ctx context.Context, a Action) error
}

// Opener is a [Source] that shows on demand what is parked, which may be large and in a database.
type Opener interface {
	Source
	// Payloads returns what is parked under the target of a row that [Row.Opens]. The error
	// wraps [ErrAction] if the target is no name of anything, and says so if what it names is
	// not parked any more.
	Payloads(ctx context.Context, target string) ([]Payload, error)
}

// Payload is a message or an event that is parked.
type Payload struct {
	Name    string
	Message any // as Message.Payload
}

// ErrAction is wrapped by the error of [Operated.Act] for an action that does not exist, or
// a target that is no name of anything.
var ErrAction = errors.New("view: no such action")

// Query says what is looked for; its zero value asks for an overview.
type Query struct {
	// Limit bounds the messages that are parked or wait, parked ones first, and the rows of
	// a table. Default: 100.
	Limit int
	// ID, if it is not 0, asks for the message with this ID and for those that it waits
	// for, directly or not.
	ID uint64
	// Key, if it is not the root, asks for messages with a request that conflicts with an
	// exclusive one for the key.
	Key lockkeys.Key
	// Brief asks for no more than whether all is well: Problems, Stopped, Waits and Moved of
	// what is in memory. It leaves out messages and tables, and what must be read from a
	// database unless nothing is known without that.
	Brief bool
}

// DefaultLimit is the default of [Query.Limit].
const DefaultLimit = 100

// View is a state, of one moment.
type View struct {
	// Kind says what it is a state of: "dispatcher" for example.
	Kind string `json:"kind"`
	// Problems has a sentence for each thing that an operator should know of, the worst
	// first. It is empty if all is well.
	Problems []string `json:"problems,omitempty"`
	// Stopped says that it does not work any more.
	Stopped bool `json:"stopped,omitempty"`
	// Waits is how many messages wait for something, and Moved counts those that went on.
	// If the first is not 0 and the second stays the same, it is stalled.
	Waits int64  `json:"waits"`
	Moved uint64 `json:"moved"`
	// Counts are numbers to show, in their order.
	Counts []Count `json:"counts,omitempty"`
	// Messages are those that hold keys or wait for them, in the order of arrival.
	Messages []Message `json:"messages,omitempty"`
	// Hidden is how many more messages there are, because of the limit.
	Hidden int `json:"hidden,omitempty"`
	// Tables are further lists.
	Tables []Table `json:"tables,omitempty"`
}

// Count is a number with a name.
type Count struct {
	Name  string `json:"name"`
	Value int64  `json:"value"`
}

// Message is a message that holds keys or waits for them.
type Message struct {
	ID       uint64    `json:"id"`
	Name     string    `json:"name,omitempty"`
	State    string    `json:"state"`
	Claim    []Request `json:"claim"`
	Attempts int       `json:"attempts"`            // begun so far
	Most     int       `json:"most"`                // attempts at most
	Worker   int       `json:"worker"`              // from 0; -1 if no worker has it
	Err      string    `json:"err,omitempty"`       // of the last attempt
	Since    time.Time `json:"since,omitzero"`      // in its state; zero if it is not known
	Next     time.Time `json:"next,omitzero"`       // when it is tried again
	Blocker  uint64    `json:"blocker,omitempty"`   // the ID of a message that it waits for
	Blocks   Request   `json:"blocked_by,omitzero"` // the request of that message that blocks it
	Behind   int       `json:"behind,omitempty"`    // how many wait for it, directly or not, if that is known
	Stalled  bool      `json:"stalled,omitempty"`   // it waits for a parked one, directly or not
	Target   string    `json:"target,omitempty"`    // of actions: it names this message of this process
	Actions  []string  `json:"actions,omitempty"`   // for [Operated.Act]
	Payload  any       `json:"-"`                   // the message itself
}

// Title names the message.
func (m Message) Title() string {
	if m.Name != "" {
		return m.Name
	}
	return fmt.Sprintf("message %d", m.ID)
}

// Request is a request of a claim.
type Request struct {
	Key  lockkeys.Key `json:"key"`
	Mode string       `json:"mode"` // "exclusive" or "shared"
}

// Table is a list of things that are no messages of a dispatcher, parked streams for
// example.
type Table struct {
	Name    string   `json:"name"`
	Columns []string `json:"columns"`
	Rows    []Row    `json:"rows"`
	Hidden  int      `json:"hidden,omitempty"` // rows that the limit left out
}

// Row is a row of a table.
type Row struct {
	Cells   []string `json:"cells"`
	Target  string   `json:"target,omitempty"`  // of actions
	Actions []string `json:"actions,omitempty"` // for [Operated.Act]
	Opens   bool     `json:"opens,omitempty"`   // [Opener.Payloads] has what is parked here
}

// Action is a decision of an operator.
type Action struct {
	Name   string `json:"name"`   // "resume", "skip" or "drop"; a source may have more
	Target string `json:"target"` // that of a message or of a row
}

// Names of actions.
const (
	Resume = "resume" // try it again
	Skip   = "skip"   // give it up, and go on behind it
	Drop   = "drop"   // give it up with all that waits for it
)
