package ordering

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// loseLocked forgets streams that have another holder, or may have one. With
// them go the streams that they are tied to, by an event that was submitted,
// which will not end well, by one that the store holds, or by a parking: nothing
// is left in memory of which only a part is ours. What waits is given back to
// its source.
func (s *Sequencer) loseLocked(a *after, streams ...*stream) {
	for len(streams) > 0 {
		st := streams[len(streams)-1]
		streams = streams[:len(streams)-1]
		if st.gone {
			continue
		}
		s.forgetLocked(st)
		st.lost.Store(true)
		s.mu.idle.remove(st)
		s.closeGapLocked(st, a)
		s.cfg.Logger.Warn("stream was taken over by another holder", "stream", st.key.String())
		if st.fed > 0 || st.heldFrom.Load() != notHeld {
			s.lookLaterLocked(st.key)
		}
		for _, e := range st.window.entries[st.window.head:] {
			if e.task != nil {
				streams = append(streams, e.task.streams()...)
			}
		}
		if p := st.parking; p != nil {
			streams = append(streams, s.endParkingLocked(p)...)
		}
		for _, t := range st.early {
			s.leaveEarlyLocked(t)
			s.lookAgainLocked(t, a)
			if t.held { // it comes back from the store, on all its streams
				streams = append(streams, t.streams()...)
			}
			s.endLocked(t, Outcome{Unfinished, ErrFenced}, a)
		}
	}
}

func (s *Sequencer) lose(streams ...*stream) {
	var a after
	s.mu.Lock()
	s.loseLocked(&a, streams...)
	s.mu.Unlock()
	s.do(&a)
}

func (s *Sequencer) loseParkingLocked(a *after, p *parking) {
	s.loseLocked(a, s.endParkingLocked(p)...)
}

// checkHolder looks whether a stream has another holder by now: then what is
// missing may have been done by that one, and what is early is given back.
func (s *Sequencer) checkHolder(st *stream) {
	s.mu.Lock()
	next := st.next
	s.mu.Unlock()
	states, err := s.cfg.Store.Look(s.background, []Position{{Stream: st.key, Number: next}})
	if err != nil {
		s.cfg.Logger.Warn("store could not be asked who has a stream", "stream", st.key.String(), "err", err)
		return
	}
	if states[0].Fence != st.fence {
		s.lose(st)
	}
}

// lookLaterLocked has a stream looked at again that was lost in the midst of
// what the store holds of it. Two holders that feed an event on several streams
// may each take one of them from the other, and then nobody has both. If it was
// not so, the new holder will be through with it by then.
func (s *Sequencer) lookLaterLocked(key lockkeys.Key) {
	if s.mu.lost == nil {
		s.mu.lost = map[lockkeys.Key]bool{}
	}
	s.mu.lost[key] = true
	if s.mu.look == nil && s.mu.err == nil {
		wait := s.cfg.GapTimeout + rand.N(s.cfg.GapTimeout) // two that take from each other do not do so in step
		s.mu.look = time.AfterFunc(wait, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.mu.look = nil
			s.opLocked(op{do: func(ctx context.Context) error {
				return s.surely(ctx, "look for what is held", func() error { return s.lookAtLost(ctx) })
			}})
		})
	}
}

// lookAtLost takes lost streams over again of which events are still held.
func (s *Sequencer) lookAtLost(ctx context.Context) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	backlog, err := s.cfg.Store.Backlog(ctx)
	if err != nil {
		return err
	}
	if backlog, err = s.owned(backlog...); err != nil {
		s.cfg.Logger.Error("Owns failed: what is held of lost streams is left alone", "err", err)
		return nil
	}
	s.mu.Lock()
	backlog = slices.DeleteFunc(backlog, func(key lockkeys.Key) bool { return !s.mu.lost[key] || s.mu.streams[key] != nil })
	s.mu.Unlock()
	if err := s.load(ctx, backlog); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.look == nil { // else there are new ones
		s.mu.lost = nil
	}
	return nil
}
