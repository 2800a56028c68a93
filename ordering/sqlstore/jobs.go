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

// putJob keeps the job state.
func (c *commit) putJob(ctx context.Context, tx *transaction) error {
	_, err := tx.ExecContext(ctx, putJob, c.job...)
	return err
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
			w.number <= coalesce(s.pruned, 0),
			coalesce(k.first, 0), coalesce(k.last, 0), coalesce(k.reason, ''), coalesce(k.ended, 0),
			coalesce(j.stream, ''), coalesce(j.number, 0), coalesce(j.event, ''), j.hash, coalesce(j.positions, ''), coalesce(j.status, 0),
			coalesce(j.attempts, 0), coalesce(j.error, ''), coalesce(j.started, 0), coalesce(j.ended, 0)
		FROM ` + wanted + `
		LEFT JOIN ordering_streams s ON s.stream = w.stream
		LEFT JOIN ordering_jobs j ON j.stream = w.stream AND j.number = w.number
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
		err := scan(&place, &n.Fence, &n.Done, &n.Pruned, &skip.From, &skip.To, &skip.Reason, &skipped,
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
	var gone []place             // the job states
	pruned := map[string]int64{} // the largest number of each stream that was in one
	err = each(ctx, tx, func(scan func(...any) error) error {
		var at place
		var text string
		var status ordering.Status
		if err := scan(&at.stream, &at.number, &text, &status); err != nil {
			return err
		}
		if gone = append(gone, at); status == ordering.Failed { // it has made nothing done
			return nil
		}
		positions, err := jobPositions(at.stream, at.number, text)
		for _, p := range placesOf(positions) {
			pruned[p.stream] = max(pruned[p.stream], p.number)
		}
		return err
	}, `SELECT stream, number, positions, status FROM ordering_jobs j WHERE ended < $1
		AND NOT (status = $2 AND EXISTS (SELECT 1 FROM ordering_parked_events p WHERE p.stream = j.stream AND p.number = j.number))
		ORDER BY ended LIMIT $3`, toMicros(before), int64(ordering.Failed), pruneBatch)
	if err != nil {
		return 0, err
	}
	var skips []place
	err = each(ctx, tx, func(scan func(...any) error) error {
		var at place
		var last int64
		err := scan(&at.stream, &at.number, &last)
		skips = append(skips, at)
		pruned[at.stream] = max(pruned[at.stream], last)
		return err
	}, `SELECT stream, first, last FROM ordering_skips WHERE ended < $1 ORDER BY ended LIMIT $2`, toMicros(before), pruneBatch)
	if err != nil {
		return 0, err
	}
	// In an order that is the same for all: then transactions do not deadlock.
	for _, stream := range slices.Sorted(maps.Keys(pruned)) {
		if _, err := tx.ExecContext(ctx, `UPDATE ordering_streams SET pruned = $1 WHERE stream = $2 AND pruned < $1`, pruned[stream], stream); err != nil {
			return 0, err
		}
	}
	for _, list := range []struct {
		places    []place
		statement string
	}{
		{gone, `DELETE FROM ordering_jobs WHERE stream = $1 AND number = $2`},
		{skips, `DELETE FROM ordering_skips WHERE stream = $1 AND first = $2`},
	} {
		slices.SortFunc(list.places, func(a, b place) int {
			return cmp.Or(strings.Compare(a.stream, b.stream), cmp.Compare(a.number, b.number))
		})
		for _, at := range list.places {
			if _, err := tx.ExecContext(ctx, list.statement, at.stream, at.number); err != nil {
				return 0, err
			}
		}
	}
	return len(gone) + len(skips), nil
}
