package core

// submit adds an event whose turn has come to the windows of its streams, and
// submits it to the dispatcher. It does not wait for the events before it: the
// lock keys keep those that conflict in order.
func (m *Machine) submit(e *Event) {
	e.to(Submitted)
	for i := range e.Slots {
		s := &e.Slots[i]
		s.Known = s.stream.known()
		s.stream.advance(e)
	}
	for i := range e.Slots {
		s := &e.Slots[i]
		st := s.stream
		if s.End {
			m.endsAt(st, s.Number)
		}
		if st.gap != nil {
			m.narrowGap(st)
		}
		if len(st.early) > 0 {
			m.touch(st)
		}
	}
	m.do(Submit{e})
}

// lookAt examines the head of a stream after a change: whether its event may
// run, is missing, or can never run because it is in a cycle. It is the only
// place that decides this; everything else calls touch.
func (m *Machine) lookAt(st *stream) {
	head := st.early[st.next]
	switch {
	case st.state == gone, m.state != running:
	case head != nil && head.isNext():
		m.leaveEarly(head)
		m.touchAll(head)
		m.submit(head)
	case len(st.early) == 0:
		if st.missing == 0 {
			m.closeGap(st)
		}
		m.rest(st)
	case head != nil: // not missing here: it waits for another stream
		m.closeGap(st)
		m.contradiction(head)
	case st.awaitsEpoch():
		m.beginEpoch(st)
	case st.missesNext(): // and no parking or feeding takes care of it
		m.openGap(st)
	}
}

// missesNext reports whether the first early event waits for the next number
// itself. If that event was fed on another stream, and this one has not been fed
// as far, it waits for held events before it.
func (st *stream) missesNext() bool {
	_, n := st.firstEarly()
	return !st.isHeld(n)
}

// notSubmitted takes back the events that the dispatcher did not accept: the
// last one first, since a window can only undo its last advance.
func (m *Machine) notSubmitted(in NotSubmitted) {
	for i := len(in.Events) - 1; i >= 0; i-- {
		e := in.Events[i]
		for j := range e.Slots {
			e.Slots[j].stream.retreat(e.Slots[j].Number)
		}
	}
	for i, e := range in.Events {
		switch never := i == 0 && in.Cause != nil; {
		case len(e.Slots) == 0 && !never && m.state == running:
			m.do(Submit{e})
		case len(e.Slots) == 0 && never:
			m.end(e, Failed, in.Cause)
			m.freeID(e, Failed)
		case len(e.Slots) == 0:
			m.end(e, Unfinished, m.cause)
			m.freeID(e, Unfinished)
		case never:
			m.park(e, in.Cause)
			m.hold(e)
		case m.mustHold(e):
			m.hold(e)
		default:
			m.enterEarly(e)
			m.touchAll(e)
			if e.isNext() && m.state == running { // at once, so that they stay in this order
				m.leaveEarly(e)
				m.submit(e)
			}
		}
	}
}

// ended takes the outcome of a submitted event. Its lock keys are still held,
// so the streams that it closes are closed before any event that waits for
// these keys can run.
func (m *Machine) ended(e *Event) {
	e.Result, e.Err = e.Outcome, e.Cause
	if len(e.Slots) == 0 {
		if e.Result == Refused {
			m.refuse(e, e.Err)
		} else {
			m.end(e, e.Result, e.Err)
		}
		m.freeID(e, e.Result)
		return
	}
	if e.Result == Failed {
		m.park(e, e.Err)
	}
	done := e.Result.isDone()
	for i := range e.Slots {
		st := e.Slots[i].stream
		st.end(e.Slots[i].Number, done)
		if len(st.early) > 0 {
			m.touch(st)
		}
	}
	switch e.Result {
	case Failed, Recalled:
		m.hold(e)
	case Refused: // by the answer of the store
		m.refuse(e, e.Err)
	default:
		if e.Result == Duplicate && e.Held { // no commit has deleted the store's copy
			m.forget(e, nil)
		}
		for i := range e.Slots {
			m.goOnFeeding(e.Slots[i].stream)
		}
		m.end(e, e.Result, e.Err)
	}
}

// recall recalls the submitted events of a stream from number n on, where it
// was closed: those whose handlers have not been called yet will not run.
func (m *Machine) recall(st *stream, n uint64) {
	for _, entry := range st.window.from(n) {
		if entry.event != nil && entry.event.Result == 0 && entry.event != undone { // a Result is set if it is the one that ends in this step
			m.do(Recall{entry.event})
		}
	}
}
