package saga

import (
	"context"
	"database/sql"
	"time"

	"github.com/interlock-go/interlock/dispatcher/view"
)

// measured returns an action of a step that tells how long its calls take, if somebody wants
// to know.
func (c *Coordinator) measured(d *definition, do action) action {
	if c.cfg.Measure == nil {
		return do
	}
	return func(ctx context.Context, tx *sql.Tx, call Call, state []byte) ([]byte, error) {
		began := time.Now()
		after, err := do(ctx, tx, call, state)
		m := view.Step{Saga: d.name, Name: call.Step, Undo: call.Undo, Took: time.Since(began)}
		if !isWait(err) {
			m.Err = err
		}
		c.cfg.Measure(m)
		return after, err
	}
}
