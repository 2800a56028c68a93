package ordering

import (
	"context"
	"time"
)

// Handler does the work of an event. It may assume that no other handler runs
// whose lock keys conflict, and that every earlier event of its streams with
// such keys has ended.
//
// When it returns nil the event's numbers become done, in a transaction of the
// store's own that may serve many events: if the process dies in between, the
// event runs again, so the effect should be idempotent. A handler that writes
// to the store's own database avoids that by committing its effect with the
// numbers; see package sqlstore.
//
// An error, a panic or runtime.Goexit is a failed attempt; see [Config] for
// what follows. When only the commit has failed, the next attempt is at that
// alone, without the handler.
type Handler func(ctx context.Context, job Job) error

// Job is an event that is being handled. It is valid until the handler
// returns, the event beyond that.
type Job struct {
	Event *Event
	task  *task
}

// NewJob returns a job for an event outside of a [Sequencer], with the given
// fencing tokens: for tests of stores and handlers.
func NewJob(e *Event, fences []int64) Job {
	return Job{Event: e, task: &task{event: e, fences: fences, attempts: 1, started: time.Now()}}
}

// Attempt counts the calls of the handler for the event, this one included,
// and those before it was parked too.
func (j Job) Attempt() int { return j.task.attempts }

// Record returns the record of the job as processed, for a store to commit
// with the handler's effect. If the handler fails after that, the store is asked
// whether it was committed.
func (j Job) Record() Record {
	j.task.doubtful = true
	return j.task.record(Processed, "")
}

// Committed tells the sequencer that the job's record is durable, so that it
// need not commit it; the event is done then, whatever the handler returns. It
// is for stores that give handlers a transaction.
func (j Job) Committed() { j.task.committed = true }

// IsCommitted tells whether Committed was called.
func (j Job) IsCommitted() bool { return j.task.committed }
