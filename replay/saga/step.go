package saga

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
)

// Step is a step of a [Definition]. It has either DoTx, or Do; all else may be left
// out.
//
// Its functions get the state of the run, and may change it: what they leave in it is
// committed together with the step's outcome. Steps that run in parallel must change
// different top-level fields of its JSON. Their contexts are those of a handler of the
// coordinator's dispatcher, see [dispatcher.Holds], and end after Timeout. The functions
// may be called more than once, since attempts fail and processes crash. A panic or
// runtime.Goexit is a failed attempt. One that ends the process, each time, has the run
// parked: see [Config].MaxCrashes.
//
// An error marked by [dispatcher.Permanent] says that no further attempt is to be made.
// From Do it says as well that the action was refused for certain; any other error of Do
// leaves open whether it was done, see Find.
type Step[S any] struct {
	// Name has at most 100 bytes, and neither "/" nor spaces nor control characters.
	Name string

	// DoTx does the step in the transaction that records it as completed, in the
	// coordinator's store: the effect is there exactly once. The rules for the effect
	// of [sqlstore.Store.Do] hold for it. Its error rolls all of it back.
	DoTx func(ctx context.Context, tx *sql.Tx, call Call, s *S) error
	// UndoTx undoes it likewise.
	UndoTx func(ctx context.Context, tx *sql.Tx, call Call, s *S) error

	// Do does the step somewhere else, after the intent to do so was committed. It is
	// called again with the same [Call.Key] if the outcome of a call is unknown, so who
	// is called must do the action once for each key; see [Barrier].
	Do func(ctx context.Context, call Call, s *S) error
	// Undo undoes the action. It must be idempotent, and have no effect if the action
	// was never done. It is tried without end, unless its error is permanent: then the
	// run is parked.
	Undo func(ctx context.Context, call Call, s *S) error
	// Find asks what became of the action, if a call failed or the process crashed. With
	// an error, as with Unsure, Do is called again, or if there are no attempts left,
	// Undo. Default: it is always Unsure.
	Find func(ctx context.Context, call Call, s *S) (Found, error)
	// OnReply takes a reply for which the step waits, see [Coordinator.Reply]. It runs
	// in the transaction that records the step as completed, and must write nothing
	// elsewhere. With [Wait] the step goes on waiting for another one; a permanent error
	// says that the action was refused; with any other one the reply is not accepted, and if
	// it was kept, the attempt has failed and the next one takes it again. Default: every
	// reply completes the step.
	OnReply func(ctx context.Context, tx *sql.Tx, call Call, s *S, body []byte) error

	// Keys adds keys that the step needs in addition to those that the run keeps, from
	// its first attempt until it has ended, and again while it is undone. An error is
	// permanent.
	Keys func(s *S, claim *lockkeys.Claim) error
	// Under are the keys under which Keys takes keys. No definition of the coordinator
	// may keep keys there; see [Roots].
	Under []lockkeys.Key

	// After names the steps that must be completed before this one starts. Default: nil,
	// the step before it in the list; with an empty list that is not nil it starts at
	// once.
	After []string
	// Pivot says that there is no way back once the step was begun: if it, or a later
	// step, fails for good, the run is not compensated but parked, except if the pivot
	// was not done for certain. All steps before it in the list must come before it, and
	// all after it must come after it.
	Pivot bool

	// MaxAttempts is how often it is attempted. An undo is attempted without end.
	// Default: 5.
	MaxAttempts int
	// Backoff is the wait between attempts. Default: from 100 ms to 30 s.
	Backoff dispatcher.Backoff
	// Timeout bounds an attempt. Default: 30 s.
	Timeout time.Duration
	// ReplyTimeout bounds the wait for a reply, or for all of several, from the time at
	// which the step was recorded as waiting, also while no coordinator is there; then the
	// attempt has failed, and it is unknown whether the action was done. Default: 0, no
	// bound but that of the run.
	ReplyTimeout time.Duration
	// MaxCalls bounds the calls of Do and Undo of this step, of all runs, that are under
	// way at the same time (a bulkhead). Default: 0, no bound.
	MaxCalls int
}

// Wait is returned by Do, or DoTx, of a step whose action is completed by a reply, see
// [Coordinator.Reply]. The step keeps its keys, without a worker, until then. What DoTx
// has written is committed. It may be wrapped, to say what is waited for; but an error that
// it is joined with is a failure.
var Wait error = waiting{}

// waiting is the type of Wait, which is no failure.
type waiting struct{}

func (waiting) Error() string { return "saga: the step is completed by a reply" }

// isWait reports whether an error is Wait and nothing else: what it is joined with has
// failed.
func isWait(err error) bool {
	switch e := err.(type) {
	case waiting:
		return true
	case *contain.PanicError:
		return false
	case interface{ Unwrap() error }:
		return isWait(e.Unwrap())
	case interface{ Unwrap() []error }:
		list := e.Unwrap()
		return len(list) > 0 && !slices.ContainsFunc(list, func(err error) bool { return !isWait(err) })
	}
	return false
}

// Found is what [Step].Find says of an action.
type Found uint8

// Answers of Find.
const (
	Unsure      Found = iota // nobody knows, or it may still be done
	Happened                 // it was done
	NotHappened              // it was not done, and will not be by a call that was made before
)

// Call identifies an action, or its undo.
type Call struct {
	Saga    string // the ID of the run
	Step    string
	Undo    bool
	Attempt int    // from 1; not part of the key
	By      string // the coordinator's name, or "" for that of [Config].Name's default
}

// Key returns the idempotency key: "saga/step/do" or "saga/step/undo", and with a space and
// the name behind it if the coordinator has another one than the default. So it is the same
// in each attempt, and no other call has it, unless a run has the ID of one that was pruned.
func (c Call) Key() string {
	key := c.Saga + "/" + c.Step + "/do"
	if c.Undo {
		key = c.Saga + "/" + c.Step + "/undo"
	}
	if c.By != "" {
		key += " " + c.By
	}
	return key
}

// ParseCall returns the call of a key, for a participant.
func ParseCall(key string) (Call, error) {
	rest, last, ok := cutLast(key)
	id, step, found := cutLast(rest)
	what, by, named := strings.Cut(last, " ")
	if !ok || !found || id == "" || step == "" || what != "do" && what != "undo" || named && by == "" {
		return Call{}, fmt.Errorf("saga: %.200q is not the key of a call: it must have the form saga/step/do or saga/step/undo, and perhaps a coordinator's name behind a space", key)
	}
	return Call{Saga: id, Step: step, Undo: what == "undo", By: by}, nil
}

func cutLast(s string) (before, after string, found bool) {
	i := strings.LastIndexByte(s, '/')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}
