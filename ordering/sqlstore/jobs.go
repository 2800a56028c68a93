package sqlstore

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

const (
	jobColumns = `stream, number, event, hash, positions, status, attempts, error, started, ended`

	replaceJob = `ON CONFLICT (stream, number) DO UPDATE SET event = excluded.event, hash = excluded.hash, positions = excluded.positions,
		status = excluded.status, attempts = excluded.attempts, error = excluded.error, started = excluded.started, ended = excluded.ended`

	// putJob keeps the job state of an event whose numbers become done, so that
	// what it replaces is that of one that had failed.
	putJob = `INSERT INTO ordering_jobs (` + jobColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ` + replaceJob

	// putFailed keeps that of one that failed, unless the number is done.
	putFailed = putJob + ` WHERE ordering_jobs.status = $6`

	replaceNumber = `ON CONFLICT (stream, number) DO UPDATE SET of_stream = excluded.of_stream, of_number = excluded.of_number`
	putNumber     = `INSERT INTO ordering_job_numbers (stream, number, of_stream, of_number) VALUES ($1, $2, $3, $4) ` + replaceNumber

	putSkip = `INSERT INTO ordering_skips (stream, first, last, reason, ended) VALUES ($1, $2, $3, $4, $5)`
)

// jobArgs are the arguments of putJob. The positions of an event that has just
// the one that it is kept under are left out, which is most events.
func jobArgs(stream string, number int64, j ordering.JobState) []any {
	positions := ""
	if len(j.Positions) != 1 || j.Positions[0].End {
		text, _ := json.Marshal(j.Positions) // of text and numbers: it cannot fail
		positions = string(text)
	}
	hash := j.Hash[:]
	if j.Hash == (ordering.Hash{}) {
		hash = []byte{}
	}
	return []any{stream, number, j.Event, hash, positions, int64(j.Status), int64(j.Attempts), clean(j.Error),
		toMicros(j.Started), toMicros(j.Ended)}
}

// putJob keeps the job state, and under which other numbers it is found.
func (c *commit) putJob(ctx context.Context, tx *transaction) error {
	if _, err := tx.ExecContext(ctx, putJob, c.job...); err != nil {
		return err
	}
	for i, stream := range c.streams[1:] {
		if _, err := tx.ExecContext(ctx, putNumber, stream, c.numbers[i+1], c.streams[0], c.numbers[0]); err != nil {
			return err
		}
	}
	return nil
}

// putJobFailed keeps the job state of an event of a parking.
func putJobFailed(ctx context.Context, tx *transaction, at place, j ordering.JobState) error {
	_, err := tx.ExecContext(ctx, putFailed, jobArgs(at.stream, at.number, j)...)
	return err
}

// place is a number of a stream.
type place struct {
	stream string
	number int64
}

// firstOf is what a job state is kept under.
func firstOf(positions []ordering.Position) place {
	return slices.MinFunc(placesOf(positions), func(a, b place) int { return strings.Compare(a.stream, b.stream) })
}

func placesOf(positions []ordering.Position) []place {
	places := make([]place, len(positions))
	for i, p := range positions {
		places[i] = place{p.Stream.String(), int64(p.Number)}
	}
	return places
}

// lookUp is the query for what is known of numbers that are wanted, a relation w
// of places, streams and numbers.
func lookUp(wanted, fence string) string {
	if !strings.Contains(wanted, " AS w ") {
		wanted += " AS w"
	}
	return `SELECT w.place, ` + fence + `,
			w.number <= coalesce(s.last, 0) OR EXISTS (SELECT 1 FROM ordering_done d WHERE d.stream = w.stream AND d.last >= w.number
				AND d.first = (SELECT max(first) FROM ordering_done b WHERE b.stream = w.stream AND b.first <= w.number)),
			coalesce(k.first, 0), coalesce(k.last, 0), coalesce(k.reason, ''), coalesce(k.ended, 0),
			coalesce(j.stream, ''), coalesce(j.number, 0), coalesce(j.event, ''), j.hash, coalesce(j.positions, ''), coalesce(j.status, 0),
			coalesce(j.attempts, 0), coalesce(j.error, ''), coalesce(j.started, 0), coalesce(j.ended, 0)
		FROM ` + wanted + `
		LEFT JOIN ordering_streams s ON s.stream = w.stream
		LEFT JOIN ordering_job_numbers n ON n.stream = w.stream AND n.number = w.number
		LEFT JOIN ordering_jobs j ON j.stream = coalesce(n.of_stream, w.stream) AND j.number = coalesce(n.of_number, w.number)
		LEFT JOIN ordering_skips k ON k.stream = w.stream AND k.last >= w.number
			AND k.first = (SELECT max(first) FROM ordering_skips b WHERE b.stream = w.stream AND b.first <= w.number)
		ORDER BY w.place`
}

// Look implements [ordering.Store].
func (s *Store) Look(ctx context.Context, positions []ordering.Position) (states []ordering.NumberState, err error) {
	if err := s.enterToWrite(ctx); err != nil { // it waits for writes
		return nil, err
	}
	defer s.gate.leave()
	err = s.backend.look(ctx, positions, func(scan func(...any) error) error {
		var n ordering.NumberState
		var j ordering.JobState
		var skip ordering.Skipped
		var place, number, skipped, started, ended int64
		var stream, of string
		var hash []byte
		err := scan(&place, &n.Fence, &n.Done, &skip.From, &skip.To, &skip.Reason, &skipped,
			&stream, &number, &j.Event, &hash, &of, &j.Status, &j.Attempts, &j.Error, &started, &ended)
		if err != nil {
			return err
		}
		at := positions[len(states)]
		switch {
		case skip.From > 0:
			skip.Stream, skip.Time = at.Stream, fromMicros(skipped)
			j = skip.JobState()
			n.Job = &j
		case j.Status == 0, n.Done && j.Status == ordering.Failed: // of another event, then
		default:
			copy(j.Hash[:], hash)
			j.Started, j.Ended = fromMicros(started), fromMicros(ended)
			j.Positions, err = jobPositions(stream, number, of)
			n.Job = &j
		}
		states = append(states, n)
		return err
	})
	return states, storeError("look", err)
}

func jobPositions(stream string, number int64, text string) (positions []ordering.Position, err error) {
	if text != "" {
		return positions, json.Unmarshal([]byte(text), &positions)
	}
	key, err := lockkeys.Parse(stream)
	return []ordering.Position{{Stream: key, Number: uint64(number)}}, err
}

// pruneBatch is how many job states are deleted in one transaction, so that
// others need not wait for long.
const pruneBatch = 1000

// Prune implements [ordering.Store].
func (s *Store) Prune(ctx context.Context, before time.Time) (total int64, err error) {
	for {
		n := 0
		err := s.write(ctx, "prune", func(ctx context.Context, tx *transaction) (err error) {
			n, err = prune(ctx, tx, before)
			return err
		})
		if err != nil {
			return total, storeError("prune", err)
		}
		if total += int64(n); n == 0 {
			return total, nil
		}
	}
}

// prune deletes some of what ended before a time, and returns how many.
func prune(ctx context.Context, tx *transaction, before time.Time) (n int, err error) {
	var gone []place             // of job states
	numbers := map[place]place{} // that refer to them
	err = each(ctx, tx, func(scan func(...any) error) error {
		var at place
		var text string
		if err := scan(&at.stream, &at.number, &text); err != nil {
			return err
		}
		gone = append(gone, at)
		if text != "" {
			positions, err := jobPositions(at.stream, at.number, text)
			for _, p := range placesOf(positions) {
				numbers[p] = at
			}
			return err
		}
		return nil
	}, `SELECT stream, number, positions FROM ordering_jobs j WHERE ended < $1
		AND NOT (status = $2 AND EXISTS (SELECT 1 FROM ordering_parked_events p WHERE p.stream = j.stream AND p.number = j.number))
		ORDER BY ended LIMIT $3`, toMicros(before), int64(ordering.Failed), pruneBatch)
	if err != nil {
		return 0, err
	}
	// In an order that is the same for all: then transactions do not deadlock.
	byPlace := func(a, b place) int {
		return cmp.Or(strings.Compare(a.stream, b.stream), cmp.Compare(a.number, b.number))
	}
	slices.SortFunc(gone, byPlace)
	for _, at := range gone {
		if _, err := tx.ExecContext(ctx, `DELETE FROM ordering_jobs WHERE stream = $1 AND number = $2`, at.stream, at.number); err != nil {
			return 0, err
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(numbers), byPlace) {
		of := numbers[p]
		if _, err := tx.ExecContext(ctx, `DELETE FROM ordering_job_numbers WHERE stream = $1 AND number = $2 AND of_stream = $3 AND of_number = $4`,
			p.stream, p.number, of.stream, of.number); err != nil {
			return 0, err
		}
	}
	skips, err := affected(tx.ExecContext(ctx, `DELETE FROM ordering_skips WHERE ended < $1`, toMicros(before)))
	return len(gone) + skips, err
}
