package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// order makes an event of an order, as its producer numbers it.
func order(number uint64, text string) *ordering.Event {
	return &ordering.Event{
		Positions: []ordering.Position{{Stream: lockkeys.Must("order", "7"), Number: number}},
		Payload:   []byte(text),
	}
}

func show(_ context.Context, job ordering.Job[*ordering.Event]) error {
	fmt.Printf("%s: %s\n", job.Event.Name(), job.Event.Payload)
	return nil
}

// Events that come late, early and twice are handled once and in order.
func Example() {
	ctx := context.Background()
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{Store: ordering.NewMemory(), Handler: show})
	if err != nil {
		panic(err)
	}
	for _, e := range []*ordering.Event{order(2, "paid"), order(1, "created"), order(2, "paid"), order(3, "shipped")} {
		// A source acknowledges the event when its outcome says so.
		err := seq.Offer(ctx, e, func(_ *ordering.Event, o ordering.Outcome) { _ = o.Ack() })
		if err != nil {
			panic(err)
		}
	}
	fmt.Println(seq.Drain(ctx), seq.Close())
	stats := seq.Stats()
	fmt.Println(stats.Applied, "applied,", stats.Duplicates, "duplicate")
	// Output:
	// order/7=1: created
	// order/7=2: paid
	// order/7=3: shipped
	// <nil> <nil>
	// 3 applied, 1 duplicate
}

// What has not come within the grace time is asked for. Number 3 never
// existed, as the source knows, and is skipped with a record.
func ExampleReplayerFunc() {
	ctx := context.Background()
	source := func(ctx context.Context, missing ordering.Range, deliver func(context.Context, []*ordering.Event) error) (ordering.Answer, error) {
		fmt.Println("asked for", missing)
		stream := missing.Stream
		return ordering.Answer{NoSuch: []ordering.Range{{Stream: stream, From: 3, To: 3}}}, deliver(ctx, []*ordering.Event{order(2, "paid")})
	}
	store := ordering.NewMemory()
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store: store, Handler: show, Replayer: ordering.ReplayerFunc(source), GapTimeout: 10 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	_, err = seq.OfferBatch(ctx, []*ordering.Event{order(1, "created"), order(4, "shipped")}, nil)
	fmt.Println(err, seq.Drain(ctx), seq.Close())
	term, err := store.Begin(ctx, ordering.Consumer{Partition: "to look"})
	if err != nil {
		panic(err)
	}
	known, err := term.Look(ctx, []ordering.Position{{Stream: lockkeys.Must("order", "7"), Number: 3}})
	fmt.Println(known[0].Job.Status, err)
	// Unordered output:
	// order/7=1: created
	// asked for order/7: 2 to 3
	// order/7=2: paid
	// order/7=4: shipped
	// <nil> <nil> <nil>
	// skipped <nil>
}

// An event that fails parks its stream: what comes behind it is held by the
// store, until an operator has mended the cause.
func ExampleSequencer_Resume() {
	ctx := context.Background()
	outOfPaper := true
	seq, err := ordering.New(ctx, ordering.Config[*ordering.Event]{
		Store:  ordering.NewMemory(),
		Logger: slog.New(slog.DiscardHandler),
		Handler: func(ctx context.Context, job ordering.Job[*ordering.Event]) error {
			if outOfPaper {
				return errors.New("out of paper")
			}
			return show(ctx, job)
		},
		FailureFor: func(ordering.Job[*ordering.Event], error) dispatcher.FailurePolicy { return dispatcher.Park },
	})
	if err != nil {
		panic(err)
	}
	_, err = seq.OfferBatch(ctx, []*ordering.Event{order(1, "created"), order(2, "paid")}, func(e *ordering.Event, o ordering.Outcome) {
		fmt.Println(e.Name(), "is", o.Result)
	})
	fmt.Println(err, seq.Drain(ctx)) // all have their outcomes, and can be acknowledged

	parked, err := seq.Parked(ctx)
	fmt.Println(len(parked), "parked:", parked[0].Streams[0], parked[0].Reason, err)

	outOfPaper = false
	resumed := seq.Resume(ctx, lockkeys.Must("order", "7"))
	offered := seq.Offer(ctx, order(3, "shipped"), nil)
	fmt.Println(resumed, offered, seq.Drain(ctx), seq.Close())
	// Output:
	// order/7=1 is held
	// order/7=2 is held
	// <nil> <nil>
	// 1 parked: order/7=1 failure <nil>
	// order/7=1: created
	// order/7=2: paid
	// order/7=3: shipped
	// <nil> <nil> <nil> <nil>
}

// A request with an idempotency key is a command: an event with an ID and no
// numbers. Sent again, it is not applied again, and gets the same reply.
func ExampleSequencer_Do() {
	balance := 0
	seq, err := ordering.New(context.Background(), ordering.Config[int]{
		Store:  ordering.NewMemory(),
		Decode: func(e *ordering.Event) (int, error) { return strconv.Atoi(string(e.Payload)) },
		Keys: func(_ ordering.Job[int], claim *lockkeys.Claim) error {
			claim.Exclusive(lockkeys.Must("account", "7"))
			return nil
		},
		Handler: func(_ context.Context, job ordering.Job[int]) error {
			balance += job.Value
			job.Reply(fmt.Appendf(nil, "balance %d", balance))
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer seq.Close()
	for _, amount := range []string{"10", "10", "99"} {
		o, err := seq.Do(context.Background(), &ordering.Event{ID: "request-1", Payload: []byte(amount)})
		fmt.Println(o.Result, string(o.Reply), errors.Is(err, ordering.ErrContradiction))
	}
	// Output:
	// applied balance 10 false
	// duplicate balance 10 false
	// refused  true
}
