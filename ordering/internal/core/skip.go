package core

import (
	"cmp"
	"slices"
)

// toSkip is a set of numbers to skip, except those whose events have come.
type toSkip struct {
	parts   Spans
	most    uint64 // if there are more than this, none is skipped
	counted bool   // it is known which numbers have come
	why     error  // the reason, if it is not the decision's
}

func (s *toSkip) last() uint64 { return s.parts[len(s.parts)-1].To }

// startSkip starts skipping numbers, by counting which have come.
func (m *Machine) startSkip(d *Decision, s toSkip) {
	d.skip = s
	d.to(dCounting)
	if !s.counted {
		d.from = s.parts[0].From
	}
}

// count reads held events from the store, until it is known which of the
// numbers have come, and then skips the others. Skipping a number whose event
// is held would make that event a contradiction.
func (m *Machine) count(d *Decision) (over bool, err error) {
	st, s := d.stream, &d.skip
	if !s.counted && st.isHeld(s.last()) {
		m.write(&ReadHeld{Key: st.key, From: d.from, Limit: feedPage, Bytes: feedBytes, decision: d})
		return false, nil
	}
	absent, n := m.absent(d)
	switch {
	case n > s.most && d.Kind == Drop:
		err := m.cfg.Host.TooFarError(Range{st.key, absent[0].From, absent[len(absent)-1].To}, n)
		d.to(dForgetting)
		e := d.page[0]
		m.writeForget(&Forget{Event: e, Why: err, By: d.By, decision: d})
	case n > s.most:
		return true, m.cfg.Host.TooFarError(Range{st.key, absent[0].From, absent[len(absent)-1].To}, n)
	case n == 0:
		return m.skipped(d), nil
	default:
		st.skipping = absent
		d.to(dSkipping)
		m.write(&Skip{Key: st.key, Fence: st.fence, Known: st.known(), Parts: absent, Why: cmp.Or(s.why, d.Why), Cause: d.cause(), By: d.By, decision: d})
	}
	return false, nil
}

// absent returns the numbers to skip: those that are not done, and whose events
// are neither in memory nor held; none is being held, since that comes first in the
// lane. n is how many there are. A span that reaches into a later epoch reaches to
// the end of one.
func (m *Machine) absent(d *Decision) (absent Spans, n uint64) {
	st, come := d.stream, slices.Clone(d.come)
	if st.next > 1 {
		come = come.Add(Span{1, st.next - 1})
	}
	for _, done := range st.ahead {
		come = come.Add(done)
	}
	for number := range st.early {
		come = come.Add(Span{number, number})
	}
	for _, part := range d.skip.parts {
		for _, r := range come.Without(part) {
			absent = append(absent, r.byEpochs()...)
			n += r.To - r.From + 1
		}
	}
	return absent, n
}

// skipDone marks skipped numbers as done. Arrivals with these numbers were
// waiting for that (see place).
func (m *Machine) skipDone(a *Skip) {
	m.writes.flying = nil
	d := a.decision
	st := d.stream
	st.skipping = nil
	for _, r := range a.Parts {
		kind := NumbersSkipped
		if EndsEpoch(r.To) {
			kind = EpochBegan
		}
		m.notify(Notice{Kind: kind, Range: Range{st.key, r.From, r.To}, Err: a.Why})
		m.setDone(st, r.From, r.To)
	}
	if d.state != dOver && m.skipped(d) {
		m.writes.decisions = m.writes.decisions[1:]
		m.decided(d, nil)
	}
	m.admit()
}

// skipped continues a decision after its skip. It reports whether the decision
// is over.
func (m *Machine) skipped(d *Decision) (over bool) {
	switch d.Kind {
	case Drop:
		d.at = d.skip.last() + 1
		d.to(dDealing)
	case skipNumbers, skipEpoch:
		return true
	default:
		d.to(dResuming)
	}
	return false
}

// setDone marks numbers as done that were not submitted. If the stream is
// parked because they were missing, its parking is resumed.
func (m *Machine) setDone(st *stream, from, to uint64) {
	st.setDone(from, to)
	m.narrowGap(st)
	if done, _ := st.isDone(st.missing); st.missing > 0 && done {
		st.missing = 0
		m.reopen(st.parking)
	}
	m.touch(st)
}
