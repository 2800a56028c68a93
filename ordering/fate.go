package ordering

// fate is the outcome of an event according to a store: none yet, which is the
// zero fate, or one of the others.
//
// An event makes all its numbers done, or none. So if some are done, and not by
// the event itself, it can never run.
type fate struct {
	job     *JobState // the event's numbers are done by itself, with this job state
	unknown bool      // all its numbers are done, presumably by itself, but the job state was pruned
	never   error     // why it can never run; it wraps ErrContradiction
}

func (f fate) isDone() bool { return f.job != nil || f.unknown }

// err returns the error for a repeat of the event: nil if it was applied.
func (f fate) err() error {
	if f.job == nil || f.job.Status == StatusApplied {
		return nil
	}
	return &GivenUpError{Job: *f.job}
}

// fateOf derives the fate of an event from the states of its positions: all of
// them, or those that it is about to make done. The event's own job state is
// stored under one of them. So a job state of another event, or one that is
// missing without having been pruned, means that another event has made the
// number done.
func fateOf(e *Event, positions []Position, states []NumberState) fate {
	var f fate
	var other *ConflictError
	var stale *StaleError
	done := 0
	for i, state := range states {
		if !state.Done {
			continue
		}
		done++
		if epoch, over := state.Job.begins(); over {
			stale = &StaleError{Event: e, Position: positions[i], Epoch: epoch}
			continue
		}
		switch {
		case state.Job != nil && state.Job.IsOf(e):
			return fate{job: state.Job}
		case state.Job != nil && (other == nil || other.Status == 0):
			other = &ConflictError{Event: e, Position: positions[i], Other: state.Job.Event, Status: state.Job.Status}
		case state.Job == nil && !state.Pruned && other == nil:
			other = &ConflictError{Event: e, Position: positions[i]}
		case state.Job == nil && state.Pruned:
			f.unknown = true
		}
	}
	switch {
	case stale != nil:
		return fate{never: stale}
	case other != nil:
		return fate{never: other}
	case 0 < done && done < len(states):
		return fate{never: &ContradictionError{[]*Event{e}}}
	}
	return f
}

// fateOfCommand derives the fate of a command from its job state, or nil.
func fateOfCommand(e *Event, job *JobState) fate {
	switch {
	case job == nil:
		return fate{}
	case job.Hash == Hash{} || job.Hash == e.Hash():
		return fate{job: job}
	}
	return fate{never: &ConflictError{Event: e, Other: job.Event, Status: job.Status}}
}
