package ordering

import (
	"context"
	"errors"
	"fmt"
	"time"

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
// The error wraps [ErrNotParked], or is that of ctx or of the store.
func (s *Sequencer) Resume(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, func(context.Context, *stream) error { return nil })
}

// Skip gives up what a parked stream is closed at, the event or the numbers
// that are missing, with a record that says so, and resumes its parking. A
// skipped event's numbers are done on all its streams. The errors are those of
// Resume.
func (s *Sequencer) Skip(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, s.skipHead)
}

// Drop is Skip for all that is held of a parked stream: it goes on with what
// comes from now on. The errors are those of Resume.
func (s *Sequencer) Drop(ctx context.Context, key lockkeys.Key) error {
	return s.operate(ctx, key, s.dropHeld)
}

// operate has the keeper do something with a parked stream and then resume it.
func (s *Sequencer) operate(ctx context.Context, key lockkeys.Key, do func(context.Context, *stream) error) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	streams, err := s.pin(ctx, Position{Stream: key})
	s.passTurn()
	if err != nil {
		return err
	}
	st := streams[0]
	reply := make(chan error, 1)
	s.mu.Lock()
	s.opLocked(op{reply: reply, do: func(background context.Context) error {
		s.mu.Lock()
		p := st.parking
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.unpinLocked(streams)
		}()
		if p == nil {
			return fmt.Errorf("%w: %s", ErrNotParked, key)
		}
		if err := do(background, st); err != nil {
			return err
		}
		return s.unpark(background, p)
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

// skipHead gives up what a stream is closed at.
func (s *Sequencer) skipHead(ctx context.Context, st *stream) error {
	at := st.heldFrom.Load()
	page, err := s.cfg.Store.Held(ctx, st.key, at, 1)
	if err != nil {
		return err
	}
	return s.skip(ctx, st, at, page)
}

// dropHeld gives up all that is held of a stream.
func (s *Sequencer) dropHeld(ctx context.Context, st *stream) error {
	for at := st.heldFrom.Load(); ; {
		page, err := s.cfg.Store.Held(ctx, st.key, at, feedPage)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		for i, h := range page {
			if err := s.skip(ctx, st, at, page[i:i+1]); err != nil {
				return err
			}
			n, _ := h.On(st.key)
			if n > at { // it was the numbers before that were skipped
				if err := s.skip(ctx, st, n, page[i:i+1]); err != nil {
					return err
				}
			}
			at = n + 1
		}
	}
}

// skip gives up the held event, if it has the number at, or else the numbers
// from at on before it.
func (s *Sequencer) skip(ctx context.Context, st *stream, at uint64, next []HeldEvent) error {
	s.mu.Lock()
	p := st.parking
	to := at
	if p != nil && p.misses(st.key) > 0 {
		to = max(at, p.Gap.To)
	}
	reason := "skipped by an operator"
	if p != nil && p.Error != "" {
		reason += ": " + p.Error
	}
	s.mu.Unlock()
	if len(next) > 0 {
		n, _ := next[0].On(st.key)
		if n == at {
			return s.giveUp(ctx, next[0], reason)
		}
		to = n - 1
	}
	return s.skipNumbers(st, Range{st.key, at, to}, errors.New(reason))
}

// giveUp makes a held event's numbers done without its effect.
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
	r := Record{Event: h.Event, Held: true, JobState: JobState{Event: h.Name(), Positions: h.Positions,
		Status: GivenUp, Attempts: h.Attempts, Error: reason, Started: h.Started, Ended: time.Now()}}
	for _, st := range streams {
		r.Fences = append(r.Fences, st.fence)
	}
	if err := s.commit(ctx, r); err != nil {
		return err
	}
	var a after
	s.mu.Lock()
	for i, p := range h.Positions {
		if p.End {
			s.endsLocked(streams[i], p.Number, &a)
		}
		s.doneLocked(streams[i], p.Number, p.Number, &a)
	}
	s.mu.Unlock()
	s.do(&a)
	s.notify(Notice{Kind: EventSkipped, Time: time.Now(), Stream: h.Positions[0].Stream, Event: h.Event, Err: errors.New(reason)})
	s.pump(ctx, streams)
	return nil
}
