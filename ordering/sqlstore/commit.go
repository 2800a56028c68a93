package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/ordering"
)

// commit is a record on its way into the database.
type commit struct {
	ordering.Record
	streams []string // sorted
	numbers []int64  // in the order of streams
	fences  []int64  // likewise
	ends    bool     // it is the last event of a stream
	job     []any    // the arguments of putJob
	made    time.Time
}

func newCommit(r ordering.Record) (*commit, error) {
	if r.Event == nil {
		return nil, ordering.ErrNilEvent
	}
	positions := r.Event.Positions
	if len(r.Fences) != len(positions) || len(positions) == 0 {
		return nil, fmt.Errorf("sqlstore: commit of %.80q: %d tokens for %d positions", r.Event.Name(), len(r.Fences), len(positions))
	}
	c := &commit{
		Record: r, streams: make([]string, len(positions)), numbers: make([]int64, len(positions)),
		fences: make([]int64, len(positions)), made: time.Now(),
	}
	type part struct {
		stream        string
		number, fence int64
	}
	parts := make([]part, len(positions))
	for i, p := range positions {
		parts[i] = part{p.Stream.String(), int64(p.Number), r.Fences[i]}
		c.ends = c.ends || p.End
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.stream, b.stream) })
	for i, p := range parts {
		c.streams[i], c.numbers[i], c.fences[i] = p.stream, p.number, p.fence
	}
	c.job = jobArgs(c.streams[0], c.numbers[0], r.JobState)
	return c, nil
}

// ended is when the attempt has ended, if that is now.
func (c *commit) ended() int64 { return toMicros(c.Ended.Add(time.Since(c.made))) }

// Commit implements [ordering.Store].
func (s *Store) Commit(ctx context.Context, r ordering.Record) error {
	c, err := newCommit(r)
	if err != nil {
		return err
	}
	return s.writeWith(ctx, "commit", func(ctx context.Context, tx *transaction) error { return s.commit(ctx, tx, c) }, nil)
}

// Do makes the effect of a job and its record durable together, or neither: it
// runs apply in a transaction in which the event's numbers become done, and
// commits. It is called in a handler, once it has read and computed what it
// wants to write. apply runs on the caller's goroutine, while Do does. It must
// do with the transaction only what belongs to the event; it must not commit it
// or roll it back, nor write with the store, which gives [dispatcher.ErrNested]
// with its context. That ends with ctx, and after the time that
// [Store.LimitEffects] sets; then apply must return, and has failed.
//
// If apply gives an error, nothing is written and Do returns that error; for a
// panic it is a [*dispatcher.PanicError]. It must give the errors of its
// statements: on PostgreSQL nothing can be committed after one, and Do fails
// with [ErrEnded], as it does if apply ends the transaction. Other errors
// wrap [ordering.ErrDuplicate] or [ordering.ErrFenced], and then apply was not
// called, or are a [*ordering.StoreError], or come from what the database checks
// at the end, such as a deferred constraint. If the connection is lost at the
// very end, the transaction may have been committed all the same; then the next
// attempt finds a duplicate, which is right.
//
// apply must not give keys back with [dispatcher.Release], since nothing of its
// work is final before the commit. A sequencer's handlers cannot; a dispatcher
// of the caller's own refuses it with dispatcher.Config.StrictLocking.
//
// On PostgreSQL each effect has a transaction of its own. On SQLite, which has
// one writer, the effects of jobs that wait at the same time run one after the
// other in one transaction, each in a part that is its own:
//
//   - It may have savepoints; those left open are undone with it or kept with it.
//     What would end the shared transaction, or change the connection for
//     others, is refused with [ErrForbidden].
//   - An effect after which SQLite rolls all back, by INSERT OR ROLLBACK for
//     example, fails alone. Those beside it are called once more, so apply must
//     bear that: it may be called twice, the first time for nothing.
//   - One that hangs fails when its time is over, and the others go on, while Do
//     waits for it to return. The time of an attempt ([dispatcher.Config].Timeout)
//     begins when it is its turn.
func (s *Store) Do(ctx context.Context, job ordering.Job, apply func(ctx context.Context, tx *sql.Tx) error) error {
	c, err := newCommit(job.Record())
	if err != nil {
		return err
	}
	err = s.writeWith(ctx, "commit", func(ctx context.Context, tx *transaction) error {
		c.job[len(c.job)-1] = c.ended()
		return s.commit(ctx, tx, c)
	}, func(ctx context.Context, tx *sql.Tx) error {
		began := time.Now()
		if err := apply(effectContext{ctx, s}, tx); err != nil || time.Since(began) < longEffect {
			return err
		}
		// If that fails, so does the commit, which says why: the connection was
		// lost, or PostgreSQL takes no statement any more since one of the
		// effect's has failed. Neither is an error that the effect gave.
		_, _ = tx.ExecContext(ctx, `UPDATE ordering_jobs SET ended = $1 WHERE stream = $2 AND number = $3`, c.ended(), c.streams[0], c.numbers[0])
		return nil
	})
	if err == nil {
		job.Committed()
	}
	return err
}

// longEffect is how long an effect takes before it is worth a statement to note
// when it ended.
const longEffect = 5 * time.Millisecond

// InTx makes a handler of one that does all its work in the transaction in
// which the event's numbers become done; see [Store.Do]. On SQLite such
// handlers run one at a time: one that computes for long, or waits, is better
// written with Do.
func (s *Store) InTx(handler func(ctx context.Context, tx *sql.Tx, job ordering.Job) error) ordering.Handler {
	return func(ctx context.Context, job ordering.Job) error {
		return s.Do(ctx, job, func(ctx context.Context, tx *sql.Tx) error { return handler(ctx, tx, job) })
	}
}

// commit makes the numbers of an event done.
func (s *Store) commit(ctx context.Context, tx *transaction, c *commit) error {
	moved, err := s.backend.advance(ctx, tx, c)
	if err != nil {
		return err
	}
	if moved < len(c.streams) {
		if err := moveBack(ctx, tx, c.streams[:moved]); err != nil {
			return err
		}
		if err := s.commitOutOfOrder(ctx, tx, c); err != nil {
			return err
		}
		if err := c.putJob(ctx, tx); err != nil {
			return err
		}
	}
	if c.ends {
		for _, p := range c.Event.Positions {
			if p.End {
				if _, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET ended = $1 WHERE stream = $2`, int64(p.Number), p.Stream.String()); err != nil {
					return err
				}
			}
		}
	}
	if c.Held {
		return forgetHeld(ctx, tx, c.JobState.Positions)
	}
	return nil
}

// moveBack undoes what was done of a commit for streams.
func moveBack(ctx context.Context, tx *transaction, streams []string) error {
	for _, stream := range streams {
		if _, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET last = last - 1 WHERE stream = $1`, stream); err != nil {
			return err
		}
	}
	return nil
}

// commitOutOfOrder does so for numbers that are not all the next ones of their
// streams, or are not the caller's to commit.
func (s *Store) commitOutOfOrder(ctx context.Context, tx *transaction, c *commit) error {
	rows, err := s.backend.lock(ctx, tx, c.streams)
	if err != nil {
		return err
	}
	done := make([]ordering.Spans, len(rows))
	for i, r := range rows {
		if !s.backend.fences(r, c.fences[i]) {
			return fenced(r.stream, c.fences[i])
		}
		if r.spans > 0 {
			if done[i], err = loadSpans(ctx, tx, r.stream); err != nil {
				return err
			}
		}
		if n := uint64(c.numbers[i]); n <= r.last || done[i].Contains(n) {
			return fmt.Errorf("%w: %s, number %d", ordering.ErrDuplicate, r.stream, n)
		}
	}
	for i, r := range rows {
		n := uint64(c.numbers[i])
		if err := writeDone(ctx, tx, r, done[i], ordering.Span{From: n, To: n}); err != nil {
			return err
		}
	}
	return nil
}

// Skip implements [ordering.Store].
func (s *Store) Skip(ctx context.Context, k ordering.Skipped) error {
	if k.From == 0 || k.From > k.To || k.To > ordering.MaxNumber {
		return fmt.Errorf("sqlstore: no such range to skip: stream %s, numbers %d to %d", k.Stream, k.From, k.To)
	}
	stream := k.Stream.String()
	return s.write(ctx, "skip", func(ctx context.Context, tx *transaction) error {
		rows, err := s.backend.lock(ctx, tx, []string{stream})
		if err != nil {
			return err
		}
		r := rows[0]
		if !s.backend.fences(r, k.Fence) {
			return fenced(stream, k.Fence)
		}
		done, err := loadSpans(ctx, tx, stream)
		if err != nil {
			return err
		}
		all := ordering.Span{From: k.From, To: k.To}
		if err := writeDone(ctx, tx, r, done, all); err != nil {
			return err
		}
		if all.From = max(all.From, r.last+1); all.From > all.To {
			return nil
		}
		for _, part := range done.Without(all) {
			if _, err := tx.ExecContext(ctx, putSkip, stream, int64(part.From), int64(part.To), clean(k.Reason), toMicros(k.Time)); err != nil {
				return err
			}
		}
		return nil
	})
}
