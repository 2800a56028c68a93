package ordering

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Handler processes an event. No other handler with conflicting lock keys runs
// at the same time, and every earlier event of its streams with such keys has
// ended.
//
// When it returns nil the event's numbers become done, in a transaction of the
// store that may serve many events: if the process dies before that, the event
// runs again, so the effect should be idempotent. A handler that writes to the
// store's database can commit its effect together with the numbers instead; see
// package sqlstore.
//
// An error, a panic or runtime.Goexit is a failed attempt; see [Config] for
// what follows. If only the commit has failed, only that is repeated, without
// the handler.
type Handler[T any] func(ctx context.Context, job Job[T]) error

// Job is an event that is being handled. It is valid until the handler returns, see
// [Job.Over]; the event stays valid.
type Job[T any] struct {
	Event *Event
	// Value is the result of [Config.Decode], or the event itself without it.
	Value T

	item *item[T]
	// calls is that of the item, or nil without a [Sequencer], and call is its value
	// during the call of the handler that the job is for. So a job knows that this is
	// over without a look at the item, which other events have later.
	calls *atomic.Uint64
	call  uint64
}

// Commitment is the part of a [Job] that a store needs to commit its effect and
// its record in one transaction.
type Commitment interface {
	Record() Record
	Reply(reply []byte)
	Replied() []byte
	Committed()
	// Over returns an error that wraps [ErrJobOver] once the handler has returned:
	// then nothing may be committed.
	Over() error
}

// NewJob returns a job for an event without a [Sequencer], in a term and with
// the given fencing tokens, for tests of stores and handlers.
func NewJob(term Term, e *Event, fences []int64) Job[*Event] {
	return NewJobOf(term, e, e, fences)
}

// NewJobOf is [NewJob] with a value, for tests of handlers that have
// [Config.Decode]. See package orderingtest.
func NewJobOf[T any](term Term, e *Event, value T, fences []int64) Job[T] {
	info := term.Info()
	it := &item[T]{event: e, value: value, term: &info, attempts: 1, started: time.Now()}
	for _, p := range e.Positions {
		it.Add(p.Stream, p.Place(), p.End)
	}
	it.prepare()
	it.fences, it.known = fences, nil
	return Job[T]{Event: e, Value: value, item: it}
}

// Attempt returns the number of calls of the handler for the event, including
// this one and those before it was parked.
func (j Job[T]) Attempt() int { return j.item.attempts }

// Over implements [Commitment]. What a goroutine does with a job after its handler has
// returned, since its time was over for example, counts for nothing: the event may be
// run again by then, or have ended.
func (j Job[T]) Over() error {
	if j.calls != nil && j.calls.Load() != j.call {
		return fmt.Errorf("%w: event %.80q", ErrJobOver, j.Event.Name())
	}
	return nil
}

// ParkedAfter returns after how many calls of the handler for the event it was parked; 0 if
// it was not, or was held behind another one before it could run.
func (j Job[T]) ParkedAfter() int { return j.item.before }

// Record returns the record of the job as applied, for a store to commit with
// the handler's effect. If the handler fails after that, the store is asked
// whether it was committed. Once the handler has returned, the record is refused, with
// [ErrJobOver].
func (j Job[T]) Record() Record {
	if err := j.Over(); err != nil {
		return Record{Event: j.Event, over: err}
	}
	j.item.run.Tries()
	return j.item.record(StatusApplied, "")
}

// Reply sets the handler's reply, a copy of the bytes: it becomes JobState.Reply in the
// transaction that makes the event done, and [Outcome].Reply, also for a repeat of the
// event. It may have [MaxReply] bytes; with more, the commit is refused with
// [ErrReply]. A second call replaces the first. The reply of an attempt that fails
// counts for nothing, nor does one that comes when the handler has returned.
func (j Job[T]) Reply(reply []byte) {
	if j.Over() == nil {
		j.item.reply = bytes.Clone(reply)
	}
}

// Replied returns the reply, for stores.
func (j Job[T]) Replied() []byte {
	if j.Over() != nil {
		return nil
	}
	return j.item.reply
}

// Committed reports to the sequencer that the job's record is durable, so that
// it does not commit it; the event is done then, whatever the handler returns.
// It is for stores that give handlers a transaction.
func (j Job[T]) Committed() {
	if j.Over() == nil {
		j.item.committed = true
	}
}

// IsCommitted reports whether Committed was called.
func (j Job[T]) IsCommitted() bool { return j.item.committed }
