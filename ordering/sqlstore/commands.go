package sqlstore

import (
	"context"
	"fmt"

	"github.com/interlock-go/interlock/ordering"
)

const (
	// commandColumns are the columns that a command's job state is read from.
	commandColumns = `hash, status, attempts, error, started, ended, decider, reason, reply`

	putCommand = `INSERT INTO ordering_commands (consumer, id, hash, status, attempts, error, decider, reason, reply, started, ended)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT DO NOTHING`
)

// commandArgs are the arguments of putCommand.
func commandArgs(consumer int64, id string, j ordering.JobState) []any {
	return []any{consumer, id, hashBytes(j.Hash), int64(j.Status), int64(j.Attempts), clean(j.Error), clean(j.By), clean(j.Reason), j.Reply,
		toMicros(j.Started), toMicros(j.Ended)}
}

// commitCommand stores the job state of a command, which must not be known yet.
func (b *sqlite) commitCommand(ctx context.Context, tx *transaction, c *commit) error {
	if err := b.inTerm(ctx, tx, c.term); err != nil {
		return err
	}
	n, err := affected(tx.ExecContext(ctx, putCommand, c.job...))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: command %.80q", ordering.ErrDuplicate, c.Event.ID)
	}
	return err
}

// LookCommands implements [ordering.Term].
func (t *term) LookCommands(ctx context.Context, ids []string) ([]*ordering.JobState, error) {
	if err := t.store.enterToWrite(ctx); err != nil { // since it waits for writes
		return nil, err
	}
	defer t.store.gate.leave()
	known := make(map[string]*ordering.JobState, len(ids))
	err := t.store.backend.lookCommands(ctx, t.termOf, ids, func(scan func(...any) error) error {
		var id string
		j, err := scanCommand(scan, &id)
		known[id] = j
		return err
	})
	if err != nil {
		return nil, storeError("look up commands", err)
	}
	states := make([]*ordering.JobState, len(ids))
	for i, id := range ids {
		if j := known[id]; j != nil {
			copied := *j
			states[i] = &copied
		}
	}
	return states, nil
}

// scanCommand reads an ID and commandColumns, after some other columns.
func scanCommand(scan func(...any) error, id *string, before ...any) (*ordering.JobState, error) {
	var j ordering.JobState
	var hash []byte
	var started, ended int64
	err := scan(append(before, id, &hash, &j.Status, &j.Attempts, &j.Error, &started, &ended, &j.By, &j.Reason, &j.Reply)...)
	copy(j.Hash[:], hash)
	j.Event, j.Started, j.Ended = *id, fromMicros(started), fromMicros(ended)
	if len(j.Reply) == 0 {
		j.Reply = nil
	}
	return &j, err
}
