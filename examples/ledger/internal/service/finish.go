package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// Finish runs what was submitted and ends the service. When ctx ends first,
// the messages that have not begun by then are left, and the error says how
// many. It returns what could not go on: streams with messages that wait for
// others.
func (s *Service) Finish(ctx context.Context) (waiting []ordering.Parking, err error) {
	settled := s.settle(ctx)
	if settled == nil {
		settled = s.letGo(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	waiting, parked := s.sequencer.Parked(ctx)
	err = s.sequencer.Shutdown(ctx)
	s.end.closing.Wait()
	if n := s.unfinished.Load(); n > 0 {
		s.cfg.Audit.Leave() // those that have ended are all there will be
		err = errors.Join(err, fmt.Errorf("messages that were accepted and not run: %d", n))
	}
	return waiting, errors.Join(s.aborted(), settled, parked, err)
}

// HandOver ends the service for another one to go on: what runs comes to its
// end, shortly before the deadline of ctx at the latest, and the rest is given
// back to the queue that it is from. It returns what could not go on.
func (s *Service) HandOver(ctx context.Context) (waiting []ordering.Parking, err error) {
	err = s.sequencer.Err()
	ended := s.sequencer.Shutdown(ctx)
	s.end.closing.Wait()
	s.cfg.Audit.Leave()
	waiting, parked := s.cfg.Store.Numbers().Parked(context.WithoutCancel(ctx))
	return waiting, errors.Join(s.aborted(), err, ended, parked)
}

// settle waits until everything has ended, what is held and can go on as well.
func (s *Service) settle(ctx context.Context) error {
	for {
		if err := s.sequencer.Drain(ctx); err != nil {
			return err
		}
		moving, err := s.moving(ctx)
		if err != nil || !moving {
			return err
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

// letGo refuses held messages that can never run, since their numbers contradict
// those of others or come after the end of their streams: one after the other, for
// the streams to go on. Whatever comes with the same numbers is refused too, so that
// nothing else could set them free.
func (s *Service) letGo(ctx context.Context) error {
	for {
		parked, err := s.sequencer.Parked(ctx)
		i := slices.IndexFunc(parked, func(p ordering.Parking) bool { return p.Reason == ordering.Contradiction })
		if err != nil || i < 0 {
			return err
		}
		p := parked[i]
		stream, give := p.Streams[0].Stream, s.sequencer.Skip
		if strings.Contains(p.Error, ordering.ErrEnded.Error()) {
			give = s.sequencer.Drop // all that is held of it
		}
		if err := s.refuseHeld(ctx, p); err != nil {
			return err
		}
		if err := give(ctx, stream); err != nil && !errors.Is(err, ordering.ErrNotParked) {
			return err
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
	}
}

// refuseHeld tells of what is given up of a parking, before it is.
func (s *Service) refuseHeld(ctx context.Context, p ordering.Parking) error {
	stream, at := p.Streams[0].Stream, p.Streams[0].Number
	most := 1
	if strings.Contains(p.Error, ordering.ErrEnded.Error()) {
		most = 1 << 20
	}
	held, err := s.cfg.Store.Numbers().Held(ctx, stream, at, most, math.MaxInt64)
	if err != nil {
		return err
	}
	for _, h := range held {
		m, err := book.Decode(h.Payload)
		if err != nil {
			return err
		}
		m.Sequence = h.Positions
		rejection := book.Rejection{Reason: book.Contradiction, Detail: p.Error}
		refusal := store.Refusal{Event: h.Name(), Input: inputOf(h.Event), Message: h.Payload, Rejection: rejection}
		if err := s.cfg.Store.Refuse(ctx, refusal); err != nil {
			return err
		}
		s.gone.Add(1)
		if s.cfg.OnRefused != nil {
			s.cfg.OnRefused(0, m, &rejection)
		}
	}
	return nil
}

// moving tells whether the store holds messages that are about to run: nothing
// closes their streams, or what was missing is there.
func (s *Service) moving(ctx context.Context) (bool, error) {
	numbers := s.cfg.Store.Numbers()
	backlog, err := numbers.Backlog(ctx)
	if err != nil || len(backlog) > 0 {
		return len(backlog) > 0, err
	}
	parked, err := numbers.Parked(ctx)
	for _, p := range parked {
		if p.Gap.From == 0 {
			continue // it is no gap
		}
		held, err := numbers.Held(ctx, p.Gap.Stream, p.Gap.From, 1, 0)
		if err != nil {
			return false, err
		}
		if len(held) > 0 {
			if n, _ := held[0].On(p.Gap.Stream); n == p.Gap.From {
				return true, nil
			}
		}
	}
	return false, err
}

// ending is what ends a service before its time.
type ending struct {
	closing sync.WaitGroup
	mu      struct {
		sync.Mutex
		cause error
	}
}

// abort ends the service when it cannot go on: a message that has its numbers
// could not be offered, so those after it would wait for it in vain; or the
// database belongs to somebody else. It does not wait for that.
func (s *Service) abort(cause error) {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	if s.end.mu.cause != nil {
		return
	}
	s.end.mu.cause = cause
	s.end.closing.Go(func() { _ = s.sequencer.Close() }) // it is called by no handler
}

func (s *Service) aborted() error {
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	return s.end.mu.cause
}

// Err returns nil while messages are accepted, and then why they are not.
func (s *Service) Err() error {
	if err := s.aborted(); err != nil {
		return err
	}
	return s.sequencer.Err()
}

// Stopped tells whether the machinery failed, so that nothing runs any more.
func (s *Service) Stopped() bool {
	return s.aborted() != nil || errors.Is(s.sequencer.Err(), ordering.ErrStopped)
}
