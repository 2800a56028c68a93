package saga

import (
	"errors"
	"fmt"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
)

// Errors of this package.
var (
	// ErrConfig is wrapped by the errors of New for an invalid configuration or
	// definition; the text names every problem.
	ErrConfig = errors.New("saga: bad configuration")
	// ErrClosed is the error of calls after Shutdown or Close.
	ErrClosed = errors.New("saga: coordinator is closed")
	// ErrNoRun is wrapped by the error for an ID that no run has, or whose run was
	// pruned. The transaction of its Start may not have been committed yet.
	ErrNoRun = errors.New("saga: no run with this ID")
	// ErrPastPivot is wrapped by the errors of Cancel and Undo once the pivot was
	// begun and has not failed for certain: the run goes on forward.
	ErrPastPivot = errors.New("saga: the pivot was begun, so the run only goes forward: wait for its end")
	// ErrNotAwaiting is wrapped by the error of Reply for a step that takes no reply
	// any more: it has failed, or the run is being compensated.
	ErrNotAwaiting = errors.New("saga: the step takes no reply any more: it has ended, or is being undone")
	// ErrReplied is wrapped by the error of Reply for a step that has accepted
	// another reply. The same reply again is no error.
	ErrReplied = errors.New("saga: the step has accepted another reply before")
	// ErrNotParked is wrapped by the errors of Resume, Skip and Drop for a run that is
	// not parked.
	ErrNotParked = errors.New("saga: the run is not parked: Parked lists those that are")
	// ErrNotStuck is wrapped by the error of Retry for a run of which no step waits
	// for its next attempt.
	ErrNotStuck = errors.New("saga: no step of the run waits for another attempt")
	// ErrUndone is the error of [Barrier], marked as permanent, for an action that
	// comes after it was undone: it is not to be done any more.
	ErrUndone = errors.New("saga: the action was undone before it came: it is not done any more")
	// ErrKeys is wrapped by a [*KeysError].
	// ErrID is wrapped by the error of Start for an ID that no run can have.
	ErrID   = errors.New("saga: invalid ID of a run")
	ErrKeys = errors.New("saga: keys against the rule that keeps sagas from deadlocks")
)

// ConflictError is the error of Start for an ID that another run has: one of another
// definition, or with another initial state. Nothing was written.
type ConflictError struct {
	ID         string
	Definition string // of the run that has the ID
	Version    int    // likewise
	State      bool   // the definition is the same, and the initial state another one
}

// Error says what differs.
func (e *ConflictError) Error() string {
	what := "of definition " + e.Definition
	if e.State {
		what = "with another initial state"
	}
	return fmt.Sprintf("saga: ID %.80q belongs to a run %s: give this one an ID of its own", e.ID, what)
}

// EndedError is the error for a run that has ended.
type EndedError struct{ Status Status }

// Error says how it has ended.
func (e *EndedError) Error() string {
	return "saga: the run has ended already: it is " + e.Status.String()
}

// Missing is a version of a definition that active runs have.
type Missing struct {
	Definition string
	Version    int
	Runs       int // active ones
}

// MissingError is the error of New if active runs have a version of a definition that
// was not registered, and that no Upgrade takes.
type MissingError struct{ Missing []Missing }

// Error names the versions, and how many runs have them.
func (e *MissingError) Error() string {
	var b strings.Builder
	b.WriteString("saga: active runs have definitions that are not registered:")
	for _, m := range e.Missing {
		fmt.Fprintf(&b, " %q version %d (%d runs)", m.Definition, m.Version, m.Runs)
	}
	b.WriteString(": register them until the runs have ended, or give the newest version an Upgrade")
	return b.String()
}

// KeysError is the error for keys against the rule that is stated at [Roots].
type KeysError struct {
	Where string       // what has the key: "step pay" for example
	Key   lockkeys.Key // the key
	Rule  string       // what is wrong with it, and what to do
}

// Error names the key and the rule.
func (e *KeysError) Error() string {
	return fmt.Sprintf("saga: %s: key %.200s %s", e.Where, e.Key, e.Rule)
}

// Unwrap returns ErrKeys.
func (e *KeysError) Unwrap() error { return ErrKeys }

// ownError is an error of a run's own, of its state or its keys. It says nothing of an
// action: whether that was done before, or by the call that has left such a state.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

// errAgain makes the dispatcher call the handler of a message again, which then looks
// what there is to do. It says nothing of a step, whose errors no dispatcher sees.
var errAgain = errors.New("saga: look again")

// errChanged reports that a run is not what it was thought to be: a commit whose
// answer was lost has been carried out. The run was read anew.
var errChanged = errors.New("saga: the run was read anew")

// errStale is errChanged within the transaction.
var errStale = errors.New("saga: the run has another version in the database")
