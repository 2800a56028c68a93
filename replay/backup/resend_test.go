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
	"github.com/interlock-go/interlock/lockkeys"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/backup"
)

// batches is a backup that takes batches, and keeps the numbers of each. What
// becomes of them changes.
type batches struct {
	channel
	each func(e *ordering.Event) error                  // nil: confirm it
	all  func(ctx context.Context, numbers []int) error // nil: see to each
	got  [][]int
}

func (b *batches) Send(ctx context.Context, list []*ordering.Event) (errs []error, err error) {
	b.mu.Lock()
	var numbers []int
	for _, e := range list {
		numbers = append(numbers, int(e.Positions[0].Number))
	}
	b.got = append(b.got, numbers)
	each, all := b.each, b.all
	b.mu.Unlock()
	if all != nil {
		if err := all(ctx, numbers); err != nil {
			return nil, err
		}
	}
	errs = make([]error, len(list))
	for i, e := range list {
		if each != nil {
			errs[i] = each(e)
		}
	}
	return errs, nil
}

// sent returns the batches that have come since it was called last.
func (b *batches) sent() [][]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.got = nil }()
	return b.got
}

// life is that of a primary's connection.
type life struct {
	mu  sync.Mutex
	ctx context.Context
	end context.CancelCauseFunc
}

func newLife() *life {
	l := &life{}
	l.begin()
	return l
}

func (l *life) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.end = context.WithCancelCause(context.Background())
}

func (l *life) alive() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ctx
}

// resending is a rig whose backup takes batches, and whose primary has a life.
type resending struct {
	*rig
	*life
	backup *batches
}

func newResending(t *testing.T, cfg backup.PublisherConfig) *resending {
	t.Helper()
	r := &resending{rig: &rig{primary: &channel{}}, life: newLife(), backup: &batches{}}
	cfg.Primary, cfg.Backup, cfg.Alive = r.primary, r.backup, r.alive
	var err error
	r.Publisher, err = backup.NewPublisher(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, r.Close()) })
	return r
}

// publishAll publishes events of these numbers.
func (r *resending) publishAll(t *testing.T, numbers ...uint64) {
	t.Helper()
	for _, e := range events(numbers...) {
		require.NoError(t, r.Publish(t.Context(), e))
	}
}

// A broker dies with what it has confirmed. The backup gets that at once, in
// order, though no event comes after it.
func TestResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 100})
		r.publishAll(t, 1, 2, 3)
		synctest.Wait()
		assert.Empty(t, r.backup.sent(), "the broker is well")

		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2, 3}}, r.backup.sent())
		s := r.Stats()
		assert.Equal(t, backup.Backup, s.Active)
		require.ErrorIs(t, s.Recent[0].Cause, errDead)
		assert.EqualValues(t, 3, s.Resent)
		assert.EqualValues(t, 3, s.Primary)
		assert.Zero(t, s.Backup)

		// What the receiver has is not sent a third time.
		r.begin()
		r.publishAll(t, 4)
		assert.Equal(t, backup.Primary, r.Stats().Active)
		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{4}}, r.backup.sent())

		// Nor is what came by the backup.
		r.publishAll(t, 5)
		time.Sleep(time.Minute)
		assert.Empty(t, r.backup.sent())
	})
}

// A primary whose errors tell is found out by the events that it fails.
func TestResendWithoutAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 100, Failures: 2})
		r.publishAll(t, 1, 2)
		r.primary.does(fails(errDead))
		r.publishAll(t, 3)
		synctest.Wait()
		assert.Empty(t, r.backup.sent())
		r.publishAll(t, 4)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2}}, r.backup.sent())
	})
}

// As many events are kept as was said, for as long as was said.
func TestResendIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 3, ResendAge: 10 * time.Second})
		r.publishAll(t, 1, 2, 3, 4)
		time.Sleep(9 * time.Second)
		r.publishAll(t, 5)
		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{3, 4, 5}}, r.backup.sent())

		r.begin()
		r.publishAll(t, 6)
		time.Sleep(8 * time.Second)
		r.publishAll(t, 7)
		time.Sleep(3 * time.Second)
		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{7}}, r.backup.sent(), "6 is too old")
	})
}

// What the receiver does not take is sent again until it does, what it refuses
// is not; and when the primary is back the rest is its own.
func TestResendTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := newResending(t, backup.PublisherConfig{Resend: 100, Probe: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		away := errors.New("no route to host")
		set := func(all func(context.Context, []int) error, each func(*ordering.Event) error) {
			r.backup.mu.Lock()
			defer r.backup.mu.Unlock()
			r.backup.all, r.backup.each = all, each
		}
		set(func(context.Context, []int) error { return away }, nil)
		r.publishAll(t, 1, 2, 3, 4)
		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2, 3, 4}}, r.backup.sent())

		set(nil, func(e *ordering.Event) error {
			switch e.Positions[0].Number {
			case 1:
				return dispatcher.Permanent(errors.New("refused"))
			case 3:
				return nil
			}
			return errors.New("pending")
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, [][]int{{1, 2, 3, 4}}, r.backup.sent())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, [][]int{{2, 4}}, r.backup.sent())
		assert.EqualValues(t, 1, r.Stats().Resent)
		assert.EqualValues(t, 1, r.Stats().ResentInVain)
		assert.Contains(t, log.String(), `event=e-1 position="order/7=1" err=refused`)

		r.begin()
		r.publishAll(t, 5)
		time.Sleep(time.Minute)
		assert.Empty(t, r.backup.sent())
	})
}

// What is confirmed late, when the backup is in use already, is sent as well.
func TestResendOfLateConfirmations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 100, Failures: 1, Timeout: time.Hour})
		confirm := make(chan error)
		r.primary.does(func(context.Context) error { return <-confirm })
		var late sync.WaitGroup
		late.Go(func() { assert.NoError(t, r.Publish(t.Context(), event(1))) })
		synctest.Wait()
		r.primary.does(fails(errDead))
		r.publishAll(t, 2)
		synctest.Wait()
		assert.Empty(t, r.backup.sent())
		confirm <- nil
		late.Wait()
		synctest.Wait()
		assert.Equal(t, [][]int{{1}}, r.backup.sent())
	})
}

// A request has a hundred events at most. Whatever else a receiver's bounds are,
// it gets those that are within them.
func TestResendInBatches(t *testing.T) {
	for _, refusal := range []error{
		&backup.Error{Status: 413, Err: backup.ErrTooLarge},
		&backup.Error{Status: 400, Err: backup.ErrBadEvent},
		dispatcher.Permanent(ordering.ErrNilEvent),
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newResending(t, backup.PublisherConfig{Resend: 1000})
			var numbers, got []int
			for n := 1; n <= 250; n++ {
				numbers = append(numbers, n)
				r.publishAll(t, uint64(n))
			}
			r.backup.all = func(_ context.Context, numbers []int) error {
				assert.LessOrEqual(t, len(numbers), 100)
				for _, n := range numbers {
					if n == 77 || n == 200 {
						return refusal
					}
				}
				got = append(got, numbers...)
				return nil
			}
			r.end(errDead)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			assert.Equal(t, append(append(numbers[:76:76], numbers[77:199]...), numbers[200:]...), got)
			assert.Less(t, len(r.backup.sent()), 40)
		})
	}
}

// Close ends what is being sent again, and sends nothing more; events go on.
func TestCloseEndsResending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 10})
		r.backup.all = func(ctx context.Context, _ []int) error { <-ctx.Done(); return ctx.Err() }
		r.publishAll(t, 1)
		r.end(errDead)
		synctest.Wait()
		assert.Equal(t, [][]int{{1}}, r.backup.sent())
		require.NoError(t, r.Close())
		require.NoError(t, r.Close())
		r.publishAll(t, 2)
		r.begin()
		r.publishAll(t, 3)
		r.end(errDead)
		r.publishAll(t, 4)
		time.Sleep(time.Minute)
		assert.Empty(t, r.backup.sent())
		assert.EqualValues(t, 2, r.Stats().Primary)
		assert.EqualValues(t, 2, r.Stats().Backup)
	})
	require.NoError(t, newRig(t, backup.PublisherConfig{}).Close(), "there is nothing to close")
}

// Events of many streams are published while the primary comes and goes. Of each
// stream the receiver gets what was confirmed last, in order.
func TestResendUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 64, Probe: time.Millisecond})
		latest := map[string]uint64{}
		r.backup.each = func(e *ordering.Event) error { // by one goroutine at a time
			p := e.Positions[0]
			assert.Greater(t, p.Number, latest[p.Stream.String()])
			latest[p.Stream.String()] = p.Number
			return nil
		}
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := range uint64(100) {
					e := event(n + 1)
					e.Positions[0].Stream = lockkeys.Must("order", fmt.Sprint(i))
					assert.NoError(t, r.Publish(t.Context(), e))
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 10 {
			time.Sleep(7 * time.Millisecond)
			r.end(errDead)
			time.Sleep(2 * time.Millisecond)
			r.begin()
		}
		all.Wait()
		s := r.Stats()
		assert.EqualValues(t, 2000, s.Primary+s.Backup)
		assert.Greater(t, s.Resent, uint64(100))
	})
}

// Shutdown waits no longer than its context for a request that does not end.
func TestShutdownOfResending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResending(t, backup.PublisherConfig{Resend: 10})
		answer := make(chan struct{})
		r.backup.all = func(context.Context, []int) error { <-answer; return nil }
		r.publishAll(t, 1)
		r.end(errDead)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Shutdown(ctx), context.DeadlineExceeded)
		close(answer)
		require.NoError(t, r.Close())
	})
}

// A backup that panics or ends its goroutine, and an Alive that panics, end neither
// the process nor the resending.
func TestResendingIsNotEndedByItsBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := false
		l := newLife()
		r := &rig{primary: &channel{}}
		to, tries := &batches{}, 0
		to.all = func(context.Context, []int) error {
			switch tries++; tries {
			case 1:
				panic("a bug")
			case 2:
				runtime.Goexit()
			}
			return nil
		}
		p, err := backup.NewPublisher(backup.PublisherConfig{Primary: r.primary, Backup: to, Resend: 10, Alive: func() context.Context {
			if bad {
				panic("another bug")
			}
			return l.alive()
		}})
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
		require.NoError(t, p.Publish(t.Context(), event(1)))
		bad = true
		l.end(errDead) // noticed by a goroutine of the publisher
		synctest.Wait()
		require.Equal(t, backup.Primary, p.Stats().Active)
		bad = false
		require.NoError(t, p.Publish(t.Context(), event(2))) // through the backup
		l.begin()
		require.NoError(t, p.Publish(t.Context(), event(3)))
		l.end(errDead)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, p.Stats().Resent)
		require.Equal(t, 3, tries)
	})
}

// The effects of what a broker has confirmed and nobody has received are there
// while it is dead; what was received is not applied twice.
func TestResendToASequencer(t *testing.T) {
	seq, j := sequencer(t, ordering.Config[*ordering.Event]{GapTimeout: time.Hour})
	c := client(t, serve(t, handler(t, backup.HandlerConfig{Sink: seq})), backup.ClientConfig{})
	l, p := newLife(), &channel{}
	publisher, err := backup.NewPublisher(backup.PublisherConfig{Primary: p, Backup: c, Alive: l.alive, Resend: 10})
	require.NoError(t, err)
	defer func() { assert.NoError(t, publisher.Close()) }()
	for _, e := range events(1, 2, 3) {
		require.NoError(t, publisher.Publish(t.Context(), e))
	}
	require.NoError(t, seq.Offer(t.Context(), event(1), nil))
	l.end(errDead)
	soon(t, func() bool { return publisher.Stats().Resent == 3 }, "the receiver has them")
	assert.Equal(t, []uint64{1, 2, 3}, j.of(order))
}

func TestBadResendConfig(t *testing.T) {
	_, err := backup.NewPublisher(backup.PublisherConfig{Primary: &channel{}, Backup: &channel{}, Resend: 1, ResendAge: -1})
	require.ErrorIs(t, err, backup.ErrConfig)
	assert.ErrorContains(t, err, "Backup has no method Send: give a Client")
	assert.ErrorContains(t, err, "ResendAge is -1ns")
	_, err = backup.NewPublisher(backup.PublisherConfig{Primary: &channel{}, Backup: &batches{}, Resend: -1})
	assert.ErrorContains(t, err, "Resend is -1")
}
