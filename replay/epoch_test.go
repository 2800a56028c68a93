package replay_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// A source is asked in the range's epoch, and what it answers of another one is not
// taken for an answer.
func TestReplayOfAnEpoch(t *testing.T) {
	in := func(epoch uint16, from, to uint64) ordering.Range {
		return ordering.Range{Stream: order, Epoch: epoch, From: from, To: to}
	}
	event := func(epoch uint16, n uint64) *ordering.Event {
		return &ordering.Event{Positions: []ordering.Position{{Stream: order, Epoch: epoch, Number: n}}}
	}
	var asked []ordering.Range
	answers := []replay.Answer{
		{Events: []*ordering.Event{event(0, 3)}},                                                     // refused
		{Events: []*ordering.Event{event(2, 3)}, NoSuch: []ordering.Range{in(0, 1, 9), in(2, 5, 9)}}, // 4 is left
		{Events: []*ordering.Event{event(2, 4)}},
	}
	r := replayer(t, replay.Config{Sources: of(replay.SourceFunc(func(_ context.Context, r ordering.Range) (replay.Answer, error) {
		asked = append(asked, r)
		next := answers[0]
		answers = answers[1:]
		return next, nil
	}))})
	var box inbox
	answer, err := r.Replay(t.Context(), in(2, 3, 6), box.deliver)
	require.NoError(t, err)
	assert.Equal(t, []uint64{3, 4}, box.numbers())
	assert.Equal(t, []ordering.Range{in(2, 5, 6)}, answer.NoSuch)
	assert.Equal(t, []ordering.Range{in(2, 3, 6), in(2, 3, 6), in(2, 4, 4)}, asked)

	_, err = r.Replay(t.Context(), in(2, 0, 6), box.deliver)
	require.ErrorIs(t, err, replay.ErrRange)
	require.ErrorContains(t, err, "0 to 6 of epoch 2")
}
