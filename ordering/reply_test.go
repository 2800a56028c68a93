package ordering

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestAReplyIsOfTheAttemptThatSucceeded: what one that failed has replied is neither
// told nor stored.
func TestAReplyIsOfTheAttemptThatSucceeded(t *testing.T) {
	runs := 0
	cfg := Config[*Event]{Dispatcher: dispatcher.Config[Job[*Event]]{MaxAttempts: 2}, Handler: func(_ context.Context, job Job[*Event]) error {
		if runs++; runs == 1 {
			job.Reply([]byte("of the first attempt"))
			return errors.New("the connection was lost")
		}
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		for _, want := range []Outcome{{Result: Applied}, {Result: Duplicate, Status: StatusApplied}} {
			o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
			require.NoError(t, err)
			assert.Equal(t, want, o)
		}
		assert.Equal(t, 2, runs)
	})
}

// TestAReplyThatIsTooLarge: the event fails by its policy, and nothing else.
func TestAReplyThatIsTooLarge(t *testing.T) {
	refused := dispatcher.Permanent(errors.New("no such account"))
	for name, c := range map[string]struct{ err, want error }{
		"the handler succeeds": {nil, ErrReply}, "the handler fails": {refused, refused},
	} {
		for _, policy := range []dispatcher.FailurePolicy{dispatcher.Park, dispatcher.DeadLetter} {
			t.Run(name+", "+policy.String(), func(t *testing.T) {
				cfg := Config[*Event]{Failure: policy, Handler: func(_ context.Context, job Job[*Event]) error {
					job.Reply(make([]byte, MaxReply+1))
					return c.err
				}}
				story(t, cfg, func(t *testing.T, r *rig) {
					o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
					require.ErrorIs(t, err, c.want)
					assert.Empty(t, o.Reply)
					r.offer(ev("a1", "a=1"))
					if policy == dispatcher.Park {
						assert.Equal(t, []Result{Held}, r.outcome("a1"))
					} else {
						assert.Equal(t, []Result{DeadLettered}, r.outcome("a1"))
					}
					require.NoError(t, r.seq.Err())
				})
			})
		}
	}
}

// TestTheStoreIsAwayWhileAnEventIsGivenUp: the sequencer stops after StoreTimeout, with
// an error that says why.
func TestTheStoreIsAwayWhileAnEventIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stubborn{Memory: NewMemory()}
		r := newRig(t, store)
		r.start(Config[*Event]{Failure: dispatcher.DeadLetter, StoreTimeout: time.Minute})
		r.failing("a1", dispatcher.Permanent(errShaky))
		r.offer(ev("a1", "a=1"))
		r.sleep(5 * time.Minute)
		require.ErrorIs(t, r.seq.Err(), ErrStopped)
		require.ErrorIs(t, r.seq.Err(), errDiskFull)
		assert.Contains(t, r.seq.Err().Error(), errDiskFull.Error())
		assert.Equal(t, []Result{Unfinished}, r.outcome("a1"))
		r.stop()
	})
}

var errDiskFull = errors.New("the disk is full")

// stubborn is a store that can be read and takes no commits.
type stubborn struct{ *Memory }

func (s *stubborn) Begin(ctx context.Context, c Consumer) (Term, error) {
	term, err := s.Memory.Begin(ctx, c)
	return &stubbornTerm{term}, err
}

type stubbornTerm struct{ Term }

func (t *stubbornTerm) Commit(context.Context, Record) error {
	return &StoreError{Op: "commit", Err: errDiskFull}
}
