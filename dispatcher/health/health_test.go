package health_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/health"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/internal/pause"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a source that shows what a test wants.
type fake struct {
	sync.Mutex
	show func(ctx context.Context, q view.Query) (view.View, error)
}

func (f *fake) View(ctx context.Context, q view.Query) (view.View, error) {
	f.Lock()
	show := f.show
	f.Unlock()
	return show(ctx, q)
}

func (f *fake) set(v view.View, err error) {
	f.Lock()
	defer f.Unlock()
	f.show = func(context.Context, view.Query) (view.View, error) { return v, err }
}

func get(t *testing.T, h http.Handler) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	assert.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	return w.Code, w.Body.String()
}

func monitor(t *testing.T, cfg health.Config) *health.Monitor {
	t.Helper()
	m, err := health.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// A service is ready while all its checks say so. Each change is logged once, with what
// the check says, which whoever asks is not told.
func TestChecks(t *testing.T) {
	var broker, database error
	var log bytes.Buffer
	m := monitor(t, health.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []health.Check{
		{Name: "broker", Check: func(context.Context) error { return broker }},
		{Name: "database", Check: func(context.Context) error {
			if database != nil {
				panic(database)
			}
			return nil
		}},
	}})
	expect := func(status int, body string, logged int) {
		t.Helper()
		for range 2 {
			got, text := get(t, m.Ready())
			assert.Equal(t, status, got)
			assert.JSONEq(t, body, text)
		}
		assert.Equal(t, logged, strings.Count(log.String(), "\n"), log.String())
	}
	expect(http.StatusOK, `{"status":"ready"}`, 0)
	broker = errors.New("password wrong")
	expect(http.StatusServiceUnavailable, `{"status":"not ready","failed":["broker"]}`, 1)
	assert.Contains(t, log.String(), "password wrong")
	broker = nil
	expect(http.StatusOK, `{"status":"ready"}`, 2)
	database = errors.New("no such table")
	expect(http.StatusServiceUnavailable, `{"status":"not ready","failed":["database"]}`, 3)
	assert.Contains(t, log.String(), "the check panicked: no such table")
	status, body := get(t, m.Live())
	assert.Equal(t, http.StatusOK, status)
	assert.JSONEq(t, `{"status":"live"}`, body)
}

// A check that takes too long has failed; one whose asker has left says nothing.
func TestSlowCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		m := monitor(t, health.Config{Reasons: true, Logger: slog.New(slog.NewTextHandler(&log, nil)), Checks: []health.Check{
			{Name: "database", Check: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		}})
		ctx, leave := context.WithCancel(t.Context())
		leave()
		w := httptest.NewRecorder()
		m.Ready().ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		assert.Zero(t, w.Body.Len())
		assert.Empty(t, log.String())

		began := time.Now()
		status, body := get(t, m.Ready())
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.JSONEq(t, `{"status":"not ready","failed":["database"],"reasons":{"database":["context deadline exceeded"]}}`, body)
		assert.Equal(t, time.Second, time.Since(began))
	})
}

// A handler does not return, and others wait for it: the service stays ready, and is stalled,
// with the message that is to blame. When the handler returns, it is well again; and when
// the dispatcher is closed, the service is not ready.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		d, err := dispatcher.New(dispatcher.Config[string]{
			Keys:    func(_ string, c *lockkeys.Claim) error { c.Exclusive(lockkeys.Must("bank")); return nil },
			Handler: func(context.Context, string) error { <-end; return nil },
			Name:    func(m string) string { return m },
		})
		require.NoError(t, err)
		var log bytes.Buffer
		m := monitor(t, health.Config{Reasons: true, Logger: slog.New(slog.NewTextHandler(&log, nil)), Sources: []health.Source{{Name: "transfers", Source: d}}})
		require.NoError(t, d.Submit(t.Context(), "end of day"))
		pause.For(t.Context(), 10*time.Minute)
		status, _ := get(t, m.Stalled())
		assert.Equal(t, http.StatusOK, status, "nobody waits for it")

		require.NoError(t, d.Submit(t.Context(), "deposit"))
		pause.For(t.Context(), 28*time.Second)
		assert.Equal(t, health.Healthy, m.Sources()["transfers"].State)
		pause.For(t.Context(), 4*time.Second)
		status, body := get(t, m.Stalled())
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Regexp(t, `^{"status":"stalled","failed":\["transfers"\],"reasons":{"transfers":\["1 wait, and nothing has begun or ended for 3[0-3] s; end of day, running since an unknown time, is the oldest that holds its keys"\]}}$`, body)
		status, _ = get(t, m.Ready())
		assert.Equal(t, http.StatusOK, status)
		assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())

		close(end)
		pause.For(t.Context(), 3*time.Second)
		status, body = get(t, m.Stalled())
		assert.Equal(t, http.StatusOK, status)
		assert.JSONEq(t, `{"status":"not stalled"}`, body)
		assert.Contains(t, log.String(), "healthy again")

		require.NoError(t, d.Close())
		pause.For(t.Context(), 3*time.Second)
		status, body = get(t, m.Ready())
		assert.Equal(t, http.StatusServiceUnavailable, status)
		assert.Contains(t, body, `"failed":["transfers"]`)
		require.NoError(t, m.Close())
	})
}

// A source that cannot be looked at is unknown and not ready; one that hangs or panics holds
// up no other, and what is parked is for an operator and neither.
func TestSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, parked, away, broken, hangs := &fake{}, &fake{}, &fake{}, &fake{}, &fake{}
		well.set(view.View{}, nil)
		parked.set(view.View{Problems: []string{"1 parked"}}, nil)
		away.set(view.View{}, errors.New("the database is away"))
		broken.show = func(context.Context, view.Query) (view.View, error) { panic("no") }
		hangs.show = func(ctx context.Context, q view.Query) (view.View, error) {
			assert.True(t, q.Brief)
			<-ctx.Done()
			return view.View{}, ctx.Err()
		}
		m := monitor(t, health.Config{Logger: slog.New(slog.DiscardHandler), Sources: []health.Source{
			{Name: "well", Source: well}, {Name: "parked", Source: parked}, {Name: "away", Source: away}, {Name: "broken", Source: broken}, {Name: "hangs", Source: hangs}}})
		assert.Equal(t, map[string]health.Health{
			"well": {State: health.Healthy}, "parked": {State: health.Attention, Reasons: []string{"1 parked"}},
			"away":   {State: health.Unknown, Reasons: []string{"the database is away"}},
			"broken": {State: health.Unknown, Reasons: []string{"looking at it panicked: no"}},
			"hangs":  {State: health.Unknown, Reasons: []string{"context deadline exceeded"}},
		}, m.Sources())
		_, body := get(t, m.Ready())
		assert.JSONEq(t, `{"status":"not ready","failed":["away","broken","hangs"]}`, body)
		for _, f := range []*fake{away, broken, hangs} {
			f.set(view.View{}, nil)
		}
		pause.For(t.Context(), time.Minute)
		status, _ := get(t, m.Ready())
		assert.Equal(t, http.StatusOK, status)
		require.NoError(t, m.Close())
	})
}

func TestBadConfig(t *testing.T) {
	_, err := health.New(health.Config{Timeout: -1, Interval: -1, StalledAfter: -1, Checks: []health.Check{{}}, Sources: []health.Source{{}, {Name: "x"}, {Name: "x"}}})
	require.ErrorIs(t, err, health.ErrConfig)
	for _, problem := range []string{"Timeout is -1ns", "Interval is -1ns", "StalledAfter is -1ns", "Checks[0]: Name is empty", "Checks[0]: Check is nil",
		"Sources[0]: Name is empty", "Sources[0]: Source is nil", `Sources[2]: Name is "x" as another one`} {
		assert.ErrorContains(t, err, problem)
	}
}
