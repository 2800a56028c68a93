package ordering

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// textError is an error of which a nil pointer has no text: its method panics.
type textError struct{ text string }

func (e *textError) Error() string { return e.text }

// TestAnErrorWithoutText: a function of the caller's returns a nil pointer as an
// error. That is a failure of its event like any other.
func TestAnErrorWithoutText(t *testing.T) {
	var nothing *textError
	bad := func(e *Event) error {
		if e.ID == "a1" {
			return nothing
		}
		return nil
	}
	for where, cfg := range map[string]Config[*Event]{
		"Handler":           {Handler: func(_ context.Context, job Job[*Event]) error { return bad(job.Event) }},
		"Handler, for good": {Handler: func(_ context.Context, job Job[*Event]) error { return dispatcher.Permanent(bad(job.Event)) }},
		"Decode":            {Decode: func(e *Event) (*Event, error) { return e, bad(e) }},
		"Keys":              {Keys: func(job Job[*Event], _ *lockkeys.Claim) error { return bad(job.Event) }},
	} {
		for policy, want := range map[dispatcher.FailurePolicy]Result{dispatcher.Park: Held, dispatcher.DeadLetter: DeadLettered} {
			t.Run(where+", "+policy.String(), func(t *testing.T) {
				cfg.Failure = policy
				story(t, cfg, func(t *testing.T, r *rig) {
					r.offer(ev("a1", "a=1"), ev("b1", "b=1"))
					assert.Equal(t, []Result{want}, r.outcome("a1"))
					assert.Equal(t, []Result{Applied}, r.outcome("b1"))
					assert.Contains(t, job(t, r.store, "a=1").Error, "nil pointer dereference")
				})
			})
		}
	}
	t.Run("Replayer", func(t *testing.T) {
		cfg := Config[*Event]{Replayer: ReplayerFunc(func(context.Context, Range, func(context.Context, []*Event) error) (Answer, error) {
			return Answer{}, nothing
		})}
		story(t, cfg, func(t *testing.T, r *rig) {
			r.offer(ev("a2", "a=2"))
			r.sleep(time.Minute)
			assert.Equal(t, []Result{Held}, r.outcome("a2"))
			require.Len(t, r.parked(), 1)
			assert.Contains(t, r.parked()[0].Error, "nil pointer dereference")
		})
	})
}
