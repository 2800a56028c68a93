package ordering

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// TestAHandlerThatSucceedsLate: its time is over, and it has succeeded; so the
// event is committed, once, and nothing stops.
func TestAHandlerThatSucceedsLate(t *testing.T) {
	runs := 0
	cfg := Config[*Event]{
		Dispatcher: dispatcher.Config[Job[*Event]]{Timeout: time.Second, MaxAttempts: 3},
		Handler: func(context.Context, Job[*Event]) error {
			runs++
			time.Sleep(2 * time.Second)
			return nil
		},
	}
	story(t, cfg, func(t *testing.T, r *rig) {
		r.offer(series("a", 1, 2)...)
		r.sleep(10 * time.Minute)
		assert.Equal(t, []Result{Applied}, r.outcome("a1"))
		assert.Equal(t, []Result{Applied}, r.outcome("a2"))
		assert.Equal(t, 2, runs)
		require.NoError(t, r.seq.Err())
	})
}

// TestNothingRunsBehindWhatIsLeftOpen: the store stays away while it is asked
// about an attempt that failed. The event is given back, and nothing of its
// stream runs before it comes again.
func TestNothingRunsBehindWhatIsLeftOpen(t *testing.T) {
	store := &stub{Memory: NewMemory()}
	cfg := Config[*Event]{StoreTimeout: time.Minute}
	storyOn(t, store, cfg, func(t *testing.T, r *rig) {
		open := r.gate("a1")
		r.failing("a1", errors.New("bad"))
		r.offer(series("a", 1, 3)...)
		store.away.Store(true) // to be asked; it would take commits
		open()
		r.sleep(5 * time.Minute)
		require.ErrorIs(t, r.seq.Err(), ErrStopped)
		r.stop()
		assert.Equal(t, []Result{Unfinished}, r.outcome("a1"))
		assert.Equal(t, []Result{Unfinished}, r.outcome("a2"))
		assert.Empty(t, r.ran())
	})
}

// TestAGoroutineThatEndsInDoubt: the last attempt has committed, and ended its
// goroutine before it could say so. The store is asked before the event is parked.
func TestAGoroutineThatEndsInDoubt(t *testing.T) {
	var seq *Sequencer[*Event]
	cfg := Config[*Event]{Handler: func(ctx context.Context, job Job[*Event]) error {
		if err := seq.term.Commit(ctx, job.Record()); err != nil {
			return err
		}
		runtime.Goexit()
		return nil
	}}
	story(t, cfg, func(t *testing.T, r *rig) {
		seq = r.seq
		r.offer(ev("a1", "a=1"))
		r.sleep(time.Minute)
		assert.Equal(t, []Result{Applied}, r.outcome("a1"))
		assert.Empty(t, r.parked())
	})
}

// TestACommandThatIsRefusedIsTold: with its ID, also when the first one is done.
func TestACommandThatIsRefusedIsTold(t *testing.T) {
	story(t, Config[*Event]{}, func(t *testing.T, r *rig) {
		r.offer(command("pay-1", "10"))
		r.offer(command("pay-1", "11"))
		assert.Equal(t, []Result{Applied, Refused}, r.outcome("pay-1"))
		assert.Equal(t, uint64(1), r.seq.Stats().Conflicts)
		assert.Contains(t, r.kinds(), EventRefused)
	})
}

// TestAReadBelongsToItsTerm: once another holder has taken over, what it finds
// would be that one's.
func TestAReadBelongsToItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := NewMemory()
		old, heir := newRig(t, store), newRig(t, store)
		old.start(Config[*Event]{})
		heir.start(Config[*Event]{})
		old.offer(ev("a1", "a=1"))
		require.ErrorIs(t, old.seq.Err(), ErrFenced)
		err := old.seq.Read(t.Context(), func(c *lockkeys.Claim) { c.Shared(key("b")) }, func(context.Context) error {
			t.Error("it reads")
			return nil
		})
		require.ErrorIs(t, err, ErrFenced)
		old.stop()
		heir.stop()
	})
}
