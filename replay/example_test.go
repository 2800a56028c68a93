package replay_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// A backup channel that has one of three events, and the producer's log, which
// knows that another one never existed.
func Example() {
	order := lockkeys.Must("order", "7")
	event := func(n uint64) *ordering.Event {
		return &ordering.Event{Type: "order changed", Positions: []ordering.Position{{Stream: order, Number: n}}}
	}
	backup := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (replay.Answer, error) {
		if asked.From > 5 {
			return replay.Answer{}, nil // it has nothing of that
		}
		return replay.Answer{Events: []*ordering.Event{event(5)}}, nil
	})
	log := replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
		return replay.Answer{
			Events: []*ordering.Event{event(7)},
			NoSuch: []ordering.Range{{Stream: order, From: 6, To: 6}},
		}, nil
	})

	r, err := replay.New(replay.Config{Sources: []replay.NamedSource{
		{Name: "backup channel", Source: backup, Copy: true},
		{Name: "event log", Source: log},
	}})
	if err != nil {
		panic(err)
	}
	missing := ordering.Range{Stream: order, From: 5, To: 7}
	answer, err := r.Replay(context.Background(), missing, func(_ context.Context, events []*ordering.Event) error {
		for _, e := range events {
			fmt.Println("came:", e.Name())
		}
		return nil
	})
	fmt.Println("never existed:", answer.NoSuch, err)
	// Output:
	// came: order/7=5
	// came: order/7=7
	// never existed: [order/7: 6] <nil>
}

// What could not be had is named, with what each source said.
func ExampleUnansweredError() {
	log := replay.SourceFunc(func(context.Context, ordering.Range) (replay.Answer, error) {
		return replay.Answer{}, replay.ErrNotRetained
	})
	r, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "event log", Source: log}}})
	if err != nil {
		panic(err)
	}
	missing := ordering.Range{Stream: lockkeys.Must("order", "7"), From: 5, To: 7}
	_, err = r.Replay(context.Background(), missing, func(context.Context, []*ordering.Event) error { return nil })
	var unanswered *replay.UnansweredError
	if errors.As(err, &unanswered) {
		fmt.Println(unanswered.Missing, errors.Is(err, replay.ErrNotRetained))
	}
	// Output: [order/7: 5 to 7] true
}
