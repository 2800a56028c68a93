package ordering

import (
	"context"

	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/ordering/internal/core"
)

// replayLocked starts a replay on a goroutine of its own.
func (s *Sequencer[T]) replayLocked(r core.Replay) {
	if s.mu.ending {
		return
	}
	s.counts.replays.Add(1)
	s.goroutines.Go(func() {
		in := core.Replayed{Range: r.Range}
		var answer Answer
		answer, in.Err = s.askReplayer(r)
		for _, r := range answer.NoSuch {
			in.NoSuch = append(in.NoSuch, r.core())
		}
		if s.background.Err() == nil {
			s.step(in)
		}
	})
}

func (s *Sequencer[T]) askReplayer(r core.Replay) (answer Answer, err error) {
	if s.cfg.Replayer == nil {
		return answer, ErrNoReplayer
	}
	missing := rangeOf(r.Range)
	missing.Before = r.Before
	deliver := func(ctx context.Context, events []*Event) error {
		_, err := s.offerAll(ctx, events, nil, r.Link+1)
		return err
	}
	err = contain.Apart(func() (err error) {
		answer, err = s.cfg.Replayer.Replay(s.background, missing, deliver)
		return err
	})
	return answer, err
}
