package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

// commit is a record that is being written to the database.
type commit struct {
	ordering.Record
	term    termOf
	numbers []number // in the order of their streams; none for a command
	ends    bool     // it is the last event of a stream
	job     []any    // the first columns of a job state, or the arguments of putCommand
	made    time.Time
	noted   bool // its job state is written when its transaction is committed
}

// number is a place of a stream that becomes done.
type number struct {
	stream string
	place  int64 // see [ordering.Position.Place]
	fence  int64
	known  int64 // every place up to it is known to be done
}

// Indexes in commit.job: of the time when the job ended, and of a command's reply.
const (
	endedAt = 10
	replyAt = 8
)

func (s *Store) newCommit(ctx context.Context, r ordering.Record) (*commit, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	t, err := s.termOf(ctx, r.Term)
	if err != nil {
		return nil, storeError("commit", err)
	}
	c := &commit{Record: r, term: t, made: time.Now()}
	if r.IsCommand() {
		c.job = commandArgs(t.consumer, r.Event.ID, r.State())
		return c, nil
	}
	c.numbers = make([]number, len(r.Event.Positions))
	for i, p := range r.Event.Positions {
		c.numbers[i] = number{stream: p.Stream.String(), place: int64(p.Place()), fence: r.Fences[i]}
		if len(r.Known) > 0 {
			c.numbers[i].known = int64(min(r.Known[i], ordering.MaxPlace))
		}
		c.ends = c.ends || p.End
	}
	slices.SortFunc(c.numbers, func(a, b number) int { return strings.Compare(a.stream, b.stream) })
	c.job = jobArgs(t.consumer, c.numbers[0].stream, c.numbers[0].place, r.State())
	return c, nil
}

// ended returns the end of the attempt, if it ends now.
func (c *commit) ended() int64 { return toMicros(c.Ended.Add(time.Since(c.made))) }

// Commit implements [ordering.Term].
func (t *term) Commit(ctx context.Context, r ordering.Record) error {
	r.Term = t.info
	return t.store.Commit(ctx, r)
}

// Commit commits a record in its own term. It is [ordering.Term].Commit for
// handlers, which have a record from [ordering.Job.Record] but no term.
func (s *Store) Commit(ctx context.Context, r ordering.Record) error {
	c, err := s.newCommit(ctx, r)
	if err != nil {
		return err
	}
	if tx := s.together(ctx); tx != nil {
		return s.doTogether(ctx, tx, c, nil)
	}
	return s.writeWith(ctx, "commit", func(ctx context.Context, tx *transaction) error { return s.backend.commit(ctx, tx, c) }, nil)
}

// Do makes the effect of a job and its record durable, either both or neither: it runs
// apply in a transaction in which the event's numbers become done, and commits. Call it
// in a handler, after reading and computing what to write. apply runs on the caller's
// goroutine during Do. It must use the transaction only for the event; it must not
// commit it or roll it back, nor write with the store, which returns
// [dispatcher.ErrNested] for its context. That context ends when ctx does, or after the
// time set by [Store.LimitEffects]; apply must return then, and counts as failed.
//
// If apply returns an error, nothing is written and Do returns that error; for
// a panic it is a [*dispatcher.PanicError]. apply must return the errors of its
// statements: on PostgreSQL nothing can be committed after one, and Do fails
// with [ErrEnded], as it does if apply ends the transaction. Other errors wrap
// [ordering.ErrDuplicate] or [ordering.ErrFenced], or are a [*ordering.StoreError],
// or come from a check at commit, such as a deferred constraint. On PostgreSQL the
// numbers are written after the effect, with the COMMIT: so apply may have been
// called for a duplicate, and what it has written is rolled back. If the connection
// is lost during the commit, the transaction may have been committed all the same;
// then the next attempt correctly finds a duplicate.
//
// A handler that returns nil after Do has failed says that the event needs no effect: its
// numbers become done without one. So it must return the error, unless it means that.
//
// The handler must wait for Do: an effect that it leaves behind on another goroutine is
// rolled back, and Do fails with [ordering.ErrJobOver].
//
// apply must not release keys with [dispatcher.Release], since its effect is
// not final before the commit. A sequencer's handlers cannot; set
// dispatcher.Config.StrictLocking on a dispatcher of your own.
//
// On PostgreSQL each effect has a transaction of its own. It costs the round trips of
// its own statements and one more, and another one if the first of them is a query.
// On SQLite, which has one writer, the effects of jobs that wait at the same time
// run one after the other in one transaction:
//
//   - If one fails, all of it is rolled back, and all are called once more, so apply may
//     be called twice, with the first call and its reply rolled back. The next 256
//     effects have a savepoint each, so that effects that often fail do not make
//     others run twice.
//   - An error behind others is returned when they are committed, since it may rest on
//     what they have written.
//   - An effect may use savepoints; those left open are rolled back or released
//     with it. The first one in a store to do so is called once more, and from then
//     on all have a savepoint of their own, which takes time. Statements that would
//     end the shared transaction, or change the connection for others, are refused
//     with [ErrForbidden].
//   - An effect that makes SQLite roll back everything, by INSERT OR ROLLBACK
//     for example, fails alone.
//   - One that hangs fails when its time is over, and the others go on, while
//     Do waits for it to return. The time of an attempt
//     ([dispatcher.Config].Timeout) begins when its turn comes.
//
// An effect that only writes rows, and reads nothing in the transaction, is cheaper with
// [Store.DoRows].
func (s *Store) Do(ctx context.Context, job ordering.Commitment, apply func(ctx context.Context, tx *sql.Tx) error) error {
	if apply == nil {
		return errNoEffect
	}
	return s.do(ctx, job, func(ctx context.Context, tx *sql.Tx, _ Session) error { return apply(ctx, tx) })
}

// DoRaw is [Store.Do] for an effect that uses the driver's connection instead of a
// transaction of package database/sql. It exists on PostgreSQL only, and is meant for
// drivers: package postgres makes a pgx.Tx of the connection. apply must not keep the
// connection.
func (s *Store) DoRaw(ctx context.Context, job ordering.Commitment, apply func(ctx context.Context, conn Session) error) error {
	return s.do(ctx, job, func(ctx context.Context, _ *sql.Tx, session Session) error {
		if session == nil {
			return fmt.Errorf("sqlstore: effects on SQLite have no connection of their own: %w", errors.ErrUnsupported)
		}
		return apply(ctx, session)
	})
}

func (s *Store) do(ctx context.Context, job ordering.Commitment, apply func(ctx context.Context, tx *sql.Tx, session Session) error) error {
	c, err := s.newCommit(ctx, job.Record())
	if err != nil {
		return err
	}
	own, replied := s.together(ctx), job.Replied()
	effect := func(ctx context.Context, tx *sql.Tx) error {
		began := time.Now()
		job.Reply(replied) // an effect that is called once more has not replied yet
		err := apply(effectContext{ctx, s}, tx, own.session)
		if err == nil {
			err = job.Over() // it is of a goroutine that the handler has left behind
		}
		if err != nil {
			return err
		}
		return c.amend(ctx, tx, job.Replied(), time.Since(began))
	}
	if own != nil {
		err = s.doTogether(ctx, own, c, effect)
	} else {
		err = s.writeWith(ctx, "commit", func(ctx context.Context, tx *transaction) error {
			own = tx
			c.job[endedAt] = c.ended()
			return s.backend.commit(ctx, tx, c)
		}, effect)
	}
	if err == nil {
		job.Committed()
	}
	return err
}

// amend adds to the job state what is known only after the effect: the reply
// and, if it took long, the end.
func (c *commit) amend(ctx context.Context, tx *sql.Tx, reply []byte, took time.Duration) error {
	if len(reply) > ordering.MaxReply {
		c.Reply = reply
		return c.Validate()
	}
	if c.noted {
		c.Reply, c.job[endedAt] = reply, c.ended()
		if c.IsCommand() {
			c.job[replyAt] = reply
		}
		return nil
	}
	replies := !bytes.Equal(reply, c.Reply)
	if took < longEffect && !replies {
		return nil
	}
	// If that fails, the commit fails too and says why: the connection was lost,
	// which is not an error returned by the effect.
	if c.IsCommand() {
		_, _ = tx.ExecContext(ctx, `UPDATE ordering_commands SET ended = $1, reply = $2 WHERE consumer = $3 AND id = $4`,
			c.ended(), reply, c.term.consumer, c.Event.ID)
		return nil
	}
	_, _ = tx.ExecContext(ctx, `UPDATE ordering_jobs SET ended = $1, reply = $2 WHERE consumer = $3 AND stream = $4 AND number = $5`,
		c.ended(), reply, c.term.consumer, c.numbers[0].stream, c.numbers[0].place)
	return nil
}

// longEffect is how long an effect must take for its end to be recorded, by an extra
// statement.
const longEffect = 5 * time.Millisecond

// InTx returns a handler that does all its work in the transaction in which the event's
// numbers become done; see [Store.Do]. Package postgres has one for transactions of
// pgx, with fewer round trips. With [Store.Together] the events that wait for each
// other share one. On SQLite such handlers run one at a time: use Do for one that
// computes for long, or waits. It panics if the store or the handler is nil.
func InTx[T any](s *Store, handler func(ctx context.Context, tx *sql.Tx, job ordering.Job[T]) error) ordering.Handler[T] {
	if s == nil || handler == nil {
		panic("sqlstore: InTx: the store or the handler is nil")
	}
	return func(ctx context.Context, job ordering.Job[T]) error {
		return s.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error { return handler(ctx, tx, job) })
	}
}

// commit implements backend. The record is written at once, since effects of other
// events follow in the same transaction.
func (b *sqlite) commit(ctx context.Context, tx *transaction, c *commit) error {
	var err error
	if c.IsCommand() {
		err = b.commitCommand(ctx, tx, c)
	} else {
		err = b.note(ctx, tx, c)
	}
	if err == nil && c.Held {
		err = forgetHeld(ctx, tx, c.term.consumer, c.JobState.Positions)
	}
	if err == nil && c.Marked {
		err = forgetMark(ctx, tx, c.term.consumer, c.JobState.Positions, c.Event.ID)
	}
	if err == nil {
		tx.staged.events++
	}
	return err
}

// check locks and returns the rows of the streams, with the numbers above last that are
// done, or an error if the numbers of the commit cannot become done.
func (c *commit) check(ctx context.Context, b backend, tx *transaction) ([]row, []ordering.Spans, error) {
	if err := b.inTerm(ctx, tx, c.term); err != nil {
		return nil, nil, err
	}
	streams := make([]string, len(c.numbers))
	for i, n := range c.numbers {
		streams[i] = n.stream
	}
	rows, err := b.lock(ctx, tx, c.term, streams)
	if err != nil {
		return nil, nil, err
	}
	done := make([]ordering.Spans, len(rows))
	for i, r := range rows {
		if r.spans > 0 {
			if done[i], err = loadSpans(ctx, tx, c.term.consumer, r.stream); err != nil {
				return nil, nil, err
			}
		}
		if err := c.fits(ctx, b, tx, c.numbers[i], r, done[i]); err != nil {
			return nil, nil, err
		}
	}
	return rows, done, nil
}

// fits returns an error unless a number of the commit can become done in its stream,
// of which done are the numbers above last that are done.
func (c *commit) fits(ctx context.Context, b backend, tx *transaction, n number, r row, done ordering.Spans) error {
	if !b.fences(c.term, r, n.fence) {
		return c.term.fenced(ctx, tx, r.stream, n.fence)
	}
	if err := r.knows(uint64(n.known)); err != nil {
		return err
	}
	if place := uint64(n.place); place <= r.last || done.Contains(place) {
		return fmt.Errorf("%w: %s, place %d", ordering.ErrDuplicate, r.stream, place)
	}
	return nil
}

// knows returns an error if the caller knows numbers to be done that are not done in
// the row: then the store has lost them.
func (r row) knows(known uint64) error {
	if known <= r.last {
		return nil
	}
	key, err := lockkeys.Parse(r.stream)
	if err != nil {
		return err
	}
	return &ordering.LostError{Stream: key, Known: known, Has: r.last}
}

// Skip implements [ordering.Term].
func (t *term) Skip(ctx context.Context, k ordering.Skipped) error {
	if err := k.Validate(); err != nil {
		return err
	}
	stream := k.Stream.String()
	return t.write(ctx, "skip", func(ctx context.Context, tx *transaction) error {
		rows, err := t.store.backend.lock(ctx, tx, t.termOf, []string{stream})
		if err != nil {
			return err
		}
		r := rows[0]
		if !t.store.backend.fences(t.termOf, r, k.Fence) {
			return t.fenced(ctx, tx, stream, k.Fence)
		}
		if err := r.knows(k.Known); err != nil {
			return err
		}
		done, err := loadSpans(ctx, tx, t.consumer, stream)
		if err != nil {
			return err
		}
		all := ordering.Span{From: k.From, To: k.To}
		if err := writeDone(ctx, tx, t.consumer, r, done, all); err != nil {
			return err
		}
		if all.From = max(all.From, r.last+1); all.From > all.To {
			return nil
		}
		for _, part := range done.Without(all) {
			if _, err := tx.ExecContext(ctx, putSkip, t.consumer, stream, int64(part.From), int64(part.To), clean(k.By), clean(k.Reason), toMicros(k.Time)); err != nil {
				return err
			}
		}
		return nil
	})
}
