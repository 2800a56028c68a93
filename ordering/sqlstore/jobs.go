package sqlstore

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
)

const (
	jobColumns = `consumer, stream, number, event, hash, positions, status, attempts, error, started, ended`

	// replaceJob replaces the job state of a failed attempt, if there is one.
	replaceJob = `ON CONFLICT (consumer, stream, number) DO UPDATE SET event = excluded.event, hash = excluded.hash, positions = excluded.positions,
		status = excluded.status, attempts = excluded.attempts, error = excluded.error, started = excluded.started, ended = excluded.ended,
		decider = excluded.decider, reason = excluded.reason, reply = excluded.reply`

	// putMore stores the job state of an event whose numbers become done.
	putMore = `INSERT INTO ordering_jobs (` + jobColumns + `, decider, reason, reply)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) ` + replaceJob

	// putFailed stores the job state of a failed event, unless the number is
	// done.
	putFailed = `INSERT INTO ordering_jobs (` + jobColumns + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ` + replaceJob + ` WHERE ordering_jobs.status = $7`

	putSkip = `INSERT INTO ordering_skips (consumer, stream, first, last, decider, reason, ended) VALUES ($1, $2, $3, $4, $5, $6, $7)`
)

// jobArgs are the values of jobColumns. The positions are left out for an event
// with just one, as most events have: its job state is stored under that. There is room
// for the values of putMore.
func jobArgs(consumer int64, stream string, number int64, j ordering.JobState) []any {
	positions := ""
	if len(j.Positions) != 1 || j.Positions[0].End {
		text, _ := json.Marshal(j.Positions) // of text and numbers: it cannot fail
		positions = string(text)
	}
	return append(make([]any, 0, 14), consumer, stream, number, j.Event, hashBytes(j.Hash), positions, int64(j.Status), int64(j.Attempts), clean(j.Error),
		toMicros(j.Started), toMicros(j.Ended))
}

func hashBytes(h ordering.Hash) []byte {
	if h == (ordering.Hash{}) {
		return []byte{}
	}
	return h[:]
}

// putJobFailed stores the job state of an event of a parking.
func putJobFailed(ctx context.Context, tx *transaction, consumer int64, at place, j ordering.JobState) error {
	_, err := tx.ExecContext(ctx, putFailed, jobArgs(consumer, at.stream, at.number, j)...)
	return err
}

// place is a place of a stream, see [ordering.Position.Place].
type place struct {
	stream string
	number int64
}

// firstOf returns the place that a job state is stored under.
func firstOf(positions []ordering.Position) place {
	return slices.MinFunc(placesOf(positions), func(a, b place) int { return strings.Compare(a.stream, b.stream) })
}

func placesOf(positions []ordering.Position) []place {
	places := make([]place, len(positions))
	for i, p := range positions {
		places[i] = place{p.Stream.String(), int64(p.Place())}
	}
	return places
}

// lookUp returns the query for the states of numbers of the consumer $1. The numbers
// are given as a relation w of places, streams and numbers.
func lookUp(wanted, inTerm, fence string) string {
	if !strings.Contains(wanted, " AS w ") {
		wanted += " AS w"
	}
	return `SELECT ` + inTerm + `, w.place, coalesce(s.last, 0), ` + fence + `,
			w.number <= coalesce(s.last, 0) OR EXISTS (SELECT 1 FROM ordering_done d WHERE d.consumer = $1 AND d.stream = w.stream AND d.last >= w.number
				AND d.first = (SELECT max(first) FROM ordering_done b WHERE b.consumer = $1 AND b.stream = w.stream AND b.first <= w.number)),
			w.number <= coalesce(s.pruned, 0),
			coalesce(k.first, 0), coalesce(k.last, 0), coalesce(k.decider, ''), coalesce(k.reason, ''), coalesce(k.ended, 0),
			coalesce(j.stream, ''), coalesce(j.number, 0), coalesce(j.event, ''), j.hash, coalesce(j.positions, ''), coalesce(j.status, 0),
			coalesce(j.attempts, 0), coalesce(j.error, ''), coalesce(j.started, 0), coalesce(j.ended, 0),
			coalesce(j.decider, ''), coalesce(j.reason, ''), j.reply
		FROM ` + wanted + `
		LEFT JOIN ordering_streams s ON s.consumer = $1 AND s.stream = w.stream
		LEFT JOIN ordering_jobs j ON j.consumer = $1 AND j.stream = w.stream AND j.number = w.number
		LEFT JOIN ordering_skips k ON k.consumer = $1 AND k.stream = w.stream AND k.last >= w.number
			AND k.first = (SELECT max(first) FROM ordering_skips b WHERE b.consumer = $1 AND b.stream = w.stream AND b.first <= w.number)
		ORDER BY w.place`
}

// Look implements [ordering.Term].
func (t *term) Look(ctx context.Context, positions []ordering.Position) (states []ordering.NumberState, err error) {
	if err := t.store.enterToWrite(ctx); err != nil { // since it waits for writes
		return nil, err
	}
	defer t.store.gate.leave()
	err = t.store.backend.look(ctx, t.termOf, positions, func(scan func(...any) error) error {
		var n ordering.NumberState
		var j jobRow
		var skip ordering.Skipped
		var inTerm bool
		var place, skipped int64
		err := scan(append([]any{&inTerm, &place, &n.Last, &n.Fence, &n.Done, &n.Pruned, &skip.From, &skip.To, &skip.By, &skip.Reason, &skipped}, j.columns()...)...)
		switch {
		case err != nil:
			return err
		case !inTerm:
			return errNotInTerm
		}
		at := positions[len(states)]
		switch {
		case skip.From > 0:
			skip.Stream, skip.Time = at.Stream, fromMicros(skipped)
			state := skip.JobState()
			n.Job = &state
		case j.Status == 0, n.Done && j.Status == ordering.StatusParked: // of another event, then
		default:
			n.Job, err = j.state()
		}
		states = append(states, n)
		return err
	})
	return states, storeError("look", err)
}

// jobRow is a row of the table of job states.
type jobRow struct {
	ordering.JobState
	stream, positions      string
	number, started, ended int64
	hash                   []byte
}

// columns are those of a query: the stream and the number, and what follows
// them in jobColumns, then what is in putMore.
func (j *jobRow) columns() []any {
	return []any{&j.stream, &j.number, &j.Event, &j.hash, &j.positions, &j.Status, &j.Attempts, &j.Error, &j.started, &j.ended, &j.By, &j.Reason, &j.Reply}
}

func (j *jobRow) state() (*ordering.JobState, error) {
	state := j.JobState
	copy(state.Hash[:], j.hash)
	state.Started, state.Ended = fromMicros(j.started), fromMicros(j.ended)
	if len(state.Reply) == 0 {
		state.Reply = nil
	}
	var err error
	state.Positions, err = jobPositions(j.stream, j.number, j.positions)
	return &state, err
}

func jobPositions(stream string, number int64, text string) (positions []ordering.Position, err error) {
	if text != "" {
		return positions, json.Unmarshal([]byte(text), &positions)
	}
	key, err := lockkeys.Parse(stream)
	return []ordering.Position{ordering.PositionAt(key, uint64(number))}, err
}
