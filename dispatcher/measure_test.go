package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

// measured collects measurements.
type measured struct {
	sync.Mutex
	all []dispatcher.Measurement
}

func (m *measured) add(one dispatcher.Measurement) {
	m.Lock()
	defer m.Unlock()
	m.all = append(m.all, one)
}

// none is a MeasureOneIn that picks next to no message.
const none = math.MaxInt

// TestMeasured: the times of a message of the sample, and what is told of one that is
// not part of it.
func TestMeasured(t *testing.T) {
	failed := errors.New("failed")
	twice := func(first error) func(context.Context) error {
		calls := 0
		return func(context.Context) error {
			time.Sleep(2 * time.Second)
			if calls++; calls%2 == 1 {
				return first
			}
			return nil
		}
	}
	held := func(ctx context.Context) error {
		finish, err := dispatcher.Hold(ctx)
		time.AfterFunc(5*time.Second, func() { finish(nil) })
		time.Sleep(time.Second)
		return err
	}
	sec := time.Second
	first := func(key string) *job { return newJob("first", takes(4*sec, nil), key) }
	for name, c := range map[string]struct {
		before            *job // submitted a second earlier
		run               func(context.Context) error
		cfg               config
		started, finished time.Duration          // after the submission
		want              dispatcher.Measurement // without the times
		sampledOnly       bool                   // it is told of only if it is part of the sample
	}{
		"succeeds": {
			run: takes(3*sec, nil), finished: 3 * sec, sampledOnly: true,
			want: dispatcher.Measurement{Attempts: 1, Handled: 3 * sec},
		},
		"waits for a key": {
			before: first("a"), run: takes(2*sec, nil), started: 3 * sec, finished: 5 * sec,
			want: dispatcher.Measurement{Attempts: 1, Waited: 3 * sec, Handled: 2 * sec},
		},
		"waits for a worker": {
			before: first("b"), run: takes(2*sec, nil), cfg: config{Workers: 1}, started: 3 * sec, finished: 5 * sec, sampledOnly: true,
			want: dispatcher.Measurement{Attempts: 1, Handled: 2 * sec},
		},
		"is tried again": {
			run: twice(failed), cfg: config{MaxAttempts: 2, Backoff: dispatcher.Backoff{Initial: 10 * sec, Jitter: -1}}, finished: 14 * sec,
			want: dispatcher.Measurement{Attempts: 2, Handled: 4 * sec},
		},
		"fails": {
			run: takes(sec, failed), finished: sec,
			want: dispatcher.Measurement{Attempts: 1, Err: failed, Handled: sec},
		},
		"panics": {
			run:  func(context.Context) error { panic(failed) },
			want: dispatcher.Measurement{Attempts: 1, Err: failed},
		},
		"is parked": {
			run: takes(sec, failed), cfg: config{Failure: dispatcher.Park}, finished: sec,
			want: dispatcher.Measurement{Attempts: 1, Parked: true, Err: failed, Handled: sec},
		},
		"is held": {
			run: held, finished: 5 * sec,
			want: dispatcher.Measurement{Attempts: 1, Held: 4 * sec, Handled: sec},
		},
		"widens and waits": {
			before: first("b"), run: twice(dispatcher.Widen(requests("b")...)), finished: 5 * sec,
			want: dispatcher.Measurement{Attempts: 1, Waited: sec, Handled: 4 * sec},
		},
		"has no keys": {
			cfg:  config{Keys: func(*job, *lockkeys.Claim) error { return failed }},
			want: dispatcher.Measurement{Err: failed},
		},
	} {
		for _, oneIn := range []int{1, none} {
			t.Run(fmt.Sprint(name, " one in ", oneIn), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var got measured
					cfg := c.cfg
					cfg.Measure, cfg.MeasureOneIn = got.add, oneIn
					d := start(t, cfg)
					if c.before != nil {
						submit(t, d, c.before)
						time.Sleep(sec)
					}
					submitted := time.Now()
					submit(t, d, newJob("measured", c.run, "a"))
					drain(t, d)
					if oneIn == 1 && c.before != nil {
						got.all = got.all[1:]
					}
					if oneIn == none && c.sampledOnly {
						require.Empty(t, got.all)
						return
					}
					require.Len(t, got.all, 1)
					m := got.all[0]
					require.ErrorIs(t, m.Err, c.want.Err)
					want := c.want
					want.ID, want.Worker, want.Err = m.ID, m.Worker, m.Err
					if oneIn == 1 {
						want.Sampled, want.Submitted, want.Started, want.Finished = true, submitted, submitted.Add(c.started), submitted.Add(c.finished)
					} else {
						want.Handled = 0
					}
					require.Equal(t, want, m)
				})
			})
		}
	}
}

// TestMeasuredResumed: a message that is resumed is measured once more.
func TestMeasuredResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got measured
		d := start(t, config{Measure: got.add, MeasureOneIn: none, Workers: 1, Failure: dispatcher.Park})
		failures := 1
		submit(t, d, newJob("", func(context.Context) error {
			if failures--; failures == 0 {
				return errors.New("failed")
			}
			return nil
		}, "a"), newJob("", nil, "a"))
		drain(t, d)
		require.Len(t, got.all, 1)
		require.True(t, got.all[0].Parked)
		time.Sleep(time.Minute)
		require.NoError(t, d.Resume(t.Context(), 1))
		drain(t, d)
		require.Equal(t, []dispatcher.Measurement{{ID: 1, Attempts: 2}, {ID: 2, Attempts: 1, Waited: time.Minute}}, got.all[1:])
	})
}

// TestMeasuredOnce: what was told when a message was parked is not told again when it is
// resumed, so the times add up.
func TestMeasuredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got measured
		d := start(t, config{Measure: got.add, MeasureOneIn: 1, Workers: 2, Failure: dispatcher.Park})
		held := func(d time.Duration, err error) func(context.Context) error {
			return func(ctx context.Context) error {
				finish, holdErr := dispatcher.Hold(ctx)
				time.AfterFunc(d, func() { finish(err) })
				return holdErr
			}
		}
		run := held(2*time.Second, errBoom)
		submit(t, d, newJob("", takes(time.Second, nil), "a"), newJob("", func(ctx context.Context) error {
			time.Sleep(4 * time.Second)
			return run(ctx)
		}, "a"))
		drain(t, d)
		run = held(8*time.Second, nil)
		require.NoError(t, d.Resume(t.Context(), 2))
		drain(t, d)
		require.Len(t, got.all, 3)
		parked, ended := got.all[1], got.all[2]
		require.True(t, parked.Parked)
		require.Equal(t, []time.Duration{time.Second, 4 * time.Second, 2 * time.Second}, []time.Duration{parked.Waited, parked.Handled, parked.Held})
		require.Equal(t, []time.Duration{0, 4 * time.Second, 8 * time.Second}, []time.Duration{ended.Waited, ended.Handled, ended.Held})
	})
}

// TestMeasuredChains: the messages of a chain have waited until it began, and have its
// time, except those that it did not get to.
func TestMeasuredChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got measured
		d := start(t, config{
			Measure: got.add, MeasureOneIn: 1, Workers: 2, ChainTime: 2 * time.Second,
			Together: func(ctx context.Context, run func(context.Context) error) error { return run(ctx) },
		})
		submit(t, d, newJob("", takes(time.Second, nil), "a"))
		synctest.Wait()
		for range 3 {
			submit(t, d, newJob("", takes(time.Second, nil), "a"))
		}
		drain(t, d)
		var handled, waited []time.Duration
		for _, m := range got.all {
			handled = append(handled, m.Handled/time.Second)
			waited = append(waited, m.Waited/time.Second)
		}
		require.Equal(t, []time.Duration{1, 2, 2, 1}, handled)
		require.Equal(t, []time.Duration{0, 1, 1, 1}, waited)
	})
}

// TestSampleIsOneIn: about as many messages as MeasureOneIn says are part of the sample,
// and of others nothing is told.
func TestSampleIsOneIn(t *testing.T) {
	const n = 32_000
	var got measured
	d := start(t, config{Measure: got.add})
	for range n {
		submit(t, d, newJob("", nil))
	}
	drain(t, d)
	require.InDelta(t, n/32, len(got.all), 200) // more than six standard deviations
	for _, m := range got.all {
		require.True(t, m.Sampled)
	}
}

// TestMeasureFails: a panic in Measure, or the end of its goroutine, is logged and harms
// nothing.
func TestMeasureFails(t *testing.T) {
	for line, fail := range map[string]func(){
		"Measure panicked": func() { panic("of Measure") },
		"completion callback or Measure called runtime.Goexit": runtime.Goexit,
	} {
		t.Run(line, func(t *testing.T) {
			var log strings.Builder
			d := start(t, config{Measure: func(dispatcher.Measurement) { fail() }, MeasureOneIn: 1, Workers: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for range 3 {
				require.NoError(t, d.Do(t.Context(), newJob("", nil, "a")))
			}
			require.NoError(t, d.Close())
			require.Equal(t, 3, strings.Count(log.String(), line))
		})
	}
}
