package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/interlock-go/interlock/ordering"
)

// isOfBrief reports whether a record is of a stream of which brief ones are written.
func (c *commit) isOfBrief() bool { return c.Brief && len(c.numbers) == 1 }

// Invariant: of a stream, the job states of brief records that are in the table are those
// whose next number is not done: of the last number, and of the last ones of its spans.
// The column pruned is at least as large as any number whose job state is missing.

// forgetBrief deletes the job state of a number, if it is one of a brief record.
const forgetBrief = `DELETE FROM ordering_jobs WHERE consumer = $1 AND stream = $2 AND number = $3 AND ` + isBrief

// isBrief is [ordering.Record.IsBrief] of a row.
const isBrief = `status = 1 AND attempts <= 1 AND positions = '' AND decider = '' AND reply IS NULL`

// writeBrief writes the job states of a stream with brief records, which is to be written
// next, as far as they are needed, and deletes those that are not needed any more. It
// returns the value of pruned; 0 for another stream.
func (s *session) writeBrief(ctx context.Context, tx *transaction, key streamOf, n *numbered) (pruned int64, err error) {
	commits := s.brief[key]
	if len(commits) == 0 {
		return 0, nil
	}
	for _, c := range commits {
		if !c.IsBrief() || n.stands(uint64(c.numbers[0].place)) {
			s.queue.add(jobRows, c.jobRow())
		}
		pruned = max(pruned, c.numbers[0].place-1)
	}
	for _, old := range append(slices.Clone(n.was), ordering.Span{To: n.wrote}) {
		if old.To == 0 || n.stands(old.To) {
			continue
		}
		if _, err := tx.ExecContext(ctx, forgetBrief, key.consumer, key.stream, int64(old.To)); err != nil {
			return 0, err
		}
	}
	return pruned, nil
}

// stands reports whether the number behind a done one is not done.
func (n *numbered) stands(number uint64) bool {
	return number >= n.last && !n.done.Contains(number+1)
}

// prunedTo notes up to which number job states may be missing.
func prunedTo(ctx context.Context, tx *transaction, s streamOf, number int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET pruned = $1 WHERE consumer = $2 AND stream = $3 AND pruned < $1`, number, s.consumer, s.stream)
	return err
}

// forgetBriefs is writeBrief's part on PostgreSQL: of numbers $3 of streams $2 that are
// done, it deletes the job states that are not needed any more, and notes that those up
// to $4 may be missing. Its rows of streams are locked already.
const forgetBriefs = `WITH pruned AS (
		UPDATE ordering_streams s SET pruned = w.pruned
		FROM (SELECT stream, max(pruned) AS pruned FROM unnest($2::text[], $4::bigint[]) l (stream, pruned) GROUP BY stream) w
		WHERE s.consumer = $1 AND s.stream = w.stream AND s.pruned < w.pruned
	)
	DELETE FROM ordering_jobs j USING unnest($2::text[], $3::bigint[]) w (stream, number), ordering_streams s
	WHERE j.consumer = $1 AND j.stream = w.stream AND j.number = w.number AND ` + isBrief + `
		AND s.consumer = $1 AND s.stream = w.stream AND (s.last > w.number OR EXISTS (SELECT FROM ordering_done d
			WHERE d.consumer = $1 AND d.stream = w.stream AND d.last > w.number AND d.first = (
				SELECT max(first) FROM ordering_done b WHERE b.consumer = $1 AND b.stream = w.stream AND b.first <= w.number)))`

// brief is what may be deleted with a transaction: the arguments of forgetBriefs.
type brief struct {
	streams         []string
	numbers, pruned []int64
}

// leaveOut returns the commits whose job states are to be written: all but brief ones
// that are followed by another one. It notes what may be deleted by then: what
// comes before a run of commits, and its last one, if the next number was done before.
func (b *brief) leaveOut(commits []*commit) []*commit {
	var of, written []*commit
	for _, c := range commits {
		if c.isOfBrief() {
			of = append(of, c)
		} else {
			written = append(written, c)
		}
	}
	slices.SortFunc(of, func(a, b *commit) int {
		return cmp.Or(cmp.Compare(a.numbers[0].stream, b.numbers[0].stream), cmp.Compare(a.numbers[0].place, b.numbers[0].place))
	})
	for i, c := range of {
		stream, number := c.numbers[0].stream, c.numbers[0].place
		if i == 0 || !c.follows(of[i-1]) {
			b.add(stream, number-1, number-1)
		}
		followed := i+1 < len(of) && of[i+1].follows(c)
		if !followed {
			b.add(stream, number, number-1)
		}
		if !followed || !c.IsBrief() {
			written = append(written, c)
		}
	}
	return written
}

// follows reports whether the number of c is the next one of its stream after another.
func (c *commit) follows(other *commit) bool {
	return c.numbers[0].stream == other.numbers[0].stream && c.numbers[0].place == other.numbers[0].place+1
}

func (b *brief) add(stream string, number, pruned int64) {
	b.streams, b.numbers, b.pruned = append(b.streams, stream), append(b.numbers, number), append(b.pruned, pruned)
}
