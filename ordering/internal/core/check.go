package core

// check asks the store whether an event with a done number is the one that was
// done. Only the answer tells a duplicate, which is acknowledged, from a
// contradiction, which is refused. The pins keep its streams, and so their
// tokens, in memory until then.
func (m *Machine) check(e *Event) {
	e.to(Checking)
	for i := range e.Slots {
		e.Slots[i].stream.pins++
	}
	m.addPending(e, 1)
	m.loads.checks = append(m.loads.checks, e)
}

// looked ends events by the answer of the store. If the store does not know an
// event of which a number is done in memory, it has lost commits, for example
// because an older copy was restored: the machine stops.
func (m *Machine) looked(in Looked) {
	m.loads.looking, m.loads.flying = false, nil
	for i, e := range in.Events {
		m.addPending(e, -1)
		for j := range e.Slots {
			e.Slots[j].stream.pins--
		}
		switch v := in.Verdicts[i]; v.Kind {
		case Done:
			if e.Held {
				m.forget(e, nil)
			}
			m.end(e, Duplicate, v.Err)
		case Never:
			m.refuse(e, v.Err)
		case Open:
			m.stop(m.cfg.Host.LostError(e))
			m.end(e, Unfinished, m.cause)
		}
	}
}
