package dispatcher_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/interlock-go/interlock/dispatcher"
)

// TestNamesOfMessages: errors, logs and what operators see name a message by its
// name and its claim.
func TestNamesOfMessages(t *testing.T) {
	for name, c := range map[string]struct {
		name   func(*job) string
		called string // how the message is called; "" for not at all
	}{
		"none":   {nil, ""},
		"name":   {func(j *job) string { return "job " + j.name }, "job bad"},
		"panics": {func(*job) string { panic(errBoom) }, "(Config.Name panicked)"},
		"exits":  {func(*job) string { runtime.Goexit(); return "" }, "(Config.Name panicked)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				d := start(t, config{Workers: 1, Name: c.name, Failure: dispatcher.Park, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				submit(t, d, newJob("bad", takes(0, errBoom), "a", "~b"))
				drain(t, d)
				want := strings.TrimSpace(c.called + " [a b (shared)]")
				parked := d.Parked()[0]
				require.EqualError(t, parked.Err, "dispatcher: message "+want+" failed after 1 attempts: boom")
				require.Equal(t, c.called, parked.Name)
				require.Equal(t, c.called, d.Snapshot().Messages[0].Name)
				require.Equal(t, c.called != "", strings.Contains(log.String(), fmt.Sprintf("message=%q", c.called)))
				require.Contains(t, log.String(), `claim="[a b (shared)]" id=1`)
				require.Contains(t, log.String(), "err=")
				require.NotContains(t, log.String(), "error=")
				err := d.Close()
				require.ErrorContains(t, err, "1 messages: "+want)
			})
		})
	}
	// Shutdown names what it leaves; a very large claim is cut short.
	synctest.Test(t, func(t *testing.T) {
		var keys []string
		for i := range 20 {
			keys = append(keys, fmt.Sprintf("k%02d", i))
		}
		d := start(t, config{Workers: 1, Name: func(j *job) string { return j.name }})
		submit(t, d, newJob("runs", takes(time.Hour, nil), keys...), newJob("waits", nil, "k07"), newJob("", nil))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := d.Shutdown(ctx)
		require.ErrorContains(t, err, "runs [k00 k01 k02 k03 k04 k05 k06 k07 and 12 more]")
		require.Equal(t, "runs", r.Running[0].Name)
		require.Equal(t, "waits", r.Unfinished[0].Name)
		d = start(t, config{Workers: 1})
		submit(t, d, newJob("runs", takes(time.Second, nil)), newJob("waits", nil))
		synctest.Wait()
		require.ErrorContains(t, d.Close(), "1 messages: without keys")
	})
}

// TestOperatorsContext: what has ended changes nothing.
func TestOperatorsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := start(t, config{Failure: dispatcher.Park})
		submit(t, d, newJob("", takes(0, errBoom), "k"))
		drain(t, d)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGiveUp)
		id := d.Parked()[0].ID
		for _, decide := range []func(context.Context, uint64) error{d.Resume, d.Skip, d.Drop} {
			require.ErrorIs(t, decide(ctx, id), errGiveUp)
			require.Len(t, d.Parked(), 1)
		}
		require.NoError(t, d.Skip(t.Context(), id))
	})
}
