package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/ordering"
)

// Statement is a statement that the store sends with a COMMIT.
type Statement struct {
	Query string
	Args  []any
}

// Session is implemented by the connections of [Pools].Handlers.
type Session interface {
	// CommitWith allows the transaction of the connection to be committed. Without it a
	// commit rolls back, with [ErrEnded], so that an effect cannot commit its own
	// transaction. What the effect has queued, the statements and the COMMIT are sent
	// together, in one round trip, within ctx. If one fails, nothing is committed, and
	// the error of the commit is a [*StatementError], or that of the COMMIT itself.
	CommitWith(ctx context.Context, statements []Statement)
	// InDoubt reports whether the connection was lost after a COMMIT was sent, and
	// before its answer came.
	InDoubt() bool
	// Lock returns the key of an advisory lock that the server's session holds for as
	// long as it lives, and no other.
	Lock() int64
}

// StatementError is the error of a statement that was sent with a COMMIT.
type StatementError struct {
	Own bool // it is one of the store's, not of the effect
	Err error
}

// Error returns the error of the statement.
func (e *StatementError) Error() string { return e.Err.Error() }

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *StatementError) Unwrap() error { return e.Err }

// commit implements backend. The numbers are written with the COMMIT.
func (b *postgres) commit(_ context.Context, tx *transaction, c *commit) error {
	c.noted = true
	tx.commits = append(tx.commits, c)
	return nil
}

// withCommit returns the statements that write commits. Commits of one term are written
// together.
func withCommit(commits []*commit) (list []Statement) {
	for rest := commits; len(rest) > 0; {
		var part []*commit
		part, rest = ofOneTerm(rest)
		list = append(list, statements(part)...)
	}
	return list
}

func ofOneTerm(commits []*commit) (part, rest []*commit) {
	first := commits[0].term
	for _, c := range commits {
		if c.term.consumer == first.consumer && c.term.info.Partition == first.info.Partition &&
			c.term.info.Number == first.info.Number && c.term.info.Token == first.info.Token {
			part = append(part, c)
		} else {
			rest = append(rest, c)
		}
	}
	return part, rest
}

// statements are those that write commits of one term.
func statements(commits []*commit) []Statement {
	t := commits[0].term
	numbers := runsOf(commits)
	list := []Statement{{`SELECT ordering_commit($1, $2, $3, $4, $5, $6, $7, $8, $9)`, []any{t.consumer, t.info.Partition, t.info.Number, t.info.Token,
		numbers.streams, numbers.firsts, numbers.finals, numbers.fences, numbers.knowns}}}
	var jobs, commands columns
	var ended struct {
		streams []string
		numbers []int64
	}
	var marks [][]byte
	var brief brief
	for _, c := range brief.leaveOut(commits) {
		if c.IsCommand() {
			commands.add(c.job)
		} else {
			jobs.add(append(c.job, clean(c.By), clean(c.Reason), c.Reply))
		}
	}
	for _, c := range commits {
		for _, p := range c.Event.Positions {
			if p.End {
				ended.streams, ended.numbers = append(ended.streams, p.Stream.String()), append(ended.numbers, int64(p.Place()))
			}
		}
		if c.Marked {
			key := ordering.MarkOf(c.JobState.Positions, c.Event.ID)
			marks = append(marks, key[:])
		}
	}
	switch {
	case jobs.rows == 1:
		list = append(list, Statement{putMore, jobs.first})
	case jobs.rows > 1:
		list = append(list, Statement{putJobs, jobs.all()})
	}
	if len(brief.streams) > 0 {
		list = append(list, Statement{forgetBriefs, []any{t.consumer, brief.streams, brief.numbers, brief.pruned}})
	}
	if commands.rows > 0 {
		list = append(list, Statement{putCommands, commands.all()})
	}
	for _, c := range commits {
		if c.Held {
			list = append(list, Statement{forgetHeldOnce, heldArgs(t.consumer, c.JobState.Positions)})
		}
	}
	if len(ended.streams) > 0 {
		list = append(list, Statement{endStreams, []any{t.consumer, ended.streams, ended.numbers}})
	}
	if len(marks) > 0 {
		list = append(list, Statement{`DELETE FROM ordering_marks WHERE consumer = $1 AND event = ANY ($2)`, []any{t.consumer, marks}})
	}
	return list
}

const (
	// putJobs is putMore for many.
	putJobs = `INSERT INTO ordering_jobs (` + jobColumns + `, decider, reason, reply)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bytea[], $6::text[], $7::bigint[], $8::bigint[], $9::text[], $10::bigint[], $11::bigint[],
			$12::text[], $13::text[], $14::bytea[]) ` + replaceJob

	// putCommands is putCommand for many; a command that is known violates its unique
	// index. The rows are inserted in the order of their IDs, in every transaction,
	// since transactions wait for each other at these.
	putCommands = `INSERT INTO ordering_commands (consumer, id, hash, status, attempts, error, decider, reason, reply, started, ended)
		SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[], $9::bytea[], $10::bigint[], $11::bigint[]) c (consumer, id)
		ORDER BY c.id COLLATE "C"`

	endStreams = `UPDATE ordering_streams s SET ended = e.number
		FROM (SELECT stream, max(number) AS number FROM unnest($2::text[], $3::bigint[]) l (stream, number) GROUP BY stream) e
		WHERE s.consumer = $1 AND s.stream = e.stream AND s.ended < e.number`
)

// forgetHeldOnce is [forgetHeld] in one statement. Rows of streams are locked in order.
const forgetHeldOnce = `WITH wanted AS (
		SELECT * FROM unnest($2::text[], $3::bigint[]) w (stream, number)
	), found AS (
		SELECT p.id FROM ordering_held_positions p JOIN wanted w ON p.stream = w.stream AND p.number = w.number WHERE p.consumer = $1 GROUP BY p.id
		HAVING count(*) = cardinality($2::text[]) AND count(*) = (SELECT count(*) FROM ordering_held_positions a WHERE a.id = p.id)
	), events AS (
		DELETE FROM ordering_held h USING found WHERE h.id = found.id
	), less AS (
		DELETE FROM ordering_held_positions p USING found WHERE p.id = found.id RETURNING p.stream
	)
	UPDATE ordering_streams s SET held = s.held - 1
		FROM (SELECT stream FROM ordering_streams WHERE consumer = $1 AND stream = ANY ($2) ORDER BY stream FOR UPDATE) l JOIN less ON less.stream = l.stream
		WHERE s.consumer = $1 AND s.stream = l.stream`

func heldArgs(consumer int64, positions []ordering.Position) []any {
	places := placesOf(positions)
	streams, numbers := make([]string, len(places)), make([]int64, len(places))
	for i, p := range places {
		streams[i], numbers[i] = p.stream, p.number
	}
	return []any{consumer, streams, numbers}
}

// columns are the arguments of a statement for many rows, by column.
type columns struct {
	rows  int
	first []any // row
	lists []any
}

func (c *columns) add(row []any) {
	if c.rows++; c.rows == 1 {
		c.first = row
		c.lists = make([]any, len(row))
	}
	for i, value := range row {
		switch v := value.(type) {
		case int64:
			c.lists[i] = appendTo(c.lists[i], v)
		case string:
			c.lists[i] = appendTo(c.lists[i], v)
		case []byte:
			c.lists[i] = appendTo(c.lists[i], v)
		}
	}
}

func (c *columns) all() []any { return c.lists }

func appendTo[V any](list any, v V) []V {
	typed, _ := list.([]V)
	return append(typed, v)
}

// runs are ranges of numbers that become done, from firsts to finals, one stream after
// the other.
type runs struct {
	streams                        []string
	firsts, finals, fences, knowns []int64
}

// runsOf returns the numbers of commits; consecutive ones are joined to one range.
func runsOf(commits []*commit) (r runs) {
	var all []number
	for _, c := range commits {
		all = append(all, c.numbers...)
	}
	slices.SortStableFunc(all, func(a, b number) int {
		return cmp.Or(strings.Compare(a.stream, b.stream), cmp.Compare(a.place, b.place))
	})
	for _, n := range all {
		if last := len(r.streams) - 1; last >= 0 && r.streams[last] == n.stream && r.finals[last]+1 == n.place &&
			r.fences[last] == n.fence && n.known < r.firsts[last] {
			r.finals[last], r.knowns[last] = n.place, max(r.knowns[last], n.known)
			continue
		}
		r.streams = append(r.streams, n.stream)
		r.firsts, r.finals = append(r.firsts, n.place), append(r.finals, n.place)
		r.fences, r.knowns = append(r.fences, n.fence), append(r.knowns, n.known)
	}
	return r
}

// States of errors: of the functions of [byFunctions], and of putCommands for an ID
// that is known.
const (
	stateOver   = "IL001"
	stateUnique = "23505"
)

func isState(err error, state string) bool {
	var server interface{ SQLState() string }
	return errors.As(err, &server) && server.SQLState() == state
}

// refused returns the error that says why a statement of the store's own has failed.
func (b *postgres) refused(ctx context.Context, commits []*commit, cause error) error {
	if !isState(cause, stateOver) && !isState(cause, stateUnique) {
		return cause
	}
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	own := &transaction{Tx: tx}
	for _, c := range commits {
		if _, _, err := c.check(ctx, b, own); err != nil {
			return err
		}
		if c.IsCommand() {
			var known bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM ordering_commands WHERE consumer = $1 AND id = $2)`, c.term.consumer, c.Event.ID).Scan(&known)
			if err == nil && known {
				err = fmt.Errorf("%w: command %.80q", ordering.ErrDuplicate, c.Event.ID)
			}
			if err != nil {
				return err
			}
		}
	}
	return cause // two of the commits contradict each other, or it was a passing state
}
