package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// Parked lists what is parked, longest first.
func (s *Sequencer) Parked(ctx context.Context) ([]Parking, error) {
	return s.cfg.Store.Parked(ctx)
}

// Resume lets the parking of a stream be tried again: the event that failed is
// run once more, or what is missing is asked for. What is held behind it
// follows in order, with newer arrivals behind that. Attempts count on from
// those before.
//
// The error wraps [ErrNotParked], or is that of ctx, of [Sequencer.Err], or of
// the store; in a handler it is [dispatcher.ErrNested]. If ctx ends before its
// turn has come nothing is done, and if it ends in the midst of it, all is.
func (s *Sequencer) Resume(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, func(context.Context, *stream) error { return nil })
}

// Skip gives up what a parked stream is closed at, the event or the numbers
// that are missing, with a record that says so, and resumes its parking. A
// skipped event's numbers are done on all its streams. The errors are those of
// Resume; if more than [Config.MaxSkip] numbers are missing, the error wraps
// [ErrTooFar] and nothing is done.
func (s *Sequencer) Skip(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, s.skipHead)
}

// SkipTo is Skip for all numbers of a parked stream up to a last one that have
// not come, however many they are. Events that are held stay, and run.
func (s *Sequencer) SkipTo(ctx context.Context, key lockkeys.Key, last uint64) error {
	if last == 0 || last > MaxNumber {
		return fmt.Errorf("ordering: skip %s up to %d: %w", key, last, ErrNumber)
	}
	return s.operate(ctx, key, func(_ context.Context, st *stream) error {
		_, err := s.skipNumbers(st, Range{key, 1, last}, MaxNumber, errors.New(s.skipReason(st)))
		return err
	})
}

// Drop is Skip for all that is held of a parked stream: it goes on with what
// comes from now on. An event with more than [Config.MaxSkip] missing numbers
// before it is given to [Config.DeadLetter] and forgotten, without making them or
// its own done. The errors are those of Resume.
func (s *Sequencer) Drop(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, s.dropHeld)
}

// operate has the keeper do something with a parked stream and then resume it.
// If another holder has had the stream, it is taken over first.
func (s *Sequencer) operate(ctx context.Context, key lockkeys.Key, do func(context.Context, *stream) error) error {
	err := s.operateOnce(ctx, key, do)
	if errors.Is(err, ErrFenced) {
		err = s.operateOnce(ctx, key, do)
	}
	return err
}

func (s *Sequencer) operateOnce(ctx context.Context, key lockkeys.Key, do func(context.Context, *stream) error) error {
	if s.within(ctx) {
		return dispatcher.ErrNested
	}
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	streams, err := s.pin(ctx, Position{Stream: key})
	s.passTurn()
	if err != nil {
		return err
	}
	reply := make(chan error, 1)
	s.mu.Lock()
	s.opLocked(op{reply: reply, do: func(background context.Context) error {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unpinLocked(streams)
		}()
		if ctx.Err() != nil { // nobody waits for it any more
			return context.Cause(ctx)
		}
		st := streams[0]
		s.mu.Lock()
		p := st.parking
		s.mu.Unlock()
		if p == nil {
			return fmt.Errorf("%w: %s", ErrNotParked, key)
		}
		if err := do(background, st); err != nil {
			return err
		}
		return s.surely(background, "unpark", func() error { return s.unpark(background, p) })
	}})
	s.mu.Unlock()
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.background.Done():
		return s.Err()
	}
}

// closedAt returns the first number of a parked stream that does not run.
func (s *Sequencer) closedAt(st *stream) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := st.heldFrom.Load()
	if st.window.empty() {
		at = max(at, st.next) // numbers may have been done since it was closed
	}
	return at
}

// skipHead gives up what a stream is closed at.
func (s *Sequencer) skipHead(ctx context.Context, st *stream) error {
	at := s.closedAt(st)
	page, err := s.cfg.Store.Held(ctx, st.key, at, 1, 0)
	if err != nil {
		return err
	}
	return s.skip(ctx, st, at, page)
}

// dropHeld gives up all that is held of a stream.
func (s *Sequencer) dropHeld(ctx context.Context, st *stream) error {
	at := s.closedAt(st)
	for from := at; ; {
		page, err := s.cfg.Store.Held(ctx, st.key, from, feedPage, feedBytes)
		if err != nil || len(page) == 0 {
			return err
		}
		for i, h := range page {
			n, _ := h.On(st.key)
			from = n + 1
			if n > at {
				err := s.skip(ctx, st, at, page[i:i+1])
				if errors.Is(err, ErrTooFar) {
					if err := s.expel(ctx, h, err); err != nil {
						return err
					}
					continue
				}
				if err != nil {
					return err
				}
			}
			if err := s.giveUp(ctx, h, s.skipReason(st)); err != nil {
				return err
			}
			at = n + 1
		}
	}
}

// expel has the store forget an event whose numbers are not to be done.
func (s *Sequencer) expel(ctx context.Context, h HeldEvent, why error) error {
	s.deadLetter(ctx, h.Event, why)
	return s.forgetHeld(ctx, h)
}

// skip gives up the held event, if it has the number at, or else the numbers
// from at on before it.
func (s *Sequencer) skip(ctx context.Context, st *stream, at uint64, next []HeldEvent) error {
	to := at
	s.mu.Lock()
	if p := st.parking; p != nil && p.misses(st.key) > 0 {
		to = max(at, p.Gap.To)
	}
	s.mu.Unlock()
	reason := s.skipReason(st)
	if len(next) > 0 {
		n, _ := next[0].On(st.key)
		if n == at {
			return s.giveUp(ctx, next[0], reason)
		}
		to = n - 1
	}
	_, err := s.skipNumbers(st, Range{st.key, at, to}, uint64(s.cfg.MaxSkip), errors.New(reason))
	return err
}

// skipReason says why something of a stream is given up.
func (s *Sequencer) skipReason(st *stream) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	reason := "skipped by an operator"
	if p := st.parking; p != nil && p.Error != "" {
		reason += ": " + p.Error
	}
	return reason
}

// forgetDone has the store forget an event of which no number is left, and tells
// of it if that was not by the event itself.
func (s *Sequencer) forgetDone(ctx context.Context, h HeldEvent) error {
	states, err := s.cfg.Store.Look(ctx, h.Positions)
	if err != nil {
		return err
	}
	why := fateOf(h.Event, h.Positions, states).never
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetHeldLocked(h, why)
	return nil
}

// giveUp makes a held event's numbers done without its effect, but for those
// that another event has. One that still runs is left alone: it was let in
// before the stream was closed.
func (s *Sequencer) giveUp(ctx context.Context, h HeldEvent, reason string) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	streams, err := s.pin(ctx, h.Positions...)
	if err != nil {
		return err
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.unpinLocked(streams)
	}()
	free := &Event{ID: h.Name()} // the positions that it is given up with
	r := Record{Event: free, Held: true, JobState: h.givenUp(reason)}
	runs := false
	s.mu.Lock()
	for i, st := range streams {
		done, other := st.onItsWay(h.Positions[i].Number)
		runs = runs || other != nil && other.event.IsCopy(h.Event)
		if !done && other == nil {
			free.Positions = append(free.Positions, h.Positions[i])
			r.Fences = append(r.Fences, st.fence)
		}
	}
	s.mu.Unlock()
	if runs {
		return nil
	}
	if len(free.Positions) == 0 {
		return s.forgetDone(ctx, h)
	}
	f, err := s.commitSurely(ctx, h.Event, r)
	switch {
	case errors.Is(err, ErrFenced):
		s.lose(streams...)
		return err
	case err != nil:
		return err
	case f.own == 0: // by another holder, which this one did not know of
		s.lose(streams...)
		return ErrFenced
	case f.own == Processed: // by a commit that only seemed to fail
		s.mu.Lock()
		s.forgetHeldLocked(h, nil)
		s.mu.Unlock()
	}
	var a after
	if f.own == GivenUp {
		a.notices = []Notice{{Kind: EventSkipped, Time: time.Now(), Stream: h.Positions[0].Stream, Event: h.Event, Err: errors.New(reason)}}
	}
	s.mu.Lock()
	for i, p := range h.Positions {
		if _, ok := free.On(p.Stream); !ok {
			continue
		}
		if p.End {
			s.endsLocked(streams[i], p.Number, &a)
		}
		s.doneLocked(streams[i], p.Number, p.Number, &a)
	}
	s.mu.Unlock()
	s.do(&a)
	s.pumpAside(streams)
	return nil
}
