package dispatcher_test

import (
	"context"
	"flag"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	// Other values can be given on the command line.
	_ = flag.Set("rapid.nofailfile", "true")
	_ = flag.Set("rapid.checks", "500")
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// job is the message of most tests: it brings its keys and what its handler
// does.
type job struct {
	name string
	keys []lockkeys.Request
	run  func(ctx context.Context) error // nil: nothing
}

// Names for what the tests use all the time.
type (
	config = dispatcher.Config[*job]
	disp   = dispatcher.Dispatcher[*job]
	event  = dispatcher.Event[*job]
)

func jobKeys(j *job, claim *lockkeys.Claim) error {
	claim.Add(j.keys...)
	return nil
}

func runJob(ctx context.Context, j *job) error {
	if j.run == nil {
		return nil
	}
	return j.run(ctx)
}

// newJob makes a job with keys in text form; "~" before one makes it shared.
func newJob(name string, run func(ctx context.Context) error, keys ...string) *job {
	return &job{name: name, keys: requests(keys...), run: run}
}

func requests(keys ...string) []lockkeys.Request {
	var list []lockkeys.Request
	for _, k := range keys {
		text, shared := strings.CutPrefix(k, "~")
		r := lockkeys.Request{Key: lockkeys.MustParse(text)}
		if shared {
			r.Mode = lockkeys.Shared
		}
		list = append(list, r)
	}
	return list
}

// takes returns a handler that takes a time and gives err. It does not listen
// to its context.
func takes(d time.Duration, err error) func(context.Context) error {
	return func(context.Context) error {
		time.Sleep(d)
		return err
	}
}

// start makes a dispatcher that is closed when the test ends.
func start(t testing.TB, cfg config) *disp {
	t.Helper()
	if cfg.Keys == nil {
		cfg.Keys = jobKeys
	}
	if cfg.Handler == nil && cfg.BatchHandler == nil {
		cfg.Handler = runJob
	}
	d, err := dispatcher.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func submit(t testing.TB, d *disp, jobs ...*job) {
	t.Helper()
	for _, j := range jobs {
		require.NoError(t, d.Submit(t.Context(), j))
	}
}

func drain(t testing.TB, d *disp) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // an hour of a bubble
	defer cancel()
	require.NoError(t, d.Drain(ctx))
}
