package ordering

import (
	"context"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// replayLocked starts a replay on a goroutine of its own.
func (s *Sequencer[T]) replayLocked(missing core.Range) {
	if s.mu.ending {
		return
	}
	s.counts.replays.Add(1)
	s.goroutines.Go(func() {
		in := core.Replayed{Range: missing}
		var answer Answer
		answer, in.Err = s.askReplayer(rangeOf(missing))
		for _, r := range answer.NoSuch {
			in.NoSuch = append(in.NoSuch, r.core())
		}
		if s.background.Err() == nil {
			s.step(in)
		}
	})
}

func (s *Sequencer[T]) askReplayer(missing Range) (answer Answer, err error) {
	if s.cfg.Replayer == nil {
		return answer, ErrNoReplayer
	}
	err = contain.Apart(func() (err error) {
		answer, err = s.cfg.Replayer.Replay(s.background, missing, s.deliver)
		return err
	})
	return answer, err
}

// deliver accepts events from a replay.
func (s *Sequencer[T]) deliver(ctx context.Context, events []*Event) error {
	_, err := s.OfferBatch(ctx, events, nil)
	return err
}
