package saga

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/internal/contain"
	"github.com/interlock-go/interlock/lockkeys"
)

// Do calls do while it holds the lock keys of a claim, shared or exclusive, as if it were
// a saga of one step: no run that keeps conflicting keys, and no step that takes them, is
// under way meanwhile. It waits for those that came before. The claim has keys of steps,
// or others, but not both, see [Roots]; else the error is a [*KeysError]. The context of
// do ends with ctx.
//
// It waits at most until ctx ends, unless do has begun. The error is that of do, of ctx, or
// of [Coordinator.Err]; in a step it is [dispatcher.ErrNested].
func (c *Coordinator) Do(ctx context.Context, claim func(*lockkeys.Claim), do func(ctx context.Context) error) error {
	if claim == nil || do == nil {
		return errors.New("saga: Do: claim or do is nil")
	}
	var requests []lockkeys.Request
	err := contain.Apart(func() (err error) {
		requests, err = derive(func(c *lockkeys.Claim) error { claim(c); return nil })
		return err
	})
	if err == nil {
		err = c.roots.checkMixed("Do", requests)
	}
	if err != nil {
		return err
	}
	if c.d.Nested(ctx) {
		return dispatcher.ErrNested
	}
	turn := make(chan struct{}, 1) // taken by the message when it begins, or by this call when it gives up
	turn <- struct{}{}
	var result error
	ticket, err := c.d.Go(ctx, &message{name: "a function of Do", claim: requests, serve: func(own context.Context) error {
		select {
		case <-turn:
		default:
			return nil
		}
		if result = c.Err(); result != nil {
			return nil
		}
		own, cancel := context.WithCancelCause(own)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		defer cancel(nil)
		result = contain.Apart(func() error { return do(own) })
		return nil
	}})
	if err != nil {
		return cmp.Or(c.Err(), err)
	}
	if err = ticket.Wait(ctx); ctx.Err() != nil {
		select {
		case <-turn:
			return ctx.Err()
		default:
			<-ticket.Done()
			err = ticket.Err()
		}
	}
	return cmp.Or(result, c.result(err))
}

// result converts the result of a message, which is an error only if it did not run.
func (c *Coordinator) result(err error) error {
	if err == nil {
		return nil
	}
	return cmp.Or(c.Err(), err)
}

// Write runs write in a transaction of the store in the coordinator's term, and commits
// it: it is refused, with an error that wraps [ordering.ErrFenced], once another
// coordinator has taken over. It is for functions of [Coordinator.Do].
func (c *Coordinator) Write(ctx context.Context, write func(ctx context.Context, tx *sql.Tx) error) error {
	return c.cfg.Store.WriteIn(ctx, c.term, write)
}
