package ordering_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// A transfer is number 5 of one account and number 9 of another.
func ExampleEvent() {
	transfer := ordering.Event{
		Type: "transfer",
		Positions: []ordering.Position{
			{Stream: lockkeys.Must("client", "42", "account", "7"), Number: 5},
			{Stream: lockkeys.Must("client", "8", "account", "1"), Number: 9},
		},
		Payload: []byte(`{"amount": "12.50"}`),
	}
	fmt.Println(transfer.Validate())
	fmt.Println(transfer.Name())
	// Output:
	// <nil>
	// client/42/account/7=5, client/8/account/1=9
}

func ExampleEvent_Validate() {
	account := lockkeys.Must("account", "7")
	event := ordering.Event{ID: "t-1", Positions: []ordering.Position{
		{Stream: account, Number: 5},
		{Stream: account, Number: 6},
	}}
	err := event.Validate()
	fmt.Println(err)
	fmt.Println(errors.Is(err, ordering.ErrRepeatedStream))
	// Output:
	// ordering: event "t-1": stream account/7, number 6: two positions on one stream: an event has one number on each of its streams
	// true
}

// What a message's header says becomes the positions of an event.
func ExampleParseSequenceID() {
	positions, err := ordering.ParseSequenceID("order/1=3, client/42=17;end", lockkeys.Root())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range positions {
		fmt.Println(p.Stream, p.Number, p.End)
	}
	// Output:
	// order/1 3 false
	// client/42 17 true
}

// A bare number is one of the stream that the routing key says.
func ExampleParseSequenceID_bareNumber() {
	positions, err := ordering.ParseSequenceID("3", lockkeys.Must("order", "1"))
	fmt.Println(positions, err)

	_, err = ordering.ParseSequenceID("three", lockkeys.Must("order", "1"))
	fmt.Println(err)
	// Output:
	// [order/1=3] <nil>
	// ordering: bad X-Sequence-ID "three": at "three": number is not from 1 to 100000000000000
}

func ExampleFormatSequenceID() {
	fmt.Println(ordering.FormatSequenceID([]ordering.Position{
		{Stream: lockkeys.Must("client", "Smith, J."), Number: 4},
		{Stream: lockkeys.Must("order", "1"), Number: 2, End: true},
	}))
	// Output:
	// client/Smith%2C%20J.=4, order/1=2;end
}

// A store knows what is done, however often an event is delivered, and who may
// write.
func ExampleMemory() {
	ctx := context.Background()
	store := ordering.NewMemory()
	defer store.Close()

	account := lockkeys.Must("account", "7")
	first, err := store.Begin(ctx, ordering.Consumer{Holder: "host 1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	states, _ := first.Acquire(ctx, []lockkeys.Key{account})
	event := &ordering.Event{ID: "t-1", Positions: []ordering.Position{{Stream: account, Number: 1}}}
	job := ordering.NewJob(first, event, []int64{states[0].Fence})
	fmt.Println(store.Commit(ctx, job.Record()))
	fmt.Println(store.Commit(ctx, job.Record()))

	second, _ := store.Begin(ctx, ordering.Consumer{Holder: "host 2"})
	fmt.Println("before:", second.Info().Previous.Holder, "ended:", second.Info().Previous.Ended)
	next := &ordering.Event{Positions: []ordering.Position{{Stream: account, Number: 2}}}
	late := ordering.NewJob(first, next, []int64{states[0].Fence})
	var taken *ordering.TakenOverError
	fmt.Println(errors.As(store.Commit(ctx, late.Record()), &taken), taken.Holder)

	states, _ = second.Acquire(ctx, []lockkeys.Key{account})
	fmt.Println("last number:", states[0].Last)
	known, _ := second.Look(ctx, []ordering.Position{{Stream: account, Number: 1}})
	fmt.Println(known[0].Done, known[0].Job.Event, known[0].Job.Status, known[0].Job.Attempts)
	forgotten, _ := second.Prune(ctx, time.Now().Add(time.Hour), time.Time{})
	fmt.Println("forgotten:", forgotten)
	// Output:
	// <nil>
	// ordering: number is done already, or command is known: account/7=1
	// before: host 1 ended: false
	// true host 2
	// last number: 1
	// true t-1 applied 1
	// forgotten: 1
}
