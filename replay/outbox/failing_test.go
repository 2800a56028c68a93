package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/ordering"
	"github.com/interlock-go/interlock/replay/outbox"
)

var errNoQueue = errors.New("no queue gets it")

// tenant is a publisher whose events fail while their streams begin with bad/
// and the way to those is closed.
type tenant struct {
	*receiver
	open atomic.Bool
}

func newTenant() *tenant {
	x := &tenant{receiver: newReceiver()}
	x.before = func(_ context.Context, e *ordering.Event, _ int) error {
		if strings.HasPrefix(e.Positions[0].Stream.String(), "bad/") && !x.open.Load() {
			return errNoQueue
		}
		return nil
	}
	return x
}

// fill enqueues one event on each of n streams that begin with prefix.
func fill(t *testing.T, box *outbox.Outbox, db *sql.DB, prefix string, n int) {
	inTx(t, db, func(tx *sql.Tx) {
		for i := range n {
			_, err := box.Enqueue(t.Context(), tx, &ordering.Event{ID: fmt.Sprint(prefix, i)}, keys(fmt.Sprint(prefix, i))...)
			require.NoError(t, err)
		}
	})
	box.Notify()
}

// come waits until the first events of n such streams have come.
func come(t *testing.T, r *receiver, prefix string, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i := range n {
			if len(r.numbers(fmt.Sprint(prefix, i))) == 0 {
				return false
			}
		}
		return true
	}, waitAtMost, 5*time.Millisecond)
}

// lines is a log.
type lines struct {
	sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Buffer.Write(p)
}

// all returns the lines whose message has a part.
func (l *lines) all(t *testing.T, part string) (list []map[string]any) {
	l.Lock()
	defer l.Unlock()
	for line := range strings.Lines(l.String()) {
		entry := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &entry))
		if strings.Contains(entry["msg"].(string), part) {
			list = append(list, entry)
		}
	}
	return list
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// TestManyStreamsFail: more streams than the window, and than are kept in mind,
// fail because one queue is gone. All others are sent, before and behind them in
// the order of the streams; what fails is in the log and the counts, which it
// does not fill; and it is sent when the queue is back.
func TestManyStreamsFail(t *testing.T) {
	for name, test := range map[string]struct {
		config  outbox.RelayConfig
		bad     int
		failing int
		told    int // lines of MaxFailing
	}{
		"kept in mind":    {outbox.RelayConfig{}, 1100, 1100, 0},
		"more than that":  {outbox.RelayConfig{MaxFailing: 100}, 300, 100, 1},
		"a small window":  {outbox.RelayConfig{Window: 2}, 100, 100, 0},
		"a window of one": {outbox.RelayConfig{Window: 1}, 100, 100, 0},
	} {
		run := func(t *testing.T, test func(t *testing.T, p place)) { test(t, newPostgres(t)) }
		if name == "kept in mind" {
			run = everywhere
		}
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, p place) {
				const good = 20
				bad, failing := test.bad, test.failing
				if p.dialect == outbox.SQLite { // its driver is slow with -race
					bad, failing = min(bad, 300), min(failing, 300)
				}
				box, db := p.box(t, outbox.Config{})
				x, log := newTenant(), &lines{}
				config := test.config
				config.Backoff, config.Logger = dispatcher.Backoff{Initial: 50 * time.Millisecond, Max: 2 * time.Second}, log.logger()
				fill(t, box, db, "bad/", bad)
				relay, _ := start(t, box, x, config)
				require.Eventually(t, func() bool { return relay.Stats().Failures >= uint64(bad) }, waitAtMost, 5*time.Millisecond)
				for _, prefix := range []string{"all/", "good/", "bad-too/"} {
					fill(t, box, db, prefix, good)
					come(t, x.receiver, prefix, good)
				}
				assert.Equal(t, failing, relay.Stats().Failing)

				failed := log.all(t, "was not confirmed")
				assert.Len(t, failed, 10, "and no more a minute")
				for _, entry := range failed {
					assert.Equal(t, entry["event"].(string)+"=1", entry["position"])
					assert.Equal(t, errNoQueue.Error(), entry["err"])
				}
				assert.Len(t, log.all(t, "MaxFailing"), test.told)
				x.open.Store(true)
				allSent(t, box)
				x.check(t)
				require.Eventually(t, func() bool { return relay.Stats().Failing == 0 }, waitAtMost, time.Millisecond)
				assert.NotEmpty(t, log.all(t, "go on"))
			})
		})
	}
}

// TestSlowFailures: what takes its time to fail, again and again, holds no more
// than half of the window.
func TestSlowFailures(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		x := newTenant()
		x.before = func(ctx context.Context, e *ordering.Event, times int) error {
			switch {
			case x.open.Load() || !strings.HasPrefix(e.ID, "bad/"):
				return nil
			case times > 0:
				<-ctx.Done()
			}
			return errNoQueue
		}
		relay, _ := start(t, box, x, outbox.RelayConfig{Window: 4, MaxSlow: -1, Timeout: time.Hour, Grace: time.Millisecond})
		fill(t, box, db, "bad/", 20)
		require.Eventually(t, func() bool { s := relay.Stats(); return s.Failing == 20 && s.Sending == 2 }, waitAtMost, time.Millisecond)
		fill(t, box, db, "good/", 20)
		come(t, x.receiver, "good/", 20)
		assert.Equal(t, 20, relay.Stats().Failing)
		x.check(t)
	})
}

// TestReceiverNeverAnswers: more streams than the window whose events are neither
// confirmed nor refused hold up nobody else.
func TestReceiverNeverAnswers(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		x := newTenant()
		x.before = func(ctx context.Context, e *ordering.Event, times int) error {
			if strings.HasPrefix(e.ID, "bad/") {
				<-ctx.Done()
			}
			return ctx.Err()
		}
		relay, _ := start(t, box, x, outbox.RelayConfig{Window: 16, Timeout: time.Hour, Grace: time.Millisecond})
		fill(t, box, db, "bad/", 40)
		fill(t, box, db, "good/", 20)
		come(t, x.receiver, "good/", 20)
		require.Eventually(t, func() bool { return relay.Stats().Sending == 40 }, waitAtMost, time.Millisecond)
		x.check(t)
	})
}

// TestLargeEvents: events that are being published are bounded by their bytes,
// also when they are tried again; and all of them have their turn.
func TestLargeEvents(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		var now, most, failed atomic.Int32
		r := newReceiver()
		r.before = func(_ context.Context, e *ordering.Event, times int) error {
			n := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Millisecond)
			if times == 0 {
				failed.Add(1)
				return errAway
			}
			return nil
		}
		inTx(t, db, func(tx *sql.Tx) {
			for i := range 20 {
				_, err := box.Enqueue(t.Context(), tx, &ordering.Event{Payload: make([]byte, 60_000)}, keys(fmt.Sprint("s/", i))...)
				require.NoError(t, err)
			}
		})
		start(t, box, r, outbox.RelayConfig{MaxBytes: 160_000}) // each is 60 kB
		allSent(t, box)
		r.check(t)
		assert.EqualValues(t, 20, failed.Load())
		assert.LessOrEqual(t, most.Load(), int32(3), "one more than fit in")
	})
}

// wire is a publisher that knows whether it has a way to its receivers.
type wire struct {
	*receiver
	mu struct {
		sync.Mutex
		life context.Context
		cut  context.CancelCauseFunc
	}
}

func newWire() *wire {
	w := &wire{receiver: newReceiver()}
	w.mend()
	w.before = func(context.Context, *ordering.Event, int) error { return context.Cause(w.Alive()) }
	return w
}

func (w *wire) Alive() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.life
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.life, w.mu.cut = context.WithCancelCause(context.Background())
}

// TestThePublisherIsAway: nothing is tried while the way to all receivers is
// lost. That is told once, and its end; it counts against no event; and then all
// is sent.
func TestThePublisherIsAway(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		w, log := newWire(), &lines{}
		arrived, goOn := make(chan struct{}), make(chan struct{})
		w.after = func(ctx context.Context, e *ordering.Event, times int) error {
			if e.ID == "first/0" && times == 0 {
				close(arrived)
				<-goOn
				return errors.New("the confirmation is lost")
			}
			return nil
		}
		relay, _ := start(t, box, w, outbox.RelayConfig{MaxAttempts: 1, Logger: log.logger()})
		fill(t, box, db, "first/", 1)
		<-arrived
		w.mu.cut(errors.New("the broker is gone"))
		require.Eventually(t, func() bool { return relay.Stats().Away }, waitAtMost, time.Millisecond)
		fill(t, box, db, "s/", 200)
		close(goOn)
		require.Eventually(t, func() bool {
			stats := relay.Stats()
			return stats.Failures == 1 && stats.Sending == 0 && len(log.all(t, "publisher is connected again")) > 0
		}, waitAtMost, time.Millisecond)

		w.mend()
		allSent(t, box)
		w.check(t)
		require.Eventually(t, func() bool { return len(log.all(t, "publisher is connected again")) == 2 }, waitAtMost, time.Millisecond)
		told := log.all(t, "publisher is connected again")
		assert.Equal(t, "the broker is gone", told[0]["err"])
		assert.Equal(t, "outbox: the publisher is connected again", told[1]["msg"])
		assert.Empty(t, log.all(t, "parked"))
		stats := relay.Stats()
		assert.False(t, stats.Away)
		assert.Zero(t, stats.Parked)
		assert.EqualValues(t, 1, stats.Failures)
	})
}

// TestParkedIsToldAgain: what is parked is told by a relay that begins, since the
// one that parked it may not know that it has.
func TestParkedIsToldAgain(t *testing.T) {
	everywhere(t, func(t *testing.T, p place) {
		box, db := p.box(t, outbox.Config{})
		x, log := newTenant(), &lines{}
		relay, stop := start(t, box, x, outbox.RelayConfig{MaxAttempts: 1})
		fill(t, box, db, "bad/", 3)
		require.Eventually(t, func() bool { return relay.Stats().Parked == 3 }, waitAtMost, time.Millisecond)
		stop()
		start(t, box, x, outbox.RelayConfig{Logger: log.logger()})
		require.Eventually(t, func() bool { return len(log.all(t, "events are parked")) == 1 }, waitAtMost, time.Millisecond)
		assert.EqualValues(t, 3, log.all(t, "events are parked")[0]["events"])
	})
}
