package saga

import (
	"fmt"
	"slices"
)

// input is something that has happened to a run.
type input struct {
	kind  inputKind
	step  int    // of completed to undoFailed
	known bool   // of failed and gaveUp: the action was not done for certain
	final bool   // of failed and undoFailed: there is no further attempt
	err   string // of failed, gaveUp and undoFailed, and the cause of canceled and undo
	ended bool   // of failed and undoFailed: the attempt was one that begins has counted
	reply []byte // of early: the body; of completed, awaits and failed by a reply: its hash
	at    int64  // the time, in microseconds since 1970
	late  string // if the time limit has passed: the cause for which the run turns back
}

type inputKind uint8

const (
	granted    inputKind = iota // the run has its keys
	completed                   // a step
	awaits                      // a step, a reply
	early                       // a reply has come, and the step does not wait yet
	failed                      // an attempt at a step
	gaveUp                      // a step of which no attempt is to follow
	begins                      // an attempt at a step, or to undo it, that may end the process
	killed                      // the process, too often: there are no more attempts
	undone                      // a step
	undoFailed                  // an attempt to undo a step
	canceled
	expired // the time limit has passed
	undo    // by an operator
	resume  // by an operator, and so on
	skip
	drop
)

// change is an event of a run, before it has a number and a time.
type change struct {
	kind    string // one of the types of events
	step    int    // -1 for the run as a whole
	attempt int    // failed ones in a row; of StepSuspected, those that were counted
	err     string
}

// apply changes a run by an input and returns what has happened by that, nothing if
// the input has no effect. If it returns an error it has changed nothing.
func (p plan) apply(r *record, in input) (changes []change, err error) {
	next := r.clone()
	t := transition{plan: p, r: &next, late: in.late}
	if err := t.take(in); err != nil {
		return nil, err
	}
	*r = next
	return t.changes, nil
}

// transition is one that is being made.
type transition struct {
	plan    plan
	r       *record
	late    string // see input
	changes []change
}

func (t *transition) tell(kind string, step int, err string) {
	c := change{kind: kind, step: step, err: err}
	if step >= 0 {
		c.attempt = t.r.Steps[step].Failed
		if kind == StepSuspected {
			c.attempt = t.r.Steps[step].Crashes
		}
	}
	t.changes = append(t.changes, c)
}

func (t *transition) take(in input) error {
	r := t.r
	if r.Status.Ended() {
		return &EndedError{Status: r.Status}
	}
	switch in.kind {
	case granted:
		if r.Status == Waiting {
			r.Status = Running
			t.goOn()
		}
	case completed, awaits, early, failed, gaveUp:
		return t.forward(in)
	case begins, killed:
		return t.suspected(in)
	case undone, undoFailed:
		return t.backward(in)
	case canceled, expired, undo:
		return t.turnBack(in)
	default:
		return t.operate(in)
	}
	return nil
}

// forward takes what has become of doing a step.
func (t *transition) forward(in input) error {
	r, s := t.r, &t.r.Steps[in.step]
	if in.kind == early {
		if s.Status != Pending && s.Status != Started || r.direction() == Compensating {
			return ErrNotAwaiting
		}
		s.Early, s.Replied = in.reply, hashOf(in.reply)
		t.tell(StepReplied, in.step, "")
		return nil
	}
	if s.Status != Started && s.Status != Awaiting || s.Parked {
		return ErrNotAwaiting
	}
	switch {
	case in.kind == completed:
		s.Status, s.Failed, s.Error, s.Crashes, s.Parked, s.Asked, s.Early = Done, 0, "", 0, false, false, nil
		if in.reply != nil {
			s.Replied = in.reply
		}
		r.Order++
		s.Order = r.Order
		t.tell(StepCompleted, in.step, "")
	case in.kind == awaits:
		if s.Status != Awaiting {
			s.AskedAt = in.at
		}
		s.Status, s.Crashes = Awaiting, 0
		if in.reply != nil { // there are more to come
			s.Taken, s.Early, s.Replied = append(slices.Clip(s.Taken), in.reply), nil, nil
		}
		t.tell(StepWaits, in.step, "")
		if r.direction() == Compensating {
			t.uncertain(in.step)
		}
	case in.kind == gaveUp:
		s.Crashes = 0
		t.forGood(in)
	default:
		s.Status, s.Asked = Started, !in.known && (s.Asked || s.Status == Awaiting)
		if in.reply != nil {
			s.Early, s.Replied = nil, in.reply
		}
		s.hasFailed(in)
		t.tell(StepFailed, in.step, in.err)
		if in.final {
			t.forGood(in)
		}
	}
	t.goOn()
	return nil
}

// forGood takes the failure of a step of which there are no more attempts.
func (t *transition) forGood(in input) {
	r, s := t.r, &t.r.Steps[in.step]
	pivot := t.plan[in.step].pivot
	if r.direction() == Running && (pivot && !in.known || !pivot && t.passed()) {
		s.Parked = true
		t.park(in.step, in.err)
		return
	}
	s.Status = Failed
	if !in.known {
		t.uncertain(in.step)
	}
	if r.Status == Running || r.Status == Parked && r.Back == Running {
		t.compensate(fmt.Sprintf("step %s: %s", s.Name, in.err))
	}
}

// uncertain makes a step one that is undone, before all those that are completed.
func (t *transition) uncertain(i int) {
	t.r.Order++
	t.r.Steps[i].Status, t.r.Steps[i].Order = Uncertain, t.r.Order
}

// backward takes what has become of undoing a step.
func (t *transition) backward(in input) error {
	s := &t.r.Steps[in.step]
	if s.Status != Undoing || s.Parked {
		return ErrNotAwaiting
	}
	if in.kind == undone {
		s.Status, s.Failed, s.Error, s.Crashes, s.Parked = Undone, 0, "", 0, false
		t.tell(StepCompensated, in.step, "")
		t.goOn()
		return nil
	}
	s.hasFailed(in)
	t.tell(CompensationFailed, in.step, in.err)
	if in.final {
		s.Parked = true
		t.park(in.step, in.err)
	}
	return nil
}

// hasFailed counts an attempt that has failed.
func (s *stepRecord) hasFailed(in input) {
	s.Failed++
	s.Error = in.err
	if in.ended && s.Crashes > 0 {
		s.Crashes-- // the process has survived it
	}
}

// suspected takes an attempt that may end the process, or that there are no more of them.
func (t *transition) suspected(in input) error {
	s := &t.r.Steps[in.step]
	if s.Status != Started && s.Status != Undoing || s.Parked {
		return ErrNotAwaiting
	}
	if in.kind == begins {
		s.Crashes++
		t.tell(StepSuspected, in.step, "")
		return nil
	}
	s.Error, s.Parked = in.err, true
	t.park(in.step, in.err)
	return nil
}

// turnBack takes a reason to compensate the run that is not a failure of a step.
func (t *transition) turnBack(in input) error {
	r := t.r
	switch {
	case r.direction() == Compensating:
		return nil
	case !t.passed():
	case in.kind == expired:
		return nil
	case in.kind == undo && t.pivotParked():
	default:
		return ErrPastPivot
	}
	t.compensate(in.err)
	t.goOn()
	return nil
}

// pivotParked reports whether the pivot has failed, and perhaps not. If so it is
// no longer in the way of a compensation: that is what an operator has decided.
func (t *transition) pivotParked() bool {
	for i, s := range t.r.Steps {
		if !t.plan[i].pivot || !s.Parked {
			continue
		}
		t.r.Steps[i].Parked = false
		t.r.Steps[i].Status = Failed
		if t.plan[i].undoes {
			t.uncertain(i)
		}
		return true
	}
	return false
}

// operate takes a decision about a run that is parked.
func (t *transition) operate(in input) error {
	r := t.r
	if r.Status != Parked {
		return ErrNotParked
	}
	if in.kind == drop {
		r.Status = Dropped
		t.tell(SagaDropped, -1, in.err)
		return nil
	}
	r.Status, r.Back = r.Back, 0
	kind := SagaResumed
	if in.kind == skip {
		kind = SagaSkipped
	}
	t.tell(kind, -1, in.err)
	for i := range r.Steps {
		s := &r.Steps[i]
		if !s.Parked {
			continue
		}
		s.Parked, s.Failed, s.Crashes = false, 0, 0
		if in.kind != skip {
			if s.Status == Started && s.Early == nil {
				s.Replied = nil // that was a refusal; there is to be another one
			}
			continue
		}
		s.Skipped, s.Error, s.Early = true, "", nil
		if s.Status == Undoing {
			s.Status = Undone
			t.tell(StepCompensated, i, "")
			continue
		}
		s.Status = Done
		r.Order++
		s.Order = r.Order
		t.tell(StepCompleted, i, "")
	}
	t.goOn()
	return nil
}

// passed reports whether the pivot was begun, and has not failed for certain: from
// then on there is no way back.
func (t *transition) passed() bool {
	for i, s := range t.r.Steps {
		if t.plan[i].pivot && (s.Status == Started || s.Status == Awaiting || s.Status == Done) {
			return true
		}
	}
	return false
}

func (t *transition) park(step int, err string) {
	if t.r.Status != Parked {
		t.r.Back, t.r.Status = t.r.Status, Parked
	}
	t.tell(SagaParked, step, err)
}

// compensate turns the run back. Nobody waits for replies any more.
func (t *transition) compensate(cause string) {
	t.r.Status, t.r.Back, t.r.Cause = Compensating, 0, cause
	t.tell(CompensationStarted, -1, cause)
	for i := range t.r.Steps {
		s := &t.r.Steps[i]
		if s.Early != nil { // whoever gives it again is to know
			s.Early, s.Replied = nil, nil
		}
		s.Parked, s.Failed, s.Crashes = false, 0, 0
		if s.Status == Awaiting {
			t.uncertain(i)
		}
	}
}

// busy reports whether something is under way.
func (t *transition) busy() bool {
	return slices.ContainsFunc(t.r.Steps, func(s stepRecord) bool { return s.Status == Started || s.Status == Undoing })
}

// goOn begins what is next.
func (t *transition) goOn() {
	switch t.r.Status {
	case Running:
		t.startSteps()
	case Compensating:
		t.undoNext()
	}
}

// startSteps starts the steps whose turn it is. A run whose time is over turns back
// instead, also if nobody was there to see that.
func (t *transition) startSteps() {
	switch {
	case !slices.ContainsFunc(t.r.Steps, func(s stepRecord) bool { return s.Status != Done }):
		t.r.Status = Completed
		t.tell(SagaCompleted, -1, "")
		return
	case t.late != "" && !t.passed():
		t.compensate(t.late)
		t.undoNext()
		return
	}
	for i := range t.r.Steps {
		s := &t.r.Steps[i]
		if s.Status == Pending && !slices.ContainsFunc(t.plan[i].after, func(j int) bool { return t.r.Steps[j].Status != Done }) {
			s.Status = Started
			t.tell(StepStarted, i, "")
		}
	}
}

// undoNext undoes what was completed last, once nothing is under way any more.
func (t *transition) undoNext() {
	for !t.busy() {
		last := -1
		for i, s := range t.r.Steps {
			if (s.Status == Done || s.Status == Uncertain) && (last < 0 || s.Order > t.r.Steps[last].Order) {
				last = i
			}
		}
		if last < 0 {
			t.r.Status = Compensated
			t.tell(SagaCompensated, -1, t.r.Cause)
			return
		}
		s := &t.r.Steps[last]
		s.Failed, s.Error, s.Crashes = 0, "", 0
		if t.plan[last].undoes {
			s.Status = Undoing
			t.tell(UndoStarted, last, "")
		} else {
			s.Status = Undone
			t.tell(StepCompensated, last, "")
		}
	}
}
