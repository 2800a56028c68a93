package orderingtest

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/interlock-go/interlock/dispatcher/interlocktest"
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// partitions counts the terms of NewJob, each of which has a partition of its own.
var partitions atomic.Int64

// NewJob returns a job for a handler that the test calls by itself. The job may be
// committed to the store, as sqlstore.InTx does: it takes over the event's streams
// there. Job.Record, Job.Replied and Job.IsCommitted tell what the handler did.
func NewJob[T any](t testing.TB, store ordering.Store, e *ordering.Event, value T) ordering.Job[T] {
	t.Helper()
	term, err := store.Begin(t.Context(), ordering.Consumer{Partition: fmt.Sprintf("orderingtest %d", partitions.Add(1))})
	if err != nil {
		t.Fatal("orderingtest: ", err)
	}
	streams := make([]lockkeys.Key, len(e.Positions))
	for i, p := range e.Positions {
		streams[i] = p.Stream
	}
	states, err := term.Acquire(t.Context(), streams)
	if err != nil {
		t.Fatal("orderingtest: ", err)
	}
	fences := make([]int64, len(states))
	for i, s := range states {
		fences[i] = s.Fence
	}
	return ordering.NewJobOf(term, e, value, fences)
}

// NewCall returns a call of the handler for a job, as [interlocktest.NewStrictCall]
// does, with the claim that keys, which is Config.Keys, derives. Without keys it is the
// default: the event's streams, exclusively.
func NewCall[T any](t testing.TB, job ordering.Job[T], keys func(job ordering.Job[T], claim *lockkeys.Claim) error) *interlocktest.Call {
	t.Helper()
	var claim lockkeys.Claim
	if keys == nil {
		for _, p := range job.Event.Positions {
			claim.Exclusive(p.Stream)
		}
	} else if err := keys(job, &claim); err != nil {
		t.Fatal("orderingtest: keys: ", err)
	}
	return interlocktest.NewStrictCall(t, claim.Requests()...)
}
