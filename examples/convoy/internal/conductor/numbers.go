package conductor

import (
	"context"
	"errors"
	"fmt"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/ordering/sqlstore"
)

// lookAtNumbers checks that each order has ended with its last number, and that
// nothing is parked.
func (r *Result) lookAtNumbers(ctx context.Context, store *sqlstore.Store) error {
	var streams []lockkeys.Key
	for _, plan := range r.Script.Orders {
		streams = append(streams, plan.Stream)
	}
	term, err := store.Begin(ctx, ordering.Consumer{Partition: "conductor"}) // all have gone home
	if err != nil {
		return err
	}
	states, err := term.Acquire(ctx, streams)
	if err != nil {
		return err
	}
	var problems []error
	for i, stream := range streams {
		last := uint64(len(r.Script.Orders[stream.String()].History))
		if states[i].Last != last || states[i].Ended != last || len(states[i].Done) > 0 {
			problems = append(problems, fmt.Errorf("%s: up to %d is done, the end is %d, and %d was sent", stream, states[i].Last, states[i].Ended, last))
		}
	}
	parked, err := term.Parked(ctx)
	if len(parked) > 0 {
		problems = append(problems, fmt.Errorf("%d parkings, the first one: %s", len(parked), parked[0].Error))
	}
	r.check(errors.Join(problems...), "every order ended with its last number, and none parked")
	return err
}
