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
	to     uint64    // as far as was known when it was noticed
	grace  time.Time // until then the policy does not apply
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
	g.grace = time.Now().Add(wait)
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
	s.checkHolder(g.stream)
	var err error
	if s.asks(g) {
		s.counts.replays.Add(1)
		s.do(&after{notices: []Notice{{Kind: ReplayAsked, Time: time.Now(), Stream: missing.Stream, Range: missing}}})
		err = s.askReplayer(g, missing)
	}
	s.settle(g, missing, err)
}

// asks tells whether a gap is still there to ask for.
func (s *Sequencer) asks(g *gap) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return g.stream.gap == g
}

func (s *Sequencer) askReplayer(g *gap, missing Range) error {
	if s.cfg.Replayer == nil {
		return ErrNoReplayer
	}
	var answer Answer
	err := contain(func() (err error) {
		answer, err = s.cfg.Replayer.Replay(s.background, missing, s.deliver)
		return err
	})
	left := uint64(s.cfg.MaxSkip) // also of one who is an authority: it may be spoiled
	for _, r := range answer.NoSuch {
		from, to := max(r.From, missing.From), min(r.To, missing.To)
		if r.Stream == missing.Stream && from <= to && s.background.Err() == nil {
			reason := errors.New("the source says that there is no such number")
			n, failed := s.skipNumbers(g.stream, Range{r.Stream, from, to}, left, reason)
			err = errors.Join(err, failed)
			left -= n
		}
	}
	return err
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
	if rest := time.Until(g.grace); rest > 0 { // it was asked for early, since too many wait
		s.againLocked(g, rest)
		s.mu.Unlock()
		s.do(&a)
		return
	}
	if cause == nil {
		cause = errors.New("the replay ended without them")
	}
	missing.From, missing.To = g.from, s.missingToLocked(st)
	err := fmt.Errorf("%w: %v: %w", ErrGap, missing, cause)
	switch s.cfg.GapPolicy {
	case Park:
		s.parkGapLocked(g, missing, err, &a)
	case Skip:
		s.mu.Unlock()
		_, failed := s.skipNumbers(st, missing, uint64(s.cfg.MaxSkip), err)
		s.mu.Lock()
		switch {
		case errors.Is(failed, ErrTooFar):
			if st.gap == g && s.mu.err == nil {
				s.parkGapLocked(g, missing, errors.Join(err, failed), &a)
			}
		case failed != nil:
			s.cfg.Logger.Error("numbers could not be skipped", "range", missing.String(), "err", failed)
			fallthrough
		default:
			s.againLocked(g, s.cfg.GapTimeout)
		}
	case Stop:
		s.stopLocked(err)
	}
	s.mu.Unlock()
	s.do(&a)
}

// parkGapLocked closes a stream of which numbers are missing that could not be
// had.
func (s *Sequencer) parkGapLocked(g *gap, missing Range, err error, a *after) {
	st := g.stream
	p := st.parking
	if st.missing == 0 || g.from < st.missing { // less: an event was taken back
		p = s.shutLocked(st, g.from, g.from, s.newParkingLocked(Gap, err), a)
		p.Gap = missing
	} else if p.Reason == Waiting {
		p.Reason, p.Error = Gap, err.Error()
		s.dirtyLocked(p)
	}
	s.closeGapLocked(st, a)
	s.restLocked(st)
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

// againLocked has a gap asked for again after a while.
func (s *Sequencer) againLocked(g *gap, wait time.Duration) {
	if g.stream.gap == g {
		g.asked = false
		g.timer.Reset(wait)
	}
}

// skipNumbers makes the numbers of a range done that nothing has come for, most
// of them at most: if there are more, it does nothing, and the error wraps
// ErrTooFar. It returns how many there were.
func (s *Sequencer) skipNumbers(st *stream, r Range, most uint64, reason error) (n uint64, err error) {
	if err := s.takeTurn(s.background); err != nil {
		return 0, err
	}
	defer s.passTurn()
	absent, err := s.absent(st, Span{r.From, r.To})
	if err != nil {
		return 0, err
	}
	for _, part := range absent {
		n += part.To - part.From + 1
	}
	if n > most {
		return 0, fmt.Errorf("%w: %v are %d: look whether the number behind them is right; Drop gives up what is held behind them, and SkipTo skips them", ErrTooFar, r, n)
	}
	var a after
	defer s.do(&a)
	for _, part := range absent {
		r := Range{st.key, part.From, part.To}
		skipped := Skipped{Stream: r.Stream, From: r.From, To: r.To, Fence: st.fence, Reason: reason.Error(), Time: time.Now()}
		err := s.surely(s.background, "skip", func() error { return s.cfg.Store.Skip(s.background, skipped) })
		if err != nil {
			s.mu.Lock()
			if errors.Is(err, ErrFenced) {
				s.loseLocked(&a, st)
			}
			s.mu.Unlock()
			return 0, err
		}
		s.mu.Lock()
		s.doneLocked(st, r.From, r.To, &a)
		s.mu.Unlock()
		a.notices = append(a.notices, Notice{Kind: NumbersSkipped, Time: time.Now(), Stream: st.key, Range: r, Err: reason})
	}
	s.pumpAside([]*stream{st})
	return n, nil
}

// absent returns the parts of a range that are neither done, nor in memory, nor
// held. The caller has the turn, so nothing comes meanwhile.
func (s *Sequencer) absent(st *stream, r Span) ([]Span, error) {
	s.mu.Lock()
	var here Spans // what is not absent
	if r.From < st.next {
		here = here.Add(Span{r.From, st.next - 1})
	}
	for _, done := range st.ahead {
		here = here.Add(done)
	}
	for n := range st.early {
		here = here.Add(Span{n, n})
	}
	for n := range st.holding {
		here = here.Add(Span{n, n})
	}
	s.mu.Unlock()
	for at := max(r.From, 1); st.isHeld(r.To); {
		page, err := s.cfg.Store.Held(s.background, st.key, at, feedPage, feedBytes)
		if err != nil {
			return nil, err
		}
		for _, h := range page {
			n, _ := h.On(st.key)
			here = here.Add(Span{n, n})
			at = n + 1
		}
		if len(page) == 0 || at > r.To {
			break
		}
	}
	return here.Without(r), nil
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
