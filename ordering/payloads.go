package ordering

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/dispatcher/view"
)

var _ view.Opener = (*Sequencer[*Event])(nil)

// Payloads implements [view.Opener]: the events of a parking, read from the store. The target
// is that of a row of the View. There are none for a gap. The error wraps [ErrNotParked] if
// there is no such parking any more.
func (s *Sequencer[T]) Payloads(ctx context.Context, target string) ([]view.Payload, error) {
	return PayloadsStored(ctx, s.term, target)
}

// sameNumber bounds the held events with one number that are read to find one of them.
const sameNumber = 16

// PayloadsStored is [Sequencer.Payloads] without a sequencer, as [ViewStored] is its View.
func PayloadsStored(ctx context.Context, r Reader, target string) (list []view.Payload, err error) {
	_, id, err := ParseTarget(target)
	if err != nil {
		return nil, err
	}
	parkings, err := r.Parked(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range parkings {
		if p.ID != id {
			continue
		}
		for _, outline := range p.Events {
			at := outline.Positions[0]
			held, err := r.Held(ctx, at.Stream, at.Place(), sameNumber, 1<<20)
			if err != nil {
				return nil, err
			}
			for _, h := range held {
				if h.Name() == outline.Name() && h.Positions[0] == at {
					list = append(list, view.Payload{Name: h.Name(), Message: h.Event})
					break
				}
			}
		}
		return list, nil
	}
	return nil, fmt.Errorf("%w: %.200q was decided meanwhile: look again", ErrNotParked, target)
}
