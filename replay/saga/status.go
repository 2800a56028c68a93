package saga

import "fmt"

// Status is the state of a run. What makes it change:
//
//	status        what happens                             next status
//	Waiting       the kept keys are the run's              Running; the first steps start
//	Waiting       Cancel, Undo, the time limit             Compensated: nothing was done
//	Running       a step is completed                      Running; what comes after it starts
//	Running       the last step is completed               Completed
//	Running       a step has failed for good before the    Compensating
//	              pivot
//	Running       a step has failed for good after the     Parked
//	              pivot; or the pivot, and perhaps not
//	Running       Cancel, Undo, the time limit before the  Compensating
//	              pivot
//	Compensating  an attempt that was under way has ended  Compensating; it is undone too if it has
//	                                                       been, or may have been, completed
//	Compensating  a step is undone                         Compensating; the one completed before it
//	                                                       is undone next
//	Compensating  the first step is undone                 Compensated
//	Compensating  an undo has failed for good              Parked
//	Running or    a step has ended the process too         Parked
//	Compensating  often, see Config.MaxCrashes
//	Parked        Resume                                   what it was before: it is tried again
//	Parked        Skip                                     what it was before; the step counts as
//	                                                       completed, or as undone
//	Parked        before the pivot: Cancel, Undo, the      Compensating
//	              time limit, or a step beside it has
//	              failed for good
//	Parked        Undo, if it is the pivot that failed     Compensating
//	Parked        Drop                                     Dropped
//
// Completed, Compensated and Dropped are final. Anything else leaves the status as
// it is.
type Status uint8

// The states of a run.
const (
	Waiting      Status = iota // for the keys that it keeps
	Running                    // its steps are done
	Compensating               // its steps are undone
	Parked                     // an operator must decide: Resume, Skip, Drop
	Completed                  // all steps are done
	Compensated                // all steps that were done are undone
	Dropped                    // given up by an operator, as it was
)

var statusNames = [...]string{"waiting", "running", "compensating", "parked", "completed", "compensated", "dropped"}

// String returns the name in lower case.
func (s Status) String() string { return nameOf(statusNames[:], int(s)) }

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s >= Completed }

// StepStatus is the state of a step in a run. What makes it change:
//
//	status   what happens                                        next status
//	Pending  the steps before it are completed                   Started
//	Started  its action has succeeded                            Done
//	Started  its action returned Wait                            Awaiting
//	Started  its action has failed for good, and was not done    Failed
//	Started  its action has failed for good, and may be done     Uncertain
//	Awaiting the reply has come                                  Done, Failed, or Started to try again
//	Awaiting the run is to be compensated                        Uncertain
//	Done, Uncertain  its turn to be undone has come              Undoing, or Undone at once if there is nothing to call
//	Undoing  it is undone                                        Undone
//
// A failed attempt that will be followed by another one leaves it as it is.
type StepStatus uint8

// The states of a step.
const (
	Pending   StepStatus = iota // not begun
	Started                     // the intent is durable: an attempt may be under way
	Awaiting                    // a reply
	Done                        // completed
	Failed                      // for good, without an effect
	Uncertain                   // it may have been done: it is undone
	Undoing                     // the intent to undo it is durable
	Undone
)

var stepNames = [...]string{"pending", "started", "awaiting", "done", "failed", "uncertain", "undoing", "undone"}

// String returns the name in lower case.
func (s StepStatus) String() string { return nameOf(stepNames[:], int(s)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("status %d", i)
}
