package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/examples/ledger/internal/book"
	"github.com/interlock-go/interlock/examples/ledger/internal/store"
	"github.com/interlock-go/interlock/ordering"
)

// Finish runs what was submitted and ends the service. When ctx ends first,
// the messages that have not begun by then are left, and the error says how
// many. It returns what could not go on: streams with messages that wait for
// others.
func (s *Service) Finish(ctx context.Context) (waiting []ordering.Parking, err error) {
	drained := s.sequencer.Drain(ctx)
	if drained == nil {
		drained = s.letGo(ctx)
	}
	ctx = context.WithoutCancel(ctx)
	waiting, parked := s.sequencer.Parked(ctx)
	err = errors.Join(s.sequencer.Shutdown(ctx), s.saved())
	s.end.closing.Wait()
	if n := s.counts.unfinished.Load(); n > 0 {
		s.cfg.Audit.Leave() // those that have ended are all there will be
		err = errors.Join(err, fmt.Errorf("messages that were accepted and not run: %d", n))
	}
	return waiting, errors.Join(s.aborted(), drained, parked, err)
}

// Shutdown ends the service for another one to go on: what runs comes to its
// end, shortly before the deadline of ctx at the latest, and the rest is given
// back to the queue that it is from. It returns what could not go on.
func (s *Service) Shutdown(ctx context.Context) (waiting []ordering.Parking, err error) {
	err = s.sequencer.Err()
	ended := s.sequencer.Shutdown(ctx)
	s.end.closing.Wait()
	s.cfg.Audit.Leave()
	waiting, parked := s.cfg.Store.Numbers().Reader("").Parked(context.WithoutCancel(ctx))
	return waiting, errors.Join(s.aborted(), err, ended, parked)
}

// letGo gives up held messages that can never run, since their numbers contradict
// those of others or come after the end of their streams: one after the other, for
// the streams to go on. Whatever comes with the same numbers is refused too, so that
// nothing else could set them free.
func (s *Service) letGo(ctx context.Context) error {
	ctx = dispatcher.WithOperator(ctx, "ledger", "it can never run")
	for {
		parked, err := s.sequencer.Parked(ctx)
		i := slices.IndexFunc(parked, func(p ordering.Parking) bool { return p.Reason == ordering.Contradiction })
		if err != nil || i < 0 {
			return err
		}
		give := s.sequencer.Skip
		if strings.Contains(parked[i].Error, ordering.ErrEnded.Error()) {
			give = s.sequencer.Drop // all that is held of it
		}
		if err := give(ctx, parked[i].Streams[0].Stream); err != nil && !errors.Is(err, ordering.ErrNotParked) {
			return err
		}
		if err := s.sequencer.Drain(ctx); err != nil {
			return err
		}
	}
}

// gaveUp takes a message that was held and can never run, before the store
// forgets it. If that cannot be recorded, nothing goes on.
func (s *Service) gaveUp(ctx context.Context, e *ordering.Event, cause error) error {
	rejection := book.Rejection{Reason: book.Contradiction, Detail: cause.Error()}
	refusal := store.Refusal{Event: e.Name(), Input: s.inputOf(e), Line: lineOf(e), Message: e.Payload, Rejection: rejection}
	m, err := decode(e)
	if err == nil {
		err = s.cfg.Store.Refuse(ctx, refusal)
	}
	if err != nil {
		s.abort(err)
		return err
	}
	s.counts.gone.Add(1)
	if s.cfg.OnRefused != nil {
		s.cfg.OnRefused(lineOf(e), m, &rejection)
	}
	return nil
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
	if errors.Is(cause, ordering.ErrFenced) {
		cause = fmt.Errorf("another program has taken over the database: %w", cause)
	}
	s.end.mu.Lock()
	defer s.end.mu.Unlock()
	if s.end.mu.cause != nil {
		return
	}
	s.end.mu.cause = cause
	s.end.closing.Go(func() {
		<-s.started
		_ = s.sequencer.Close() // it is called by no handler
	})
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

// Stopped reports whether the machinery failed, so that nothing runs any more.
func (s *Service) Stopped() bool {
	return s.aborted() != nil || errors.Is(s.sequencer.Err(), ordering.ErrStopped)
}
