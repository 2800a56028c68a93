package replay_test

import (
	"context"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay"
)

// A sequencer gets what was lost on the way from the producer's log.
func Example_sequencer() {
	order := lockkeys.Must("order", "7")
	event := func(n uint64) *ordering.Event {
		return &ordering.Event{Positions: []ordering.Position{{Stream: order, Number: n}}}
	}
	log := replay.SourceFunc(func(_ context.Context, asked ordering.Range) (a replay.Answer, err error) {
		for n := asked.From; n <= min(asked.To, asked.From+99); n++ { // 100 at a time
			a.Events = append(a.Events, event(n))
		}
		return a, nil
	})
	replayer, err := replay.New(replay.Config{Sources: []replay.NamedSource{{Name: "event log", Source: log}}})
	if err != nil {
		panic(err)
	}

	ctx := context.Background()
	last := make(chan bool)
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store:      ordering.NewMemory(),
		Replayer:   replayer,
		GapTimeout: 10 * time.Millisecond,
		Handler: func(_ context.Context, job ordering.Job[*ordering.Event]) error {
			fmt.Println(job.Event.Name())
			if p, _ := job.Event.On(order); p.Number == 4 {
				close(last)
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	for _, n := range []uint64{1, 4} { // 2 and 3 are lost
		if err := seq.Offer(ctx, event(n), nil); err != nil {
			panic(err)
		}
	}
	<-last
	fmt.Println(seq.Close())
	// Output:
	// order/7=1
	// order/7=2
	// order/7=3
	// order/7=4
	// <nil>
}
