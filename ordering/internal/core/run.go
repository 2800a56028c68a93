package core

// Run is the work on one submitted event: attempts of its handler and of the
// commit, and resolving the doubt about a commit that seems to have failed. It
// belongs to the worker that has the event. Each method takes what has
// happened, and returns what the worker must do next.
//
// A commit may be durable though it seems to have failed, whatever the handler
// returns. So after a failed attempt the store is asked, before the handler is
// called again and before a failure is reported. An unavailable store is not
// the event's fault: the worker waits for it, and the attempt does not count.
//
// An event may be what ends the process, by the memory that it takes for example.
// So a suspect is marked in the store before its handler is called, and the mark is
// taken back however the attempt ends, see [Run.Unmark]: the marks that are left
// count the runs that the process has not survived. An event with such a run runs
// alone from then on, so that no other event is counted beside it, and after too
// many it fails for good without another run.
type Run struct {
	state RunState
	doubt bool // a commit was tried, and the store has not been asked since
	once  bool // the handler has been called
	// It is to go back to the machine: an event before it is held.
	recalled bool
	// A suspect may have been running when the process ended. The store counts its
	// runs before they begin; marked says that it counts the attempt under way.
	suspect, marked bool
	again           RunState // the state to return to after asking, if the store knows nothing
	err             error    // of the last attempt
	away            error    // of the last commit as given up
}

// RunState is the progress of the work on an event.
//
//	from        input                          to          next step
//	fresh       Begin                          handling    RunHandle
//	fresh       Begin, of a suspect            marking     RunMark
//	fresh       Begin, of a new command        asking      RunLook
//	fresh       Begin, recalled                over        RunEnd Recalled
//	fresh       Begin, undone in a chain       asking      RunLook
//	fresh       Ask                            asking      RunLook
//	fresh       GiveUp                         givingUp    RunCommit, as given up
//	handling    Begin, after a panic           handling    RunHandle
//	handling    Begin, of a suspect            marking     RunMark
//	handling    Begin, after a panic in doubt  asking      RunLook
//	handling    Ask, after a panic             asking      RunLook
//	handling    GiveUp, after a panic          givingUp    RunCommit, as given up
//	handling    Handled                        committing  RunCommit
//	handling    Handled, and it has committed  over        RunEnd Applied
//	handling    Handled, failed                asking      RunLook
//	handling    Handled, it wants more keys    fresh       RunRetry; in doubt it counts as failed here
//	committing  Committed                      over        RunEnd Applied
//	committing  Committed, failed              asking      RunLook
//	asking      Looked, it was this event      over        RunEnd Applied if this run has tried a commit, else Duplicate
//	asking      Looked, done                   over        RunEnd Duplicate, or GivenUp if this run has tried that
//	asking      Looked, never                  over        RunEnd Refused
//	asking      Looked, nothing, recalled      over        RunEnd Recalled, after a panic, or undone in a chain
//	asking      Looked, nothing                fresh       RunRetry, if the handler had failed
//	asking      Looked, nothing                waiting     RunWait, if the store was away
//	asking      Looked, nothing                handling    RunHandle, of a new command, or after a panic
//	asking      Looked, nothing                marking     RunMark, of a suspect likewise
//	marking     Marked                         handling    RunHandle
//	marking     Marked, it has a run before    marking     RunMarkAlone
//	marking     Marked, it has too many        fresh       RunRetry
//	marking     Begin, it could not be alone   marking     RunMark
//	marking     Begin, of a new command        asking      RunLook
//	waiting     Waited                         handling    RunHandle
//	waiting     Waited                         committing  RunCommit, if that had failed
//	waiting     Waited                         givingUp    RunCommit, if that had failed
//	givingUp    Committed                      over        RunEnd GivenUp
//	givingUp    Committed, failed              asking      RunLook
//	any         Fenced, halted                 over        RunEnd Unfinished
type RunState uint8

// States of a run.
const (
	runFresh RunState = iota
	runHandling
	runCommitting
	runAsking
	runWaiting
	runMarking
	runGivingUp
	runOver
)

var runMoves = moves{
	of:    "a run",
	names: []string{"fresh", "handling", "committing", "asking", "waiting", "marking", "givingUp", "over"},
	next: []uint16{
		runFresh:      1<<runHandling | 1<<runMarking | 1<<runAsking | 1<<runGivingUp | 1<<runOver,
		runHandling:   1<<runHandling | 1<<runMarking | 1<<runCommitting | 1<<runAsking | 1<<runFresh | 1<<runGivingUp | 1<<runOver,
		runCommitting: 1<<runAsking | 1<<runOver,
		runAsking:     1<<runFresh | 1<<runWaiting | 1<<runHandling | 1<<runMarking | 1<<runOver,
		runWaiting:    1<<runHandling | 1<<runCommitting | 1<<runGivingUp | 1<<runOver,
		runMarking:    1<<runHandling | 1<<runMarking | 1<<runFresh | 1<<runAsking | 1<<runOver,
		runGivingUp:   1<<runAsking | 1<<runOver,
		runOver:       0,
	},
}

func (r *Run) to(next RunState) { move(&runMoves, &r.state, next) }

// RunStep is the next step of a worker.
type RunStep struct {
	Kind   RunStepKind
	Result Result // with RunEnd
	Err    error  // with RunEnd and RunRetry
}

// RunStepKind is the kind of a step.
type RunStepKind uint8

// Kinds of steps, with the method that takes the result.
const (
	RunHandle    RunStepKind = iota // to call the handler: Handled
	RunCommit                       // to commit the event as done, or as given up: Committed
	RunLook                         // to ask the store, until it answers: Looked
	RunWait                         // to wait for the store: Waited
	RunRetry                        // to return the error: the dispatcher makes another attempt, or it has failed for good
	RunEnd                          // to end the event with the result
	RunMark                         // to mark the run in the store, until it answers, if it is the first one: Marked
	RunMarkAlone                    // to wait until nothing else runs, and to mark the run if there are not too many: Marked
)

// Trouble is the kind of failure of an attempt.
type Trouble uint8

// Kinds of trouble.
const (
	None      Trouble = iota
	Failing           // the handler's error, or that the numbers are done already
	WantsMore         // the handler runs again, with more lock keys
	StoreAway         // the store's error, not the event's
	FencedOff         // another holder has taken over
)

// Tries records that a commit may be under way from now on.
func (r *Run) Tries() { r.doubt = true }

// Err returns the error of the last attempt.
func (r *Run) Err() error { return r.err }

func (r *Run) end(result Result, err error) RunStep {
	r.to(runOver)
	return RunStep{RunEnd, result, err}
}

// Begin begins an attempt. For a command, the store is asked before the first
// one: its ID may have been processed long ago, and is not in memory.
func (r *Run) Begin(command, recalled bool) RunStep {
	r.recalled = recalled
	switch {
	case r.doubt: // the last attempt ended with a panic, or was undone
		r.again = runFresh
		r.to(runAsking)
		return RunStep{Kind: RunLook}
	case recalled:
		return r.end(Recalled, nil)
	case command && !r.once:
		r.again = runHandling
		r.to(runAsking)
		return RunStep{Kind: RunLook}
	}
	return r.handle()
}

// Suspect says that the event may have been running when the process ended.
func (r *Run) Suspect() { r.suspect = true }

func (r *Run) handle() RunStep {
	if r.suspect && !r.marked {
		r.to(runMarking)
		return RunStep{Kind: RunMark}
	}
	r.to(runHandling)
	r.once, r.err = true, nil
	return RunStep{Kind: RunHandle}
}

func (r *Run) commit() RunStep {
	r.doubt = true
	if r.state != runGivingUp {
		r.to(runCommitting)
	}
	return RunStep{Kind: RunCommit}
}

// Mark is what has come of marking a run.
type Mark uint8

// Kinds of marks.
const (
	Counted Mark = iota // the run is counted, and may begin
	Before              // it is not: the event was running when a process ended
	TooMany             // it is not: that has happened too often
)

// Marked takes in what has come of marking the run. The error is that of TooMany.
func (r *Run) Marked(mark Mark, err error) RunStep {
	switch mark {
	case Counted:
		r.marked = true
		return r.handle()
	case Before:
		r.to(runMarking)
		return RunStep{Kind: RunMarkAlone}
	}
	r.to(runFresh)
	return RunStep{Kind: RunRetry, Err: err}
}

// IsMarked reports whether a commit is to forget what is counted.
func (r *Run) IsMarked() bool { return r.marked || r.suspect && r.state == runGivingUp }

// Unmark is called at the end of each attempt, however it has ended. It reports
// whether the mark is to be taken back: no commit has forgotten it.
func (r *Run) Unmark(result Result) bool {
	marked := r.marked
	r.marked = false
	return marked && result != Applied
}

// Handled takes the result of a call of the handler. If the handler has
// committed the event, that counts, whatever it returned.
func (r *Run) Handled(committed bool, trouble Trouble, err error) RunStep {
	r.err = err
	switch {
	case committed:
		return r.end(Applied, nil)
	case trouble == None:
		return r.commit()
	case trouble == FencedOff:
		return r.end(Unfinished, err)
	case trouble == WantsMore && !r.doubt: // else the store is asked first, or the next attempt would ask, and not handle
		r.to(runFresh)
		return RunStep{Kind: RunRetry, Err: err}
	}
	r.again = runFresh
	if trouble == StoreAway {
		r.again = runHandling
	}
	r.to(runAsking)
	return RunStep{Kind: RunLook}
}

// Committed takes the result of a commit.
func (r *Run) Committed(trouble Trouble, err error) RunStep {
	givingUp := r.state == runGivingUp
	switch {
	case trouble == None && givingUp:
		return r.end(GivenUp, r.err)
	case trouble == None:
		return r.end(Applied, nil)
	case trouble == FencedOff:
		return r.end(Unfinished, err)
	case givingUp:
		r.away, r.again = err, runGivingUp
	default:
		r.err = err
		r.again = runCommitting
	}
	r.to(runAsking)
	return RunStep{Kind: RunLook}
}

// Known is the answer of the store about an event.
type Known uint8

// Kinds of answers.
const (
	Nothing  Known = iota // its numbers are not done
	ByItself              // it was applied
	AsDone                // its numbers are done by itself in another way, or as far as can be told
	ByOthers              // some of its numbers are done by another event
)

// Looked takes the answer of the store. away says that the store did not answer
// at once: then that is presumably why the handler failed, and the attempt does
// not count.
func (r *Run) Looked(known Known, away bool, err error) RunStep {
	tried := r.doubt
	r.doubt = false
	switch known {
	case ByItself:
		if tried && r.again != runGivingUp {
			return r.end(Applied, nil)
		}
		return r.end(Duplicate, nil)
	case AsDone:
		if r.again == runGivingUp {
			return r.end(GivenUp, r.err)
		}
		return r.end(Duplicate, err)
	case ByOthers:
		return r.end(Refused, err)
	}
	switch r.again {
	case runCommitting:
		r.to(runWaiting)
		return RunStep{Kind: RunWait, Err: r.err}
	case runGivingUp:
		r.to(runWaiting)
		return RunStep{Kind: RunWait, Err: r.away}
	case runHandling:
		if r.err == nil { // a new command
			return r.handle()
		}
		r.to(runWaiting)
		return RunStep{Kind: RunWait, Err: r.err}
	}
	switch {
	case r.err == nil && r.recalled:
		return r.end(Recalled, nil)
	case r.err == nil: // the last attempt ended with a panic, or was undone
		return r.handle()
	case away:
		r.again = runHandling
		r.to(runWaiting)
		return RunStep{Kind: RunWait, Err: r.err}
	}
	r.to(runFresh)
	return RunStep{Kind: RunRetry, Err: r.err}
}

// WillHandle reports whether the handler will be called after the wait.
func (r *Run) WillHandle() bool { return r.state == runWaiting && r.again == runHandling }

// Waited continues after a wait for the store.
func (r *Run) Waited() RunStep {
	switch r.again {
	case runHandling:
		return r.handle()
	case runGivingUp:
		r.to(runGivingUp)
	}
	return r.commit()
}

// InDoubt reports whether the store must be asked before a decision about an
// event whose attempts are used up: then Ask is the next step.
func (r *Run) InDoubt() bool { return r.doubt }

// Ask makes the worker ask the store once more, after a panic. If it knows
// nothing, the next step is RunRetry.
func (r *Run) Ask(failure error) RunStep {
	r.err, r.again = failure, runFresh
	r.to(runAsking)
	return RunStep{Kind: RunLook}
}

// GiveUp makes the worker commit the event as given up, with the given failure.
func (r *Run) GiveUp(failure error) RunStep {
	r.err = failure
	r.to(runGivingUp)
	return r.commit()
}

// Halt ends the work because the machine stops.
func (r *Run) Halt(err error) RunStep { return r.end(Unfinished, err) }
