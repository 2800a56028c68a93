package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// gap is numbers that have not come, while later ones have.
//
// Invariant: from is the next number of the stream.
type gap struct {
	stream *stream
	from   uint64
	to     uint64 // as far as was known when it was noticed
	timer  *time.Timer
	due    bool // to be asked for when the stream's last replay has ended
	asked  bool
}

// openGapLocked starts the grace time for the next number of a stream. It
// counts from when the first event after it came.
func (s *Sequencer) openGapLocked(st *stream, a *after) {
	if st.gap != nil {
		return
	}
	g := &gap{stream: st, from: st.next, to: s.missingToLocked(st)}
	st.gap = g
	wait := time.Duration(0) // of a stream that was parked for it
	if first := st.firstEarly(); first != nil {
		wait = s.cfg.GapTimeout - time.Since(first.arrived)
	}
	g.timer = time.AfterFunc(max(wait, 0), func() { s.gapDue(g) })
	s.counts.gaps.Add(1)
	a.notices = append(a.notices, Notice{Kind: GapOpened, Time: time.Now(), Stream: st.key, Range: Range{st.key, g.from, g.to}})
}

// narrowGapLocked takes note that the next number of a stream is another one.
func (s *Sequencer) narrowGapLocked(st *stream, a *after) {
	switch g := st.gap; {
	case g == nil:
	case st.next > g.to:
		s.closeGapLocked(st, a)
	default:
		g.from = st.next
	}
}

// closeGapLocked forgets a gap that is none any more.
func (s *Sequencer) closeGapLocked(st *stream, a *after) {
	g := st.gap
	if g == nil {
		return
	}
	g.timer.Stop()
	st.gap = nil
	a.notices = append(a.notices, Notice{Kind: GapClosed, Time: time.Now(), Stream: st.key, Range: Range{st.key, g.from, g.from}})
}

func (s *Sequencer) gapDue(g *gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.stream.gap == g && !g.asked {
		s.askLocked(g)
	}
}

// askLocked starts a replay of what is missing, one at a time for a stream.
func (s *Sequencer) askLocked(g *gap) {
	st := g.stream
	if st.replaying {
		g.due = true
		return
	}
	if s.mu.err != nil {
		return
	}
	st.replaying, g.asked = true, true
	missing := Range{st.key, g.from, s.missingToLocked(st)}
	s.goroutines.Go(func() { s.replay(g, missing) })
}

// replay has a range replayed and sees to what has not come by that.
func (s *Sequencer) replay(g *gap, missing Range) {
	s.counts.replays.Add(1)
	s.notify(Notice{Kind: ReplayAsked, Time: time.Now(), Stream: missing.Stream, Range: missing})
	var answer Answer
	err := ErrNoReplayer
	if s.cfg.Replayer != nil {
		answer, err = s.cfg.Replayer.Replay(s.background, missing, s.deliver)
	}
	for _, r := range answer.NoSuch {
		from, to := max(r.From, missing.From), min(r.To, missing.To)
		if r.Stream == missing.Stream && from <= to && s.background.Err() == nil {
			reason := errors.New("the source says that there is no such number")
			err = errors.Join(err, s.skipNumbers(g.stream, Range{r.Stream, from, to}, reason))
		}
	}
	s.settle(g, missing, err)
}

// deliver takes events from a replay.
func (s *Sequencer) deliver(ctx context.Context, events []*Event) error {
	_, err := s.OfferBatch(ctx, events, nil)
	return err
}

// settle ends a replay: if the number that was asked for is still missing, the
// policy for gaps applies.
func (s *Sequencer) settle(g *gap, missing Range, cause error) {
	st := g.stream
	var a after
	s.mu.Lock()
	st.replaying = false
	if !s.isOpenLocked(g, missing.To, &a) {
		s.restLocked(st)
		s.mu.Unlock()
		s.do(&a)
		return
	}
	if cause == nil {
		cause = errors.New("the replay ended without them")
	}
	missing.To = s.missingToLocked(st)
	err := fmt.Errorf("%w: %v: %w", ErrGap, missing, cause)
	switch s.cfg.GapPolicy {
	case Park:
		p := st.parking
		if st.missing == 0 {
			p = s.newParkingLocked(Gap, err)
			p.Gap = missing
			s.shutLocked(st, g.from, g.from, p, &a)
		} else if p.Reason == Waiting {
			p.Reason, p.Error = Gap, err.Error()
			s.dirtyLocked(p)
		}
		s.closeGapLocked(st, &a)
		s.mu.Unlock()
	case Skip:
		s.mu.Unlock()
		if err := s.skipNumbers(st, missing, err); err != nil {
			s.cfg.Logger.Error("numbers could not be skipped", "range", missing.String(), "err", err)
			s.again(g)
		}
	case Stop:
		s.stopLocked(err)
		s.mu.Unlock()
	}
	s.do(&a)
}

// isOpenLocked tells whether a gap is still open of which the numbers up to
// asked have been replayed. If others are, they are asked for.
func (s *Sequencer) isOpenLocked(g *gap, asked uint64, a *after) bool {
	st := g.stream
	switch {
	case s.mu.err != nil, st.gap == nil:
	case st.gap != g:
		if st.gap.due {
			s.askLocked(st.gap)
		}
	case g.from > asked:
		s.askLocked(g)
	case st.isHeld(g.from) && st.missing == 0: // it has come, and the store holds it
		s.closeGapLocked(st, a)
	default:
		return true
	}
	return false
}

// again gives a gap another grace time.
func (s *Sequencer) again(g *gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.stream.gap == g {
		g.asked = false
		g.timer.Reset(s.cfg.GapTimeout)
	}
}

// skipNumbers makes numbers done that no event will come for.
func (s *Sequencer) skipNumbers(st *stream, r Range, reason error) error {
	if err := s.takeTurn(s.background); err != nil {
		return err
	}
	defer s.passTurn()
	err := s.cfg.Store.Skip(s.background, Skipped{Stream: r.Stream, From: r.From, To: r.To,
		Fence: st.fence, Reason: reason.Error(), Time: time.Now()})
	var a after
	s.mu.Lock()
	switch {
	case errors.Is(err, ErrFenced):
		s.loseLocked(st, &a)
	case err == nil:
		s.doneLocked(st, r.From, r.To, &a)
		a.notices = append(a.notices, Notice{Kind: NumbersSkipped, Time: time.Now(), Stream: st.key, Range: r, Err: reason})
	}
	s.mu.Unlock()
	s.do(&a)
	if err == nil {
		s.pump(s.background, []*stream{st})
	}
	return err
}

// doneLocked takes note of numbers that are done without having been
// submitted. If the stream was closed since they were missing, it is opened.
func (s *Sequencer) doneLocked(st *stream, from, to uint64, a *after) {
	st.setDone(from, to)
	s.narrowGapLocked(st, a)
	if done, _ := st.isDone(st.missing); st.missing > 0 && done {
		st.missing = 0
		s.reopenLocked(st.parking)
	}
}
