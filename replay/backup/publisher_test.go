package backup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
	"github.com/interlock-go/interlock/replay/outbox"
)

// channel is a publisher whose behaviour changes.
type channel struct {
	mu    sync.Mutex
	do    func(ctx context.Context) error // nil: confirm at once
	calls int
}

func (c *channel) Publish(ctx context.Context, _ *ordering.Event) error {
	c.mu.Lock()
	c.calls++
	do := c.do
	c.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(ctx)
}

func (c *channel) does(do func(ctx context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do = do
}

func (c *channel) called() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

func fails(err error) func(context.Context) error { return func(context.Context) error { return err } }

func hangs(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// rig is a publisher between two channels.
type rig struct {
	*backup.Publisher
	primary, second *channel
	log             bytes.Buffer
}

func newRig(t *testing.T, cfg backup.PublisherConfig) *rig {
	t.Helper()
	r := &rig{primary: &channel{}, second: &channel{}}
	cfg.Primary, cfg.Backup = r.primary, r.second
	cfg.Logger = slog.New(slog.NewTextHandler(&r.log, nil))
	var err error
	r.Publisher, err = backup.NewPublisher(cfg)
	require.NoError(t, err)
	return r
}

// publish sends an event and returns how long that took.
func (r *rig) publish(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	require.NoError(t, r.Publish(t.Context(), event(1)))
	return time.Since(began)
}

// A primary that fails is used until it has failed a few times in a row, though
// each of these events is confirmed by the backup. Then it is left alone, but
// for one event now and then, until one succeeds.
func TestSwitchThereAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Failures: 3, Probe: 10 * time.Second})
		start := time.Now()
		r.publish(t)
		s := r.Stats()
		assert.Equal(t, backup.Stats{Active: backup.Primary, Since: start, Breaker: "closed", Primary: 1}, s)

		r.primary.does(fails(errDead))
		for range 2 {
			assert.Zero(t, r.publish(t))
		}
		assert.Equal(t, backup.Primary, r.Stats().Active)
		time.Sleep(time.Second)
		r.publish(t)
		s = r.Stats()
		assert.Equal(t, backup.Backup, s.Active)
		assert.Equal(t, start.Add(time.Second), s.Since)
		assert.Equal(t, "open", s.Breaker)
		r.publish(t)
		assert.Equal(t, 4, r.primary.called(), "left alone")
		assert.Contains(t, r.log.String(), `level=WARN msg="backup: events go to the backup channel" err="connection refused"`)

		time.Sleep(10*time.Second + 1)
		assert.Equal(t, "half-open", r.Stats().Breaker)
		r.publish(t)
		assert.Equal(t, 5, r.primary.called(), "one has tried it")
		assert.Equal(t, "open", r.Stats().Breaker)
		r.publish(t)
		assert.Equal(t, 5, r.primary.called())

		time.Sleep(10*time.Second + 1)
		r.primary.does(nil)
		r.publish(t)
		r.publish(t)
		s = r.Stats()
		assert.Equal(t, backup.Primary, s.Active)
		assert.Equal(t, "closed", s.Breaker)
		assert.EqualValues(t, 3, s.Primary)
		assert.EqualValues(t, 6, s.Backup)
		assert.Zero(t, s.Failed)
		assert.EqualValues(t, 2, s.Switches)
		require.Len(t, s.Recent, 2)
		assert.Equal(t, backup.Switch{Time: start.Add(time.Second), To: backup.Backup, Cause: errDead}, s.Recent[0])
		assert.Equal(t, backup.Switch{Time: s.Since, To: backup.Primary}, s.Recent[1])
		assert.Contains(t, r.log.String(), `level=INFO msg="backup: events go to the primary channel again" after=20.000000002s events_by_backup=4`)
	})
}

// A primary that hangs costs each event no more than the time-out, and once the
// breaker is open nothing.
func TestSlowPrimary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{})
		r.primary.does(hangs)
		for range 3 {
			assert.Equal(t, 50*time.Millisecond, r.publish(t), "the default")
		}
		assert.Zero(t, r.publish(t))
		s := r.Stats()
		assert.EqualValues(t, 4, s.Backup)
		require.ErrorIs(t, s.Recent[0].Cause, backup.ErrSlow)
		require.ErrorIs(t, s.Recent[0].Cause, context.DeadlineExceeded)
	})
}

// As many events as a relay has on their way wait in the primary when it dies.
// All are with the backup in the same moment, if the primary fails them.
func TestAllFallOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Timeout: time.Minute})
		died := make(chan struct{})
		r.primary.does(func(context.Context) error { <-died; return errDead })
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() { assert.NoError(t, r.Publish(t.Context(), event(1))) })
		}
		time.Sleep(time.Second)
		at := time.Now()
		close(died)
		all.Wait()
		assert.Zero(t, time.Since(at))
		assert.EqualValues(t, 64, r.Stats().Backup)
		assert.EqualValues(t, 1, r.Stats().Switches)
	})
}

// A primary that knows whether it has its broker takes the events that wait in
// it out of it at once, is not asked while it has none, and at once again when
// it has one.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var life context.Context
		var end context.CancelCauseFunc
		live := func() {
			mu.Lock()
			defer mu.Unlock()
			life, end = context.WithCancelCause(context.Background())
		}
		live()
		r := newRig(t, backup.PublisherConfig{Timeout: time.Minute, Probe: time.Hour, Failures: 1, Alive: func() context.Context {
			mu.Lock()
			defer mu.Unlock()
			return life
		}})
		r.primary.does(hangs)
		time.AfterFunc(5*time.Millisecond, func() { end(errDead) })
		assert.Equal(t, 5*time.Millisecond, r.publish(t))
		s := r.Stats()
		assert.Equal(t, backup.Backup, s.Active)
		require.ErrorIs(t, s.Recent[0].Cause, backup.ErrLost)
		require.ErrorIs(t, s.Recent[0].Cause, errDead)
		assert.Equal(t, "closed", s.Breaker, "there is no need for it")

		r.publish(t)
		assert.Equal(t, 1, r.primary.called())

		live()
		r.primary.does(nil)
		r.publish(t)
		s = r.Stats()
		assert.Equal(t, backup.Primary, s.Active)
		assert.EqualValues(t, 1, s.Primary)

		end(errDead) // while nothing is on its way
		r.publish(t)
		assert.Equal(t, backup.Backup, r.Stats().Active)
		live()
		r.publish(t)
		assert.EqualValues(t, 4, r.Stats().Switches)
	})
}

// What is the event's own fault, or the caller's, is not tried by the backup and
// says nothing of the primary.
func TestNotThePrimarysFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Failures: 1})
		r.primary.does(fails(dispatcher.Permanent(errors.New("too large for the broker"))))
		err := r.Publish(t.Context(), event(1))
		assert.True(t, dispatcher.IsPermanent(err))
		assert.EqualError(t, err, "too large for the broker")

		r.primary.does(hangs)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err = r.Publish(ctx, event(1))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, backup.ErrSlow)

		assert.Zero(t, r.second.called())
		s := r.Stats()
		assert.Equal(t, "closed", s.Breaker)
		assert.Equal(t, backup.Primary, s.Active)
		assert.EqualValues(t, 2, s.Failed)
	})
}

// An event that nobody takes is the relay's to send again, unless the receiver
// at the backup's end refuses it for good.
func TestBothFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{})
		r.primary.does(fails(errDead))
		errAway := errors.New("no route to host")
		r.second.does(fails(errAway))
		for i := range 5 {
			err := r.Publish(t.Context(), event(1))
			var failed *backup.FailedError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, errDead)
			require.ErrorIs(t, err, errAway)
			assert.Equal(t, i >= 3, errors.Is(err, backup.ErrResting))
			assert.False(t, dispatcher.IsPermanent(err))
		}
		assert.EqualError(t, r.Publish(t.Context(), event(1)), "backup: neither channel has confirmed the event: "+
			"primary: backup: the primary is not tried for a while after failures; the last one: connection refused; backup: no route to host")
		r.second.does(fails(dispatcher.Permanent(errAway)))
		assert.True(t, dispatcher.IsPermanent(r.Publish(t.Context(), event(1))))
		assert.EqualValues(t, 7, r.Stats().Failed)
		assert.Zero(t, r.Stats().Backup)
	})
}

// An event that is too large for the backup is none for the primary, which may
// take it once it works again: it is not given up.
func TestTooLargeForTheBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Failures: 1, Probe: time.Second})
		r.primary.does(fails(errDead))
		r.second.does(fails(fmt.Errorf("client: %w", dispatcher.Permanent(&backup.Error{Status: 413, Err: backup.ErrTooLarge}))))
		for range 2 {
			err := r.Publish(t.Context(), event(1))
			require.ErrorIs(t, err, backup.ErrTooLarge)
			assert.False(t, dispatcher.IsPermanent(err))
		}
		time.Sleep(time.Second + 1)
		r.primary.does(nil)
		r.publish(t)
	})
}

// An attempt that panics or ends its goroutine counts as a failure, also one
// that tries a primary that was left alone: the next one may try it. The backup
// gets what the primary panicked over.
func TestPrimaryThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Failures: 1, Probe: time.Second})
		for _, end := range []struct {
			does   func(context.Context) error
			backup uint64 // events that it gets
		}{
			{func(context.Context) error { panic("a bug") }, 2},
			{func(context.Context) error { runtime.Goexit(); return nil }, 0},
		} {
			r.primary.does(end.does)
			before := r.Stats().Backup
			for range 2 {
				var publishing sync.WaitGroup
				publishing.Go(func() { assert.NoError(t, r.Publish(context.Background(), event(1))) })
				publishing.Wait()
				assert.Equal(t, "open", r.Stats().Breaker)
				time.Sleep(time.Second + 1)
			}
			assert.Equal(t, end.backup, r.Stats().Backup-before)
		}
		r.primary.does(nil)
		r.publish(t)
		assert.Equal(t, backup.Primary, r.Stats().Active)
	})
}

// One event at a time tries a primary that was left alone; all others go to the
// backup meanwhile. One that the primary has had since before it was left alone
// switches nothing when it is confirmed at last.
func TestProbesAndLateConfirmations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Timeout: time.Hour, Failures: 1, Probe: time.Second})
		confirm := make(chan error)
		r.primary.does(func(context.Context) error { return <-confirm })
		var late, probe sync.WaitGroup
		late.Go(func() { assert.NoError(t, r.Publish(t.Context(), event(1))) })
		synctest.Wait()
		r.primary.does(fails(errDead))
		r.publish(t)
		assert.Equal(t, backup.Backup, r.Stats().Active)
		confirm <- nil
		late.Wait()
		s := r.Stats()
		assert.Equal(t, backup.Backup, s.Active)
		assert.EqualValues(t, 1, s.Primary)
		assert.EqualValues(t, 1, s.Switches)

		time.Sleep(time.Second + 1)
		r.primary.does(func(context.Context) error { return <-confirm })
		probe.Go(func() { assert.NoError(t, r.Publish(t.Context(), event(1))) })
		synctest.Wait()
		r.publish(t)
		r.publish(t)
		assert.Equal(t, 3, r.primary.called())
		confirm <- nil
		probe.Wait()
		assert.Equal(t, backup.Primary, r.Stats().Active)
	})
}

// The latest switches are kept, and no more.
func TestRecentSwitches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, backup.PublisherConfig{Failures: 1, Probe: time.Second})
		for range 20 {
			r.primary.does(fails(errDead))
			r.publish(t)
			time.Sleep(time.Second + 1)
			r.primary.does(nil)
			r.publish(t)
		}
		s := r.Stats()
		assert.EqualValues(t, 40, s.Switches)
		assert.Len(t, s.Recent, 32)
		assert.Equal(t, s.Since, s.Recent[31].Time)
	})
}

func TestBadPublisherConfig(t *testing.T) {
	_, err := backup.NewPublisher(backup.PublisherConfig{Timeout: -1, Failures: -1, Probe: -1})
	require.ErrorIs(t, err, backup.ErrConfig)
	for _, problem := range []string{"Primary is nil", "Backup is nil", "Timeout is -1ns", "Failures is -1", "Probe is -1ns"} {
		assert.ErrorContains(t, err, problem)
	}
	assert.Equal(t, "primary backup Channel(9)", backup.Primary.String()+" "+backup.Backup.String()+" "+backup.Channel(9).String())
	_, err = backup.NewPublisher(backup.PublisherConfig{Primary: outbox.PublisherFunc(nil), Backup: &backup.Client{}})
	require.NoError(t, err)
}
