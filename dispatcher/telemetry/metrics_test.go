package telemetry_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.uber.org/goleak"

	"github.com/interlock-go/interlock/dispatcher"
	"github.com/interlock-go/interlock/dispatcher/telemetry"
	"github.com/interlock-go/interlock/dispatcher/view"
	"github.com/interlock-go/interlock/lockkeys"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

// job is a message that brings its key and its handler.
type job struct {
	key string
	run func(ctx context.Context) error
}

func run(ctx context.Context, j job) error { return j.run(ctx) }

func start(t *testing.T, cfg dispatcher.Config[job], handler dispatcher.Handler[job]) *dispatcher.Dispatcher[job] {
	cfg.Keys = func(j job, c *lockkeys.Claim) error { c.Exclusive(lockkeys.Must(j.key)); return nil }
	cfg.Handler, cfg.MeasureOneIn = handler, 1
	d, err := dispatcher.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func takes(d time.Duration, err error) func(context.Context) error {
	return func(context.Context) error { time.Sleep(d); return err }
}

// read collects as a reader of the SDK does.
func read(t *testing.T, m *telemetry.Metrics) (map[string]metricdata.Metrics, error) {
	reader := metric.NewManualReader(metric.WithProducer(m))
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	defer func() { require.NoError(t, provider.Shutdown(t.Context())) }()
	var all metricdata.ResourceMetrics
	err := reader.Collect(t.Context(), &all)
	metrics := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		require.Equal(t, telemetry.Scope, scope.Scope.Name)
		require.Equal(t, semconv.SchemaURL, scope.Scope.SchemaURL)
		for _, m := range scope.Metrics {
			require.NotContains(t, metrics, m.Name)
			metrics[m.Name] = m
		}
	}
	return metrics, err
}

// values returns the points of a count by the values of their attributes.
func values(m metricdata.Metrics) map[string]float64 {
	var points []metricdata.DataPoint[float64]
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		points = data.DataPoints
	case metricdata.Gauge[float64]:
		points = data.DataPoints
	}
	all := map[string]float64{}
	for _, p := range points {
		all[text(p.Attributes)] = p.Value
	}
	return all
}

// text returns the values of attributes, sorted by their names.
func text(set attribute.Set) string {
	var words []string
	for _, a := range set.ToSlice() {
		words = append(words, a.Value.AsString())
	}
	return strings.Join(words, " ")
}

// TestMetrics: what two dispatchers have done, and how long it took.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := telemetry.NewMetrics()
		a := start(t, dispatcher.Config[job]{Measure: metrics.Measure("a"), Failure: dispatcher.Park}, run)
		b := start(t, dispatcher.Config[job]{Measure: metrics.Measure("b"), Timeout: time.Second}, run)
		require.NoError(t, metrics.Add("a", a))
		require.NoError(t, metrics.Add("b", b))
		failed := errors.New("failed")
		for _, j := range []job{
			{"x", takes(3*time.Second, nil)},
			{"x", takes(3*time.Second, nil)}, // waits 3 s
			{"y", func(ctx context.Context) error {
				finish, err := dispatcher.Hold(ctx)
				time.AfterFunc(20*time.Second, func() { finish(nil) })
				return err
			}},
			{"z", takes(40*time.Millisecond, failed)},
			{"z", takes(0, nil)}, // behind a parked one
		} {
			require.NoError(t, a.Submit(t.Context(), j))
		}
		require.NoError(t, b.Submit(t.Context(), job{"x", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}))
		require.NoError(t, b.Submit(t.Context(), job{"y", func(context.Context) error { panic("") }}))
		require.NoError(t, a.Drain(t.Context()))
		require.NoError(t, b.Drain(t.Context()))

		got, err := read(t, metrics)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"a succeeded": 3, "a failed": 0, "b succeeded": 0, "b failed": 2}, values(got["interlock.dispatcher.finished"]))
		require.IsType(t, metricdata.Sum[float64]{}, got["interlock.dispatcher.finished"].Data)
		state := values(got["interlock.dispatcher.messages"])
		require.EqualValues(t, 1, state["a parked"])
		require.EqualValues(t, 1, state["a behind"])
		require.EqualValues(t, 0, state["b parked"])
		require.Len(t, state, 16)
		require.InDelta(t, 19.96, values(got["interlock.parked.age"])["a"], 1e-6)
		require.Equal(t, "s", got["interlock.parked.age"].Unit)

		process := histograms(t, got["messaging.process.duration"])
		require.EqualValues(t, 3, process["a process interlock"].Count)
		require.InDelta(t, 6, process["a process interlock"].Sum, 1e-9)
		require.EqualValues(t, 1, process["_OTHER a process interlock"].Count)
		require.EqualValues(t, 1, process["timeout b process interlock"].Count)
		require.EqualValues(t, 1, process["panic b process interlock"].Count)
		wait := histograms(t, got["interlock.dispatcher.lock.wait.duration"])
		require.EqualValues(t, 1, wait["a"].Count)
		require.InDelta(t, 3, wait["a"].Sum, 1e-9)
		require.Zero(t, wait["b"].Count)
		hold := histograms(t, got["interlock.dispatcher.hold.duration"])
		require.InDelta(t, 20, hold["a"].Sum, 1e-9)
		queue := histograms(t, got["interlock.dispatcher.queue.duration"])
		require.EqualValues(t, 4, queue["a"].Count)
		require.InDelta(t, 3, queue["a"].Sum, 1e-9)

		metrics.Remove("a")
		got, err = read(t, metrics)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"b succeeded": 0, "b failed": 2}, values(got["interlock.dispatcher.finished"]))
		require.Len(t, histograms(t, got["interlock.dispatcher.queue.duration"]), 1)
	})
}

// histograms returns the points of a histogram by the values of their attributes.
func histograms(t *testing.T, m metricdata.Metrics) map[string]metricdata.HistogramDataPoint[float64] {
	data, ok := m.Data.(metricdata.Histogram[float64])
	require.True(t, ok)
	require.Equal(t, metricdata.CumulativeTemporality, data.Temporality)
	all := map[string]metricdata.HistogramDataPoint[float64]{}
	for _, p := range data.DataPoints {
		require.Len(t, p.BucketCounts, len(p.Bounds)+1)
		all[text(p.Attributes)] = p
	}
	return all
}

// TestBuckets: a duration is in the bucket whose upper bound is the next one.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		took  time.Duration
		above float64 // the bound below
		up    float64
	}{
		{0, 0, 1e-6},
		{time.Microsecond, 0, 1e-6},
		{1001, 1e-6, 2.5e-6},
		{3 * time.Millisecond, 2.5e-3, 5e-3},
		{2 * time.Minute, 60, 300},
		{time.Hour, 300, 0},
	} {
		metrics := telemetry.NewMetrics()
		metrics.Measure("a")(dispatcher.Measurement{Sampled: true, Handled: c.took})
		got, err := read(t, metrics)
		require.NoError(t, err)
		p := histograms(t, got["messaging.process.duration"])["a process interlock"]
		require.EqualValues(t, 1, p.Count)
		for i, n := range p.BucketCounts {
			if n == 0 {
				continue
			}
			if c.above > 0 {
				require.InEpsilon(t, c.above, p.Bounds[i-1], 1e-9)
			}
			if c.up > 0 {
				require.InEpsilon(t, c.up, p.Bounds[i], 1e-9)
			} else {
				require.Equal(t, len(p.Bounds), i)
			}
		}
	}
}

// TestCommits: how long commits took, and how many events shared one.
func TestCommits(t *testing.T) {
	metrics := telemetry.NewMetrics()
	tell := metrics.Commits("ledger")
	for _, events := range []int{0, 1, 3, 4, 5, 5000} {
		tell(view.Commit{Events: events, Took: 2 * time.Millisecond})
	}
	metrics.Commits("ledger")(view.Commit{Events: 2, Took: time.Millisecond}) // of another one with the name
	metrics.Measure("ledger")(dispatcher.Measurement{Waited: time.Second})

	got, err := read(t, metrics)
	require.NoError(t, err)
	took := histograms(t, got["interlock.store.commit.duration"])["ledger"]
	require.EqualValues(t, 7, took.Count)
	require.InDelta(t, 0.013, took.Sum, 1e-9)
	require.Equal(t, "s", got["interlock.store.commit.duration"].Unit)
	size := histograms(t, got["interlock.store.group.size"])["ledger"]
	require.Equal(t, []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, size.Bounds)
	require.Equal(t, []uint64{1, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1}, size.BucketCounts)
	require.InDelta(t, 5015, size.Sum, 1e-9)
	require.Equal(t, "{event}", got["interlock.store.group.size"].Unit)

	metrics.Remove("ledger")
	got, err = read(t, metrics)
	require.NoError(t, err)
	require.Empty(t, got)
}

// TestSteps: how long calls of steps took, by step, by what they do, and by error.
func TestSteps(t *testing.T) {
	metrics := telemetry.NewMetrics()
	tell := metrics.Steps("checkouts")
	got, err := read(t, metrics)
	require.NoError(t, err)
	require.Empty(t, got)
	for _, s := range []view.Step{
		{Saga: "checkout", Name: "pay", Took: time.Second},
		{Saga: "checkout", Name: "pay", Took: 2 * time.Second},
		{Saga: "checkout", Name: "pay", Took: 3 * time.Second, Err: context.DeadlineExceeded},
		{Saga: "checkout", Name: "pay", Took: 4 * time.Second, Undo: true},
		{Saga: "return", Name: "pay", Took: 5 * time.Second, Err: errors.New("refused")},
	} {
		tell(s)
	}
	got, err = read(t, metrics)
	require.NoError(t, err)
	sums := map[string]float64{}
	for labels, p := range histograms(t, got["interlock.saga.step.duration"]) {
		sums[labels] = p.Sum
	}
	require.Equal(t, map[string]float64{ // the error, the action, the source, the saga and the step
		"do checkouts checkout pay": 3, "timeout do checkouts checkout pay": 3,
		"undo checkouts checkout pay": 4, "_OTHER do checkouts return pay": 5,
	}, sums)
}

// away is a source whose database is away.
type away struct{}

func (away) Metrics(context.Context) ([]view.Metric, error) {
	return []view.Metric{{Name: "known", Points: view.One(1)}}, errors.New("away")
}

// TestSourceFails: the reader gets the error, and everything that is known.
func TestSourceFails(t *testing.T) {
	metrics := telemetry.NewMetrics()
	require.NoError(t, metrics.Add("store", away{}))
	require.NoError(t, metrics.Add("a", start(t, dispatcher.Config[job]{}, run)))
	got, err := read(t, metrics)
	require.ErrorContains(t, err, `metrics of "store": away`)
	require.Equal(t, map[string]float64{"store": 1}, values(got["known"]))
	require.Contains(t, got, "interlock.dispatcher.messages")
}

// panics is a source with a fault.
type panics struct{}

func (panics) Metrics(context.Context) ([]view.Metric, error) { panic("no metrics") }

// TestSourcePanics: that is its error, since readers collect on goroutines of their own, where
// a panic would end the service.
func TestSourcePanics(t *testing.T) {
	metrics := telemetry.NewMetrics()
	require.NoError(t, metrics.Add("faulty", panics{}))
	require.NoError(t, metrics.Add("store", away{}))
	got, err := read(t, metrics)
	require.ErrorContains(t, err, `metrics of "faulty": panic: no metrics`)
	require.Equal(t, map[string]float64{"store": 1}, values(got["known"]))
}

// hangs is a source whose database does not answer.
type hangs struct{}

func (hangs) Metrics(ctx context.Context) ([]view.Metric, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestSourceHangs: it is waited for as long as a scrape can wait, and no other waits for it.
func TestSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := telemetry.NewMetrics()
		require.NoError(t, metrics.Add("one", hangs{}))
		require.NoError(t, metrics.Add("two", hangs{}))
		require.NoError(t, metrics.Add("store", away{}))
		begun := time.Now()
		got, err := read(t, metrics)
		require.Equal(t, 5*time.Second, time.Since(begun))
		require.ErrorContains(t, err, `metrics of "one": context deadline exceeded`)
		require.ErrorContains(t, err, `metrics of "two": context deadline exceeded`)
		require.Equal(t, map[string]float64{"store": 1}, values(got["known"]))
	})
}

func TestNames(t *testing.T) {
	metrics := telemetry.NewMetrics()
	require.NoError(t, metrics.Add("a", away{}))
	require.ErrorIs(t, metrics.Add("a", away{}), telemetry.ErrName)
	require.ErrorIs(t, metrics.Add("", away{}), telemetry.ErrName)
	require.ErrorContains(t, metrics.Add("c", nil), "nil")
	metrics.Remove("b")
	metrics.Remove("a")
	require.NoError(t, metrics.Add("a", away{}))
}

// TestSourceReplaced: the counts of a source that has the name of a removed one, which begin
// at 0 again, are told from those of that by when they begin.
func TestSourceReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := telemetry.NewMetrics()
		begun := func() (finished, process time.Time) {
			d := start(t, dispatcher.Config[job]{Measure: metrics.Measure("a")}, run)
			require.NoError(t, metrics.Add("a", d))
			defer metrics.Remove("a")
			require.NoError(t, d.Submit(t.Context(), job{"x", takes(time.Second, nil)}))
			require.NoError(t, d.Drain(t.Context()))
			got, err := read(t, metrics)
			require.NoError(t, err)
			return got["interlock.dispatcher.finished"].Data.(metricdata.Sum[float64]).DataPoints[0].StartTime,
				got["messaging.process.duration"].Data.(metricdata.Histogram[float64]).DataPoints[0].StartTime
		}
		finished, process := begun()
		finishedNext, processNext := begun()
		require.Equal(t, time.Second, finishedNext.Sub(finished))
		require.Equal(t, time.Second, processNext.Sub(process))
	})
}

// TestMetricsAreListed: METRICS.md has all metrics, with their units and attributes, and no
// others.
func TestMetricsAreListed(t *testing.T) {
	table, err := os.ReadFile("METRICS.md")
	require.NoError(t, err)
	listed := map[string]string{}
	for _, line := range regexp.MustCompile("(?m)^\\| `([a-z._]+)` \\|.*$").FindAllStringSubmatch(string(table), -1) {
		require.NotContains(t, listed, line[1])
		listed[line[1]] = line[0]
	}
	made := regexp.MustCompile(`(?:Name: |histogram\()"((?:interlock|messaging)\.[a-z._]+)"(?:, Unit: "([^"]+)", Help: "([^"]+)")?`)
	seen := map[string]bool{}
	for _, root := range []string{"..", "../../ordering", "../../replay"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range made.FindAllStringSubmatch(string(source), -1) {
				assert.Contains(t, listed, m[1], path)
				assert.Contains(t, listed[m[1]], m[2], m[1])
				assert.Contains(t, listed[m[1]], m[3], m[1])
				seen[m[1]] = true
			}
			return err
		}))
	}
	for name := range listed {
		assert.True(t, seen[name], "nobody makes %s", name)
	}
}
