package ordering

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestAJobIsOverWithItsHandler: what a goroutine does with a job that a handler has left
// behind, since its time was over for example, changes nothing of the event that is handled
// by then: neither its reply nor its outcome, and it is not committed in its place.
func TestAJobIsOverWithItsHandler(t *testing.T) {
	store := NewMemory()
	var left *Job[*Event] // of the event before
	errBad := errors.New("no money")
	cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error {
		before := left
		left = &job
		job.Reply([]byte(job.Event.ID))
		if before != nil {
			before.Reply([]byte("of another client"))
			before.Committed()
			assert.Nil(t, before.Replied())
			assert.ErrorIs(t, before.Over(), ErrJobOver)
			err := store.Commit(ctx, before.Record())
			assert.ErrorIs(t, err, ErrJobOver)
			assert.ErrorContains(t, err, before.Event.ID)
		}
		assert.NoError(t, job.Over())
		if string(job.Event.Payload) == "bad" {
			return errBad
		}
		return nil
	}}
	r := newRig(t, store)
	r.start(cfg)
	for i := range 50 { // each has the item of one before, as a rule
		id := fmt.Sprint("pay-", i)
		o, err := r.seq.Do(t.Context(), command(id, "good"))
		require.NoError(t, err)
		require.Equal(t, Outcome{Result: Applied, Reply: []byte(id)}, o)
		o, err = r.seq.Do(t.Context(), command(id+" bad", "bad"))
		require.ErrorIs(t, err, errBad)
		require.Equal(t, Failed, o.Result)
	}
	r.stop()
}

// TestAReplyIsCopied: a handler may use its buffer again.
func TestAReplyIsCopied(t *testing.T) {
	buffer := make([]byte, 0, 16)
	cfg := Config[*Event]{Handler: func(_ context.Context, job Job[*Event]) error {
		buffer = append(buffer[:0], job.Event.ID...)
		defer func() { copy(buffer, "garbage") }()
		job.Reply(buffer)
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		for range 2 {
			o, err := r.seq.Do(t.Context(), command("pay-1", "10"))
			require.NoError(t, err)
			assert.Equal(t, "pay-1", string(o.Reply))
		}
	})
}
