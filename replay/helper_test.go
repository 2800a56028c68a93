package replay_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

var (
	order  = lockkeys.Must("order", "7")
	other  = lockkeys.Must("order", "8")
	errOut = errors.New("connection refused")
)

// events makes the events from..to of the stream order.
func events(from, to uint64) []*ordering.Event {
	var list []*ordering.Event
	for n := from; n <= to; n++ {
		list = append(list, &ordering.Event{Positions: []ordering.Position{{Stream: order, Number: n}}})
	}
	return list
}

func rangeOf(from, to uint64) ordering.Range {
	return ordering.Range{Stream: order, From: from, To: to}
}

// step is what a scripted source answers to one request.
type step func(ctx context.Context, from, to uint64) (replay.Answer, error)

// Steps.
func gives(list ...*ordering.Event) step {
	return func(context.Context, uint64, uint64) (replay.Answer, error) { return replay.Answer{Events: list}, nil }
}

func givesAll(_ context.Context, from, to uint64) (replay.Answer, error) {
	return replay.Answer{Events: events(from, to)}, nil
}

func givesUpTo(n uint64) step {
	return func(_ context.Context, from, to uint64) (replay.Answer, error) {
		return replay.Answer{Events: events(from, min(to, from+n-1))}, nil
	}
}

func never(ranges ...ordering.Range) step {
	return func(context.Context, uint64, uint64) (replay.Answer, error) {
		return replay.Answer{NoSuch: ranges}, nil
	}
}

func fails(err error) step {
	return func(context.Context, uint64, uint64) (replay.Answer, error) { return replay.Answer{}, err }
}

func hangs(ctx context.Context, _, _ uint64) (replay.Answer, error) {
	<-ctx.Done()
	return replay.Answer{}, ctx.Err()
}

// script is a source that takes one step for each request, and the last one
// again and again.
type script struct {
	mu struct {
		sync.Mutex
		asked [][2]uint64
	}
	steps []step
}

func scripted(steps ...step) *script { return &script{steps: steps} }

func (s *script) Fetch(ctx context.Context, asked ordering.Range) (replay.Answer, error) {
	s.mu.Lock()
	next := s.steps[min(len(s.mu.asked), len(s.steps)-1)]
	s.mu.asked = append(s.mu.asked, [2]uint64{asked.From, asked.To})
	s.mu.Unlock()
	return next(ctx, asked.From, asked.To)
}

// asked returns what the source was asked for.
func (s *script) asked() [][2]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.mu.asked)
}

// inbox keeps what is delivered.
type inbox struct{ got []*ordering.Event }

func (b *inbox) deliver(_ context.Context, list []*ordering.Event) error {
	b.got = append(b.got, list...)
	return nil
}

// numbers are those of the stream order that were delivered, in order of
// delivery.
func (b *inbox) numbers() []uint64 {
	list := []uint64{}
	for _, e := range b.got {
		if p, ok := e.On(order); ok {
			list = append(list, p.Number)
		}
	}
	return list
}

func upTo(from, to uint64) []uint64 {
	list := []uint64{}
	for n := from; n <= to; n++ {
		list = append(list, n)
	}
	return list
}

func replayer(t testing.TB, cfg replay.Config) *replay.Replayer {
	t.Helper()
	r, err := replay.New(cfg)
	require.NoError(t, err)
	return r
}

// of makes named sources: the first is "a", the second "b" and so on.
func of(sources ...replay.Source) []replay.NamedSource {
	var list []replay.NamedSource
	for i, s := range sources {
		list = append(list, replay.NamedSource{Name: string(rune('a' + i)), Source: s})
	}
	return list
}
