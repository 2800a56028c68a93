package saga

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/interlock-go/interlock/lockkeys"
)

// Run is what is known of a run.
type Run struct {
	ID         string
	Definition string
	Version    int // of the definition
	Status     Status
	Cause      string // why it is, or was, compensated
	Steps      []StepRun
	Kept       []lockkeys.Request // the keys that it keeps, or did
	State      json.RawMessage
	Started    time.Time // by Start
	Changed    time.Time // when its last event was
	Deadline   time.Time // after which it is compensated; zero for none
	ParkedAt   time.Time // zero if it is not parked
	Ended      time.Time // zero if it has not
	History    []Entry   // all that has happened; of Run and Parked only
}

// StepRun is a step of a run.
type StepRun struct {
	Name    string
	Status  StepStatus
	Order   int    // of its completion, from 1; 0 if it was not completed
	Failed  int    // attempts in a row, of doing or undoing it
	Error   string // of the last one that has failed
	Parked  bool   // the run is parked because of it
	Skipped bool   // an operator has decided that it counts as done, or as undone
}

func (r *row) run() Run {
	run := Run{
		ID: r.id, Definition: r.definition, Version: r.defVersion, Status: r.rec.Status, Cause: r.rec.Cause, Kept: r.keep, State: r.state,
		Started: r.started, Changed: r.changed, Deadline: r.deadline, ParkedAt: r.parked, Ended: r.ended,
	}
	for _, s := range r.rec.Steps {
		run.Steps = append(run.Steps, StepRun{s.Name, s.Status, s.Order, s.Failed, s.Error, s.Parked, s.Skipped})
	}
	return run
}

// Reader reads what the database has of a coordinator's runs. It needs no [Coordinator], so
// it is also for those who only look, with sqlstore.ReadOnly. Its methods are safe for
// concurrent use.
type Reader struct {
	db   *sql.DB
	name string // of the coordinator
}

// NewReader returns a Reader of the coordinator with a name, "" for "default".
func NewReader(db *sql.DB, name string) Reader { return Reader{db, cmp.Or(name, defaultName)} }

// ReaderOf returns a Reader of the coordinator that has a consumer's name in the store. It
// reports false if the consumer is none.
func ReaderOf(db *sql.DB, consumer string) (Reader, bool) {
	name, ok := strings.CutPrefix(consumer, consumerPrefix)
	return NewReader(db, name), ok
}

const consumerPrefix = "saga/"

// Consumer returns the name under which the coordinator begins its terms in the store.
func (d Reader) Consumer() string { return consumerPrefix + d.name }

// Run returns a run, with its history. It reads the database, and also finds runs that
// have ended and were not pruned. The error wraps [ErrNoRun] or that of the database.
func (d Reader) Run(ctx context.Context, id string) (Run, error) {
	r, err := d.read(ctx, id)
	if err != nil {
		return Run{}, err
	}
	run := r.run()
	if run.History, err = history(ctx, d.db, d.name, id); err != nil {
		return Run{}, fmt.Errorf("saga: history of run %.80q: %w", id, err)
	}
	return run, nil
}

// read reads a run from the database.
func (d Reader) read(ctx context.Context, id string) (*row, error) {
	found, err := rows(ctx, d.db, `SELECT `+rowColumns+` FROM saga_runs WHERE coordinator = $1 AND id = $2`, d.name, id)
	if err == nil && len(found) == 0 {
		err = ErrNoRun
	}
	if err != nil {
		return nil, fmt.Errorf("saga: run %.80q: %w", id, err)
	}
	return found[0], nil
}

// bySeq is the order of the runs, in a form for which no database goes through those that
// have ended, by the index of seq: active ones are few.
const bySeq = `+seq, id`

// Active lists the runs that have not ended, in the order in which they were started,
// limit at most, without their histories.
func (d Reader) Active(ctx context.Context, limit int) ([]Run, error) {
	return d.list(ctx, `ORDER BY `+bySeq+` LIMIT $2`, limit)
}

// Stuck lists the active runs that do not come on: those of which an attempt has failed,
// those that are parked, and those to which nothing has happened for a time. Those that
// have waited longest come first, without their histories.
func (d Reader) Stuck(ctx context.Context, quiet time.Duration) ([]Run, error) {
	return d.list(ctx, `AND (failing > 0 OR parked > 0 OR changed < $2) ORDER BY changed, seq, id`, time.Now().Add(-quiet).UnixMicro())
}

// Parked lists the runs that are parked, longest first, with their histories. They keep
// their keys until Resume, Skip or Drop.
func (d Reader) Parked(ctx context.Context) ([]Run, error) {
	list, err := d.list(ctx, `AND parked > 0 ORDER BY parked, seq, id`)
	for i := range list {
		if err == nil {
			list[i].History, err = history(ctx, d.db, d.name, list[i].ID)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("saga: list parked runs: %w", err)
	}
	return list, nil
}

// list lists active runs. All of them have a term of 0 or more; that it says so has
// databases find them by their index.
func (d Reader) list(ctx context.Context, which string, args ...any) (list []Run, err error) {
	found, err := rows(ctx, d.db, `SELECT `+rowColumns+` FROM saga_runs WHERE coordinator = $1 AND ended = 0 AND term >= 0 `+which, append([]any{d.name}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("saga: list runs: %w", err)
	}
	for _, r := range found {
		list = append(list, r.run())
	}
	return list, nil
}

// Decision is what an operator decided about a run: by [Coordinator.Resume], Skip or Drop,
// or with [dispatcher.WithOperator] by Undo or Cancel.
type Decision struct {
	Saga string // the ID of the run
	Entry
}

// Decisions lists what operators decided before a time, newest first, limit at most. It
// looks through all histories.
func (d Reader) Decisions(ctx context.Context, before time.Time, limit int) (list []Decision, err error) {
	found, err := d.db.QueryContext(ctx, `SELECT id, n, type, at, step, attempt, error, operator, why FROM saga_history
		WHERE coordinator = $1 AND at < $2 AND (type IN ($3, $4, $5) OR type = $6 AND operator <> '') ORDER BY at DESC, id, n LIMIT $7`,
		d.name, toMicros(before), SagaResumed, SagaSkipped, SagaDropped, CompensationStarted, limit)
	if err != nil {
		return nil, fmt.Errorf("saga: list decisions: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var next Decision
		var at int64
		if err := found.Scan(&next.Saga, &next.N, &next.Type, &at, &next.Step, &next.Attempt, &next.Error, &next.Operator, &next.Why); err != nil {
			return nil, fmt.Errorf("saga: list decisions: %w", err)
		}
		next.Time = fromMicros(at)
		list = append(list, next)
	}
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("saga: list decisions: %w", err)
	}
	return list, nil
}
